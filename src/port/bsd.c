/* SPDX-License-Identifier: MIT */
/* Systems but Linux: macOS has most from the BSDs, and darwin.c the rest. */
#undef _XOPEN_SOURCE /* FreeBSD shows all without it */
#define _BSD_SOURCE
#define _DEFAULT_SOURCE

#include "port/port.h"

#ifndef PORT_LINUX

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#if defined __APPLE__ || defined __FreeBSD__ || defined __OpenBSD__
#include <sys/mount.h>
#endif
#ifdef __APPLE__
#include <sys/random.h>
#endif

bool port_random(void *to, size_t len)
{
    return getentropy(to, len) == 0;
}

unsigned port_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

enum port_system port_system(int fd)
{
#ifdef MFSTYPENAMELEN /* of struct statfs */
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0 && strstr(fs.f_fstypename, "fuse") != NULL)
        return PORT_FUSE;
#endif
    (void)fd;
    return PORT_UNKNOWN;
}

#ifndef __APPLE__

bool port_sync(int fd, void *map, size_t len)
{
    return (map == NULL || msync(map, len, MS_SYNC) == 0) && fsync(fd) == 0;
}

bool port_reserve(int fd, off_t off, off_t len)
{
#ifdef __FreeBSD__
    int r = posix_fallocate(fd, off, len);
    errno = r == EOPNOTSUPP || r == EINVAL ? ENOSYS : r; /* ZFS */
    return r == 0;
#else
    (void)fd, (void)off, (void)len;
    errno = ENOSYS;
    return false;
#endif
}

#endif
#endif
