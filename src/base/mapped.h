/*
 * A file mapped for reading. If another process truncates it or the disk fails meanwhile, lost
 * bytes read as zeroes, and mapped_whole reports the loss. It also reports that the file was
 * overwritten.
 *
 *     if (!mapped_open(&m, fd, len)) ...       // errno says why
 *     ... m.data[0..m.len) ...
 *     if (!mapped_whole(&m, end)) ...          // some bytes read before `end` may have been zeroes
 *     mapped_close(&m);
 */
#ifndef BASE_MAPPED_H
#define BASE_MAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Must not be moved while open. */
struct mapped {
    char *data; /* NULL: not open */
    size_t len;
    int fd;
    struct timespec modified; /* when it was opened */
    atomic_bool lost;         /* part of it was found missing; users may set it too */
};

/* Maps the first `len` bytes of a file, at least one; `fd` may be closed afterwards. On failure
 * returns false and sets errno: EFBIG if they do not fit into the address space. */
bool mapped_open(struct mapped *m, int fd, uint64_t len);

/* True if nothing was found missing, the file still has at least `len` bytes, and nobody has
 * written to it since it was opened. */
bool mapped_whole(const struct mapped *m, size_t len);

void mapped_close(struct mapped *m);

#endif
