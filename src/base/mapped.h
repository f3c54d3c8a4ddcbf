/*
 * A file mapped for reading. If another process truncates it or the disk fails meanwhile, lost
 * bytes read as zeroes, and mapped_whole reports the loss.
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

/* Must not be moved while open. */
struct mapped {
    char *data; /* NULL: not open */
    size_t len;
    int fd;
    atomic_bool lost; /* part of it was found missing; users may set it too */
};

/* Maps the first `len` bytes of a file, at least one; `fd` may be closed afterwards. On failure
 * returns false and sets errno: EFBIG if they do not fit into the address space. */
bool mapped_open(struct mapped *m, int fd, uint64_t len);

/* True if nothing was found missing and the file still has at least `len` bytes. */
bool mapped_whole(const struct mapped *m, size_t len);

void mapped_close(struct mapped *m);

#endif
