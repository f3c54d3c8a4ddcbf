/* SPDX-License-Identifier: MIT */
#ifdef __linux__
#define _GNU_SOURCE
#endif

#include "port/port.h"

#ifdef PORT_LINUX

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h> /* renameat2 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

bool port_random(void *to, size_t len)
{
    return getrandom(to, len, 0) == (ssize_t)len;
}

void port_huge(void *at, size_t len)
{
    (void)madvise(at, len, MADV_HUGEPAGE);
}

void port_fill(void *at, size_t len)
{
    port_huge(at, len);
#ifdef MADV_POPULATE_WRITE /* since Linux 5.14 */
    (void)madvise(at, len, MADV_POPULATE_WRITE);
#endif
}

void port_hide_process(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* The mask must be as large as the kernel's, whose size is not known, so larger ones are tried. */
unsigned port_cpus(void)
{
    int found = 0;
    for (size_t room = 1024; found == 0 && room <= 1 << 20; room *= 4) {
        cpu_set_t *set = CPU_ALLOC(room);
        if (set == NULL)
            break;
        size_t size = CPU_ALLOC_SIZE(room);
        if (sched_getaffinity(0, size, set) == 0)
            found = CPU_COUNT_S(size, set);
        CPU_FREE(set);
    }
    return found > 0 ? (unsigned)found : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t port_boot(void)
{
    char uuid[37] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, uuid, sizeof uuid - 1);
        close(fd);
    }
    /* 8-4-4-4-12 digits, all of them random but two. */
    return strtoull(uuid, NULL, 16) << 32 | (strlen(uuid) > 24 ? strtoull(uuid + 28, NULL, 16) : 0);
}

/* Mapped pages are part of the file's. */
bool port_sync(int fd, void *map, size_t len)
{
    (void)len;
    return (map != NULL ? fdatasync(fd) : fsync(fd)) == 0;
}

void port_write_back(int fd)
{
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* 0: to the end */
}

/* Not posix_fallocate: where blocks cannot be taken, glibc writes a byte into each. */
bool port_reserve(int fd, off_t off, off_t len)
{
    if (fallocate(fd, 0, off, len) == 0)
        return true;
    if (errno == EOPNOTSUPP || errno == EINVAL)
        errno = ENOSYS;
    return false;
}

bool port_clear(int fd, off_t off, off_t len)
{
#ifdef FALLOC_FL_ZERO_RANGE /* not in musl's headers */
    return fallocate(fd, FALLOC_FL_ZERO_RANGE, off, len) == 0;
#else
    (void)fd, (void)off, (void)len;
    return false;
#endif
}

bool port_rename_new(int dir_fd, const char *from, const char *to)
{
#ifdef RENAME_NOREPLACE /* of the C library */
    if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL)
        return false;
#else
    (void)dir_fd, (void)from, (void)to;
#endif
    errno = ENOSYS;
    return false;
}

bool port_is_mounted(int dir_fd, const char *name)
{
#ifdef STATX_ATTR_MOUNT_ROOT
    struct statx st;
    return statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, 0, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
    (void)dir_fd, (void)name;
    return false;
#endif
}

enum { FUSE_TYPE = 0x65735546, OVERLAY_TYPE = 0x794c7630 }; /* statfs(2) */

enum port_system port_system(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return PORT_UNKNOWN;
    return (uint32_t)fs.f_type == FUSE_TYPE      ? PORT_FUSE
           : (uint32_t)fs.f_type == OVERLAY_TYPE ? PORT_OVERLAY
                                                 : PORT_UNKNOWN;
}

void port_read_ahead(int fd, off_t start)
{
    (void)posix_fadvise(fd, start, 0, POSIX_FADV_SEQUENTIAL);
}

int port_memory_file(void)
{
    return memfd_create("seen", MFD_CLOEXEC);
}

void port_widen_pipe(int fd, int len)
{
    (void)fcntl(fd, F_SETPIPE_SZ, len);
}

#endif
