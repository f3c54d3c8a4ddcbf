/* SPDX-License-Identifier: MIT */
/* Stands before pwritev, fsync, fdatasync and, with gcc and glibc and no sanitizer, realloc: one of
 * all their calls fails, the next ones do not, as when another program took the last room and gave
 * it back. Nothing is synced.
 *
 *     faulty_begin(n);                       // the call that fails, counted from 0
 *     CHECK(write_all(&err) != faulty_end());
 */
#ifndef FAULTY_H
#define FAULTY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long faulty_after = -1; /* calls before the one that fails; -1: none fails */

static inline void faulty_begin(long n)
{
    faulty_after = n;
}

/* Did one fail? */
static inline bool faulty_end(void)
{
    return atomic_exchange(&faulty_after, -1) < 0;
}

static inline bool faulty_now(int error)
{
    long left = faulty_after;
    while (left >= 0 && !atomic_compare_exchange_weak(&faulty_after, &left, left - 1))
        ;
    if (left == 0)
        errno = error;
    return left == 0;
}

/* It may write less than it was asked to. */
ssize_t pwritev(int fd, const struct iovec *piece, int n, off_t off)
{
    (void)n;
    return faulty_now(ENOSPC) ? -1 : pwrite(fd, piece->iov_base, piece->iov_len, off);
}

int fsync(int fd)
{
    (void)fd;
    return faulty_now(EIO) ? -1 : 0;
}

int fdatasync(int fd)
{
    return fsync(fd);
}

#if defined __GLIBC__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ &&                    \
    !defined __SANITIZE_THREAD__
void *__libc_realloc(void *at, size_t size);

/* Weak, since a static program has that of glibc; there none fails. */
__attribute__((weak)) void *realloc(void *at, size_t size)
{
    return faulty_now(ENOMEM) ? NULL : __libc_realloc(at, size);
}
#endif

#endif
