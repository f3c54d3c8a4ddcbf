/* SPDX-License-Identifier: MIT */
#include "base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "port/port.h"
#include "base/sig.h"

bool disk_is_address(const char *name)
{
    static const char of_scheme[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    size_t n = strspn(name, of_scheme);
    return n > 0 && strncmp(name + n, "://", 3) == 0;
}

bool disk_lacks(const char *name)
{
    return access(name, F_OK) != 0 &&
           (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG);
}

bool disk_write(int fd, const void *buf, uint64_t len, uint64_t off, const char *name,
                struct err *err)
{
    struct iovec all = {.iov_len = (size_t)len};
    memcpy(&all.iov_base, &buf, sizeof buf); /* writing does not modify buf */
    return len == 0 || disk_write_pieces(fd, &all, 1, off, name, err);
}

bool disk_write_pieces(int fd, struct iovec *piece, size_t n, uint64_t off, const char *name,
                       struct err *err)
{
    while (n > 0) {
        ssize_t wrote = port_write_pieces(fd, piece, (int)n, (off_t)off);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote == 0)
            errno = EIO;
        if (wrote <= 0)
            return fail_errno(err, "cannot write '%s'", name);
        off += (uint64_t)wrote;
        size_t left = (size_t)wrote;
        for (; n > 0 && left >= piece->iov_len; piece++, n--)
            left -= piece->iov_len;
        if (n > 0) {
            piece->iov_base = (char *)piece->iov_base + left;
            piece->iov_len -= left;
        }
    }
    return true;
}

bool disk_sync(int fd, void *map, uint64_t len, const char *name, struct err *err)
{
    while (!port_sync(fd, map, (size_t)len))
        if (errno != EINTR)
            return fail_errno(err, "cannot sync '%s'", name);
    return true;
}

bool disk_sync_dir(int dir_fd)
{
    bool ok;
    while (!(ok = port_sync(dir_fd, NULL, 0)) && errno == EINTR)
        ;
    /* Some file systems cannot sync a directory and need not. */
    return ok || errno == EINVAL || errno == ENOSYS;
}

/* "DIR/NAME", allocated. NULL: out of memory. */
static char *join(const char *dir, const char *name)
{
    size_t room = strlen(dir) + strlen(name) + 2;
    char *path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s/%s", dir, name);
    return path;
}

/* What the link at `at` points to, as a path from here; NULL: see errno. */
static char *link_target(const char *at)
{
    char target[PATH_MAX];
    struct stat st;
    ssize_t len = readlink(at, target, sizeof target - 1);
    if (len < 0)
        return NULL;
    target[len] = '\0';
    /* The kernel may refuse to follow another user's link (fs.protected_symlinks). */
    if (stat(at, &st) != 0 && errno != ENOENT)
        return NULL;
    if (target[0] == '/')
        return strdup(target);
    char *dir = disk_dir_of(at), *next = dir != NULL ? join(dir, target) : NULL;
    free(dir);
    return next;
}

char *disk_resolve(const char *path)
{
    char *at = strdup(path);
    for (int hops = 0; at != NULL && hops <= 40; hops++) { /* as many as Linux follows */
        char *next = link_target(at);
        if (next == NULL && (errno == EINVAL || errno == ENOENT || errno == ENOTDIR))
            return at;
        int why = errno;
        free(at);
        at = next;
        errno = at != NULL ? ELOOP : why;
    }
    int why = errno;
    free(at);
    errno = why;
    return NULL;
}

bool disk_sync_name(const char *path, struct err *err)
{
    char *real = disk_resolve(path), *dir = real != NULL ? disk_dir_of(real) : NULL;
    int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool ok = (fd >= 0 && disk_sync_dir(fd)) || (fd < 0 && errno == ENOENT);
    if (fd < 0 && dir != NULL && errno == EACCES) {
        sync(); /* a directory that may be searched, but not read */
        ok = true;
    }
    if (!ok)
        fail_errno(err, "cannot sync the directory of '%s'", path);
    if (fd >= 0)
        close(fd);
    free(dir);
    free(real);
    return ok;
}

/* Removes scratch files in `dir` of processes that were killed before they removed the name. A
 * living process needs no name, and may find it removed. */
static void remove_scratch(const char *dir)
{
    static const char prefix[] = ".seen-scratch.";
    DIR *d = opendir(dir);
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) == 0 &&
            strlen(e->d_name) == sizeof prefix - 1 + 6)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

int disk_scratch(const char *dir, struct err *err)
{
    char *name = join(dir, ".seen-scratch.XXXXXX");
    remove_scratch(dir);
    int fd = name != NULL ? mkstemp(name) : -1;
    if (fd < 0) {
        fail_errno(err, "cannot create a scratch file in '%s'", dir);
    } else if (unlink(name) != 0 && errno != ENOENT) {
        fail_errno(err, "cannot remove '%s'", name);
        close(fd);
        fd = -1;
    } else {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    free(name);
    return fd;
}

bool disk_space(const char *dir, uint64_t *bytes, struct err *err)
{
    struct statvfs vfs;
    if (statvfs(dir, &vfs) != 0)
        return fail_errno(err, "cannot find the free space of '%s'", dir);
    /* A file system that counts no blocks (ramfs) has no limit. */
    *bytes = vfs.f_blocks != 0 ? (uint64_t)vfs.f_bavail * vfs.f_frsize : UINT64_MAX;
    return true;
}

char *disk_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    if (len == 0)
        return strdup(".");
    while (len > 1 && path[len - 1] == '/')
        len--;
    return strndup(path, len);
}

bool disk_read(int fd, void *buf, size_t len, uint64_t off, size_t *got)
{
    *got = 0;
    while (*got < len) {
        ssize_t n = pread(fd, (char *)buf + *got, len - *got, (off_t)(off + *got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        *got += (size_t)n;
    }
    return true;
}

ssize_t disk_read_next(int fd, void *buf, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(fd, (char *)buf + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

bool disk_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool disk_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* ---- Mapped files. */

bool mapped_open(struct mapped *m, int fd, uint64_t len, const char *name)
{
    m->data = NULL;
    if (len > SIZE_MAX) {
        errno = EFBIG;
        return false;
    }
    m->len = (size_t)len;
    struct stat st;
    m->fd = fstat(fd, &st) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (m->fd < 0)
        return false;
    m->modified = st.port_modified;
    void *data = mmap(NULL, m->len, PROT_READ, MAP_SHARED, m->fd, 0);
    if (data != MAP_FAILED) {
        sig_guard(data, len, name, -1);
        m->data = data;
        return true;
    }
    int why = errno;
    close(m->fd);
    errno = why;
    return false;
}

bool mapped_whole(const struct mapped *m)
{
    /* The page with the end of a truncated file reads as zeroes past the end, without a fault. */
    struct stat st;
    return fstat(m->fd, &st) == 0 && (uint64_t)st.st_size >= m->len &&
           disk_same_time(&st.port_modified, &m->modified);
}

void mapped_close(struct mapped *m)
{
    if (m->data == NULL)
        return;
    sig_unguard(m->data);
    munmap(m->data, m->len);
    close(m->fd);
    m->data = NULL;
}
