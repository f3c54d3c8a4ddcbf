/* SPDX-License-Identifier: MIT */
/* Functions that all systems have but POSIX has not. */
#undef _XOPEN_SOURCE /* FreeBSD shows all without it */
#define _BSD_SOURCE
#define _DEFAULT_SOURCE

#include "port/port.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

void port_wipe(void *at, size_t len)
{
    static void *(*volatile const set)(void *, int, size_t) = memset;
    set(at, 0, len);
}

void *port_zeroes(size_t len, int protection, bool lazy)
{
    int flags = MAP_PRIVATE | MAP_ANON | (lazy ? MAP_NORESERVE : 0);
    void *p = mmap(NULL, len, protection, flags, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

uint64_t port_ram(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

ssize_t port_write_pieces(int fd, const struct iovec *piece, int n, off_t off)
{
    return pwritev(fd, piece, n, off);
}

#ifndef __APPLE__
bool port_wait_input(int fd, int milliseconds)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, milliseconds) > 0;
}
#endif
