/* SPDX-License-Identifier: MIT */
#include "file/newfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"
#include "base/sig.h"
#include "file/format.h"
#include "file/lock.h"

/* A temporary name is "." NAME "." plus six random characters plus this suffix. A long NAME is
 * cut, so that together they fit into NAME_MAX. */
static const char temp_suffix[] = ".seen-tmp";
enum { TEMP_RANDOM = 6, TEMP_NAME = NAME_MAX - 1 - 1 - TEMP_RANDOM - (int)sizeof temp_suffix + 1 };

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The file to be replaced. */

static bool exists(const char *path, struct err *err)
{
    return fail(err, "'%s' exists (--force replaces it)", path);
}

static bool not_regular(const char *path, struct err *err)
{
    return fail(err, "'%s' exists and is not a regular file", path);
}

/* Closes the file to be replaced, and so releases its lock. */
static void drop_old(struct newfile *nf)
{
    if (nf->old_fd >= 0)
        port_close(nf->old_fd);
    nf->old_fd = -1;
}

/* May the file be replaced? */
static bool check_old(const struct newfile *nf, struct err *err)
{
    uint8_t start[8];
    struct stat st;
    size_t got;
    if (fstat(nf->old_fd, &st) != 0)
        return fail_errno(err, "cannot look at '%s'", nf->path);
    if (!disk_read(nf->old_fd, start, sizeof start, 0, &got))
        return fail_errno(err, "cannot read '%s'", nf->path);
    return st.st_size == 0 || format_is_filter(start, got) != nf->foreign ||
           fail(err, "'%s' exists and is %s seen filter: not replaced", nf->path,
                nf->foreign ? "a" : "not a");
}

/* Is it a file without a byte, as mktemp(1) makes it? */
static bool old_is_empty(const struct newfile *nf)
{
    struct stat st;
    return !nf->foreign && nf->old_fd >= 0 && fstat(nf->old_fd, &st) == 0 && st.st_size == 0;
}

/* (Re)opens the file that has the name: old_fd is -1 if there is none. Fails if it may not be
 * replaced. */
static bool take_old(struct newfile *nf, struct err *err)
{
    struct stat st;
    drop_old(nf);
    if (fstatat(nf->dir_fd, base_of(nf->path), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || fail_errno(err, "cannot look at '%s'", nf->path);
    if (!S_ISREG(st.st_mode))
        return not_regular(nf->path, err);
    /* As in a container. */
    if (nf->replace && port_is_mounted(nf->dir_fd, base_of(nf->path)))
        return fail(err, "'%s' is a mount point, which cannot be replaced: mount its directory",
                    nf->path);
    /* For writing if possible, since only that permits the full lock. An overlay copies the file
     * then, for which it may lack space. */
    int flags = O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
    nf->old_fd = openat(nf->dir_fd, base_of(nf->path), O_RDWR | flags);
    if (nf->old_fd < 0)
        nf->old_fd = openat(nf->dir_fd, base_of(nf->path), O_RDONLY | flags);
    if (nf->old_fd < 0 && errno == ENOENT)
        return true;
    if (nf->old_fd < 0 && nf->replace)
        return fail_errno(err, "cannot open '%s'", nf->path);
    return (nf->old_fd < 0 || check_old(nf, err)) &&
           (nf->replace || old_is_empty(nf) || exists(nf->path, err));
}

/* Gives the new file the owner (as far as permitted) and the mode of the old one, if there is one.
 * Owner first: changing it can clear bits of the mode. */
static bool inherit(const struct newfile *nf, struct err *err)
{
    struct stat old;
    if (nf->old_fd < 0)
        return true;
    if (fstat(nf->old_fd, &old) != 0)
        return fail_errno(err, "cannot look at '%s'", nf->path);
    if (fchown(nf->fd, old.st_uid, old.st_gid) != 0 && fchown(nf->fd, (uid_t)-1, old.st_gid) != 0 &&
        errno != EPERM && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
        return fail_errno(err, "cannot set the owner of '%s'", nf->path);
    if (fchmod(nf->fd, old.st_mode & 07777) != 0 && errno != EPERM && errno != EOPNOTSUPP)
        return fail_errno(err, "cannot set the mode of '%s'", nf->path);
    return true;
}

/* Does the name still refer to old_fd, or to no file if that is -1? */
static bool old_is_current(const struct newfile *nf, bool *current, struct err *err)
{
    struct stat held, named;
    bool exists = fstatat(nf->dir_fd, base_of(nf->path), &named, AT_SYMLINK_NOFOLLOW) == 0;
    if (!exists && errno != ENOENT)
        return fail_errno(err, "cannot look at '%s'", nf->path);
    *current = !exists;
    if (nf->old_fd < 0)
        return true;
    if (fstat(nf->old_fd, &held) != 0)
        return fail_errno(err, "cannot look at '%s'", nf->path);
    *current = exists && disk_same_file(&held, &named);
    return true;
}

/* Locks writers out of the file to be replaced, if there is one, and makes sure that it is still
 * the one under the name. */
static bool lock_old(struct newfile *nf, struct err *err)
{
    for (;;) {
        if (nf->old_fd >= 0 && !lock_turn(nf->old_fd, nf->path, true))
            return fail_errno(err, "cannot lock '%s'", nf->path);
        bool current = false;
        if (!old_is_current(nf, &current, err))
            return false;
        if (current)
            return true;
        if (nf->held)
            return fail(err, "'%s' was replaced meanwhile", nf->path);
        if (!take_old(nf, err) || !inherit(nf, err) || !disk_sync(nf->fd, NULL, 0, nf->path, err))
            return false;
    }
}

bool newfile_hold(struct newfile *nf, struct err *err)
{
    nf->held = nf->replace && lock_old(nf, err);
    return nf->held || !nf->replace;
}

bool newfile_replaces(const struct newfile *nf, int fd)
{
    struct stat it, old, named;
    if (!nf->replace || fstat(fd, &it) != 0)
        return false;
    /* A file that took the name since then is not locked; the commit will report it. */
    return (nf->old_fd >= 0 && fstat(nf->old_fd, &old) == 0 && disk_same_file(&it, &old)) ||
           (fstatat(nf->dir_fd, base_of(nf->path), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            disk_same_file(&it, &named));
}

void newfile_let_go(struct newfile *nf)
{
    drop_old(nf); /* the commit opens it again */
    nf->held = false;
}

/* Temporary names. */

static bool is_temp_of(const char *name, const char *path)
{
    const char *base = base_of(path);
    size_t base_len = strnlen(base, TEMP_NAME);
    return name[0] == '.' && strncmp(name + 1, base, base_len) == 0 && name[1 + base_len] == '.' &&
           strlen(name) == base_len + 2 + TEMP_RANDOM + sizeof temp_suffix - 1 &&
           strcmp(name + base_len + 2 + TEMP_RANDOM, temp_suffix) == 0;
}

/* A process has locked its temporary file while it uses it. One that can be locked therefore
 * belongs to a dead process. */
static void remove_if_dead(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (lock_try(fd, F_RDLCK, LOCK_TEMP))
        unlinkat(dir_fd, name, 0);
    port_close(fd);
}

/* Removes what dead processes left of the file at `path`, in its directory. */
static void remove_dead(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (is_temp_of(e->d_name, path))
            remove_if_dead(dir_fd, e->d_name);
    closedir(dir);
}

void newfile_clean(const char *path)
{
    char *resolved = disk_resolve(path), *dir = resolved != NULL ? disk_dir_of(resolved) : NULL;
    int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        remove_dead(fd, resolved);
        close(fd);
    }
    free(dir);
    free(resolved);
}

static void forget_temp(struct newfile *nf)
{
    sig_remove(-1, NULL);
    free(nf->temp);
    nf->temp = NULL;
}

/* Makes nf->temp a fresh name. Registers it for removal before the file exists, so that no signal
 * can leave the file behind. */
static bool new_temp(struct newfile *nf, struct err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345"; /* 32 */
    uint8_t noise[TEMP_RANDOM];
    char tail[TEMP_RANDOM + 1] = {0};
    forget_temp(nf);
    if (!port_random(noise, sizeof noise))
        return fail_errno(err, "cannot get random numbers from the system");
    if ((nf->temp = malloc(NAME_MAX + 1)) == NULL)
        return fail(err, "out of memory");
    for (int i = 0; i < TEMP_RANDOM; i++)
        tail[i] = letters[noise[i] % 32];
    snprintf(nf->temp, NAME_MAX + 1, ".%.*s.%s%s", TEMP_NAME, base_of(nf->path), tail, temp_suffix);
    sig_remove(nf->dir_fd, nf->temp);
    return true;
}

/* Locks a file that has a temporary name. errno is EAGAIN or EACCES if remove_dead of another
 * process was faster. */
static bool lock_temp(int fd)
{
    struct stat st;
    if (!lock_try(fd, F_WRLCK, LOCK_TEMP) || fstat(fd, &st) != 0)
        return false;
    errno = EAGAIN;
    return st.st_nlink > 0;
}

/* Creates the file nf->temp. It is its owner's alone if it will take over the mode of an old file,
 * which may be narrower than that of a new one. *again: another name may succeed. */
static bool create_temp(struct newfile *nf, bool *again)
{
    mode_t mode = nf->old_fd >= 0 ? 0600 : 0666;
    nf->fd = openat(nf->dir_fd, nf->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    *again = nf->fd < 0 && errno == EEXIST;
    if (nf->fd < 0)
        return false;
    if (lock_temp(nf->fd))
        return true;
    int why = errno;
    *again = why == EAGAIN || why == EACCES;
    unlinkat(nf->dir_fd, nf->temp, 0);
    port_close(nf->fd);
    nf->fd = -1;
    errno = why;
    return false;
}

static bool open_temp(struct newfile *nf, struct err *err)
{
    bool again = true;
    for (int tries = 0; again && tries < 100; tries++) {
        if (!new_temp(nf, err))
            return false;
        if (create_temp(nf, &again))
            return true;
    }
    fail_errno(err, "cannot create '%s'", nf->path);
    forget_temp(nf);
    return false;
}

static bool open_all(struct newfile *nf, const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        return not_regular(path, err);
    nf->path = disk_resolve(path);
    if (nf->path == NULL)
        return fail_errno(err, "cannot create '%s'", path);
    if (*base_of(nf->path) == '\0') {
        errno = *nf->path == '\0' ? ENOENT : EISDIR;
        return fail_errno(err, "cannot create '%s'", path);
    }
    char *dir = disk_dir_of(nf->path);
    if (dir == NULL)
        return fail(err, "out of memory");
    nf->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (nf->dir_fd < 0 && disk_is_address(path) && disk_lacks(path))
        return fail(err, "'%s' is an address: 'seen export' writes a filter there", path);
    if (nf->dir_fd < 0)
        return fail_errno(err, "cannot create '%s'", path);
    remove_dead(nf->dir_fd, nf->path);
    return take_old(nf, err) && open_temp(nf, err) && inherit(nf, err);
}

static bool open_new(struct newfile *nf, const char *path, bool replace, bool foreign,
                     struct err *err)
{
    *nf = (struct newfile){
        .fd = -1, .dir_fd = -1, .old_fd = -1, .replace = replace, .foreign = foreign};
    if (open_all(nf, path, err))
        return true;
    newfile_close(nf);
    return false;
}

bool newfile_open(struct newfile *nf, const char *path, bool replace, struct err *err)
{
    nf->path = NULL;
    if (strcmp(path, "-") == 0)
        return fail(err, "a filter cannot go to standard output; './-' is a file of the name '-'");
    if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/fd/1") == 0 ||
        strcmp(path, "/proc/self/fd/1") == 0)
        return fail(err, "a filter cannot go to standard output; give the name of a file");
    return open_new(nf, path, replace, false, err);
}

bool newfile_open_foreign(struct newfile *nf, const char *path, bool replace, struct err *err)
{
    return open_new(nf, path, replace, true, err);
}

bool newfile_reserve(struct newfile *nf, uint64_t first, uint64_t len, struct err *err)
{
    struct statvfs vfs;
    if (ftruncate(nf->fd, 0) != 0)
        return fail_errno(err, "cannot write '%s'", nf->path);
    /* Checked first: a failing allocation would fill the disk before it reports ENOSPC. */
    if (fstatvfs(nf->fd, &vfs) == 0 && vfs.f_blocks != 0 &&
        len / vfs.f_frsize > (uint64_t)vfs.f_bavail)
        return fail(err, "cannot create '%s': %" PRIu64 " bytes are needed, %" PRIu64 " are free",
                    nf->path, len, (uint64_t)vfs.f_bavail * vfs.f_frsize);
    bool ok;
    do
        ok = first == 0 || port_reserve(nf->fd, 0, (off_t)first);
    while (!ok && errno == EINTR && !sig_caught());
    /* If blocks cannot be reserved, rely on the check above. */
    if (ok ? first < len : errno == ENOSYS)
        ok = ftruncate(nf->fd, (off_t)len) == 0;
    return ok || fail_errno(err, "cannot create '%s' with %" PRIu64 " bytes", nf->path, len);
}

/* Takes the name with an empty file, and replaces that: for a file system without links. */
static bool rename_over_empty(const struct newfile *nf, const char *base)
{
    int fd = openat(nf->dir_fd, base, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    close(fd);
    if (renameat(nf->dir_fd, nf->temp, nf->dir_fd, base) == 0)
        return true;
    int why = errno;
    unlinkat(nf->dir_fd, base, 0);
    errno = why;
    return false;
}

/* Renames without replacing; if the system cannot, by link and unlink. */
static bool rename_new(const struct newfile *nf)
{
    const char *base = base_of(nf->path);
    if (port_rename_new(nf->dir_fd, nf->temp, base))
        return true;
    if (errno != ENOSYS)
        return false;
    if (linkat(nf->dir_fd, nf->temp, nf->dir_fd, base, 0) != 0)
        return (errno == EPERM || errno == EOPNOTSUPP) && rename_over_empty(nf, base);
    unlinkat(nf->dir_fd, nf->temp, 0);
    return true;
}

/* Gives the file its name. errno is EEXIST if a file other than old_fd has the name; err is set on
 * other failures. */
static bool give_name(struct newfile *nf, struct err *err)
{
    bool ok = nf->old_fd >= 0 ? renameat(nf->dir_fd, nf->temp, nf->dir_fd, base_of(nf->path)) == 0
                              : rename_new(nf);
    if (!ok) {
        int saved = errno;
        fail_errno(err, "cannot create '%s'", nf->path);
        errno = saved;
        return false;
    }
    forget_temp(nf);
    return true;
}

bool newfile_commit(struct newfile *nf, struct err *err)
{
    if (!disk_sync(nf->fd, NULL, 0, nf->path, err))
        return false;
    for (;;) {
        if ((nf->replace || nf->old_fd >= 0) && !lock_old(nf, err))
            return false;
        bool attached = nf->old_fd >= 0 && lock_alive(nf->old_fd);
        if (give_name(nf, err)) {
            nf->attached = attached;
            break;
        }
        if (errno != EEXIST)
            return false;
        if (!nf->replace)
            return exists(nf->path, err);
    }
    return nf->hasty || disk_sync_dir(nf->dir_fd) ||
           fail_errno(err, "cannot sync the directory of '%s'", nf->path);
}

void newfile_close(struct newfile *nf)
{
    if (nf->path == NULL)
        return;
    if (nf->temp != NULL) {
        unlinkat(nf->dir_fd, nf->temp, 0);
        forget_temp(nf);
    }
    free(nf->path);
    drop_old(nf);
    if (nf->fd >= 0)
        port_close(nf->fd);
    if (nf->dir_fd >= 0)
        close(nf->dir_fd);
    nf->fd = nf->dir_fd = -1;
    nf->path = NULL;
}
