/*
 * A file that is mapped to be read and may lose its end while it is in use: another process
 * truncates it, or the disk fails. What is lost reads as zeroes, and mapped_whole tells.
 *
 *     if (!mapped_open(&m, fd, len)) ...       // errno says why
 *     ... m.data[0..m.len) ...
 *     if (!mapped_whole(&m, end)) ...          // what was read up to there may have been zeroes
 *     mapped_close(&m);
 */
#ifndef BASE_MAPPED_H
#define BASE_MAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Must not be moved while it is open. */
struct mapped {
    char *data; /* NULL when it is not open */
    size_t len;
    int fd;
    atomic_bool lost; /* some of it has been found missing; a user may set it */
};

/* Maps the first `len` bytes of a file, at least one; `fd` may be closed afterwards. False, with
 * errno set, if they cannot be mapped: EFBIG if they do not fit into the address space. */
bool mapped_open(struct mapped *m, int fd, uint64_t len);

/* Are the first `len` bytes in the file, and so were they when they were read? */
bool mapped_whole(const struct mapped *m, size_t len);

void mapped_close(struct mapped *m);

#endif
