/* SPDX-License-Identifier: MIT
 * Locks of open files, which Linux and macOS have. Elsewhere they are made of POSIX locks, which
 * belong to the process, and which close() of any descriptor of the file gives up. So this process
 * keeps a list of what its descriptors have locked. The process holds the strictest lock that one
 * of them wants, and a descriptor stays open while another one of the file has a lock.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif

#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#ifndef PORT_POSIX_LOCKS

#ifndef F_OFD_SETLK /* macOS has them longer than its headers */
enum { F_OFD_SETLK = 90, F_OFD_SETLKW, F_OFD_GETLK };
#endif

bool port_lock(int fd, short type, off_t byte, bool wait)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l) == 0;
}

bool port_locked(int fd, off_t byte, off_t n, bool *locked)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = n};
    bool ok = fcntl(fd, F_OFD_GETLK, &l) == 0;
    *locked = ok && l.l_type != F_UNLCK;
    return ok;
}

void port_close(int fd)
{
    close(fd);
}

#else

#include <pthread.h>
#include <stdlib.h>

/* A lock of a descriptor; or, with F_UNLCK, a descriptor that is to be closed. */
struct entry {
    struct entry *next;
    dev_t dev;
    ino_t ino;
    int fd;
    off_t byte;
    short type;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static pid_t owner;

/* A child inherits no lock. */
static void lock_list(void)
{
    pthread_mutex_lock(&mutex);
    if (owner != getpid())
        entries = NULL;
    owner = getpid();
}

static void unlock_list(void)
{
    int saved = errno;
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

static bool add_entry(int fd, const struct stat *st, short type, off_t byte)
{
    struct entry *e = malloc(sizeof *e);
    if (e == NULL)
        return false;
    *e = (struct entry){entries, st->st_dev, st->st_ino, fd, byte, type};
    entries = e;
    return true;
}

static void drop_entry(struct entry **link)
{
    struct entry *e = *link;
    *link = e->next;
    free(e);
}

static bool is_of(const struct entry *e, const struct stat *st)
{
    return e->dev == st->st_dev && e->ino == st->st_ino;
}

/* The strictest lock of these bytes that other descriptors of this process have. */
static short others_type(int fd, const struct stat *st, off_t byte, off_t n)
{
    short strictest = F_UNLCK;
    for (const struct entry *e = entries; e != NULL; e = e->next)
        if (e->fd != fd && is_of(e, st) && e->byte >= byte && e->byte - byte < n &&
            (e->type == F_WRLCK || strictest == F_UNLCK))
            strictest = e->type;
    return strictest;
}

static bool system_lock(int fd, short type, off_t byte)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_SETLK, &l) == 0;
}

static bool change_lock(int fd, const struct stat *st, short type, off_t byte)
{
    struct entry **link = &entries;
    short others = others_type(fd, st, byte, 1);
    while (*link != NULL && ((*link)->fd != fd || (*link)->byte != byte))
        link = &(*link)->next;
    if (*link == NULL && type == F_UNLCK)
        return true;
    if ((type == F_WRLCK && others != F_UNLCK) || (type == F_RDLCK && others == F_WRLCK)) {
        errno = EAGAIN;
        return false;
    }
    if (!system_lock(fd, type == F_UNLCK ? others : type, byte))
        return false;
    if (*link != NULL)
        drop_entry(link);
    return type == F_UNLCK || add_entry(fd, st, type, byte);
}

/* Waits by polling: a thread that waited in the kernel would keep the others from unlocking. */
bool port_lock(int fd, short type, off_t byte, bool wait)
{
    struct stat st;
    for (;;) {
        lock_list();
        bool ok = fstat(fd, &st) == 0 && change_lock(fd, &st, type, byte);
        unlock_list();
        if (ok || !wait || (errno != EAGAIN && errno != EACCES))
            return ok;
        if (nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL) != 0)
            return false;
    }
}

bool port_locked(int fd, off_t byte, off_t n, bool *locked)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = n};
    struct stat st;
    lock_list();
    bool ok = fstat(fd, &st) == 0 && fcntl(fd, F_GETLK, &l) == 0;
    *locked = ok && (l.l_type != F_UNLCK || others_type(fd, &st, byte, n) != F_UNLCK);
    unlock_list();
    return ok;
}

/* Closes the descriptors of a file that wait for it, once nothing of it is locked. */
static void close_waiting(const struct stat *st)
{
    for (const struct entry *e = entries; e != NULL; e = e->next)
        if (is_of(e, st) && e->type != F_UNLCK)
            return;
    for (struct entry **link = &entries; *link != NULL;)
        if (is_of(*link, st)) {
            close((*link)->fd);
            drop_entry(link);
        } else {
            link = &(*link)->next;
        }
}

void port_close(int fd)
{
    struct stat st;
    lock_list();
    if (fstat(fd, &st) != 0)
        st = (struct stat){0};
    for (struct entry **link = &entries; *link != NULL;)
        if ((*link)->fd == fd) {
            system_lock(fd, others_type(fd, &st, (*link)->byte, 1), (*link)->byte);
            drop_entry(link);
        } else {
            link = &(*link)->next;
        }
    if (add_entry(fd, &st, F_UNLCK, -1)) /* else it stays open */
        close_waiting(&st);
    unlock_list();
}

#endif
