/* SPDX-License-Identifier: MIT */
/* macOS, where it differs from the BSDs. */
#include "port/port.h"

#ifdef __APPLE__

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <unistd.h>

/* errno of a file system that does not have the call */
static bool is_unknown(void)
{
    return errno == ENOTSUP || errno == ENOTTY || errno == EINVAL;
}

/* fsync leaves data in the drive's cache, and mapped pages in memory. */
bool port_sync(int fd, void *map, size_t len)
{
    if (map != NULL && msync(map, len, MS_SYNC) != 0)
        return false;
    return fcntl(fd, F_FULLFSYNC) == 0 || (is_unknown() && fsync(fd) == 0);
}

bool port_reserve(int fd, off_t off, off_t len)
{
    fstore_t blocks = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = len};
    if (fcntl(fd, F_PREALLOCATE, &blocks) == 0)
        return ftruncate(fd, off + len) == 0;
    if (is_unknown())
        errno = ENOSYS;
    return false;
}

bool port_rename_new(int dir_fd, const char *from, const char *to)
{
    if (renameatx_np(dir_fd, from, dir_fd, to, RENAME_EXCL) == 0)
        return true;
    if (is_unknown())
        errno = ENOSYS;
    return false;
}

/* poll knows no devices here. */
bool port_wait_input(int fd, int milliseconds)
{
    fd_set set;
    struct timeval wait = {milliseconds / 1000, milliseconds % 1000 * 1000};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd >= FD_SETSIZE)
        return poll(&p, 1, milliseconds) > 0;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, &wait) > 0;
}

#endif
