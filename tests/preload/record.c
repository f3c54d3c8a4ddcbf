/* SPDX-License-Identifier: MIT
 * Records what a program does to the files of one directory, so that a power cut can be replayed at
 * any point of it (power/replay.py):
 *
 *     LD_PRELOAD=preload.so RECORD_DIR=/tmp/d RECORD_LOG=/tmp/log seen add /tmp/d/f.seen ...
 *
 * The program changes its files through shared mappings too, which no call tells of. So at each
 * call that may change them, all pages of the open files that have changed since the last one are
 * appended to the log. Between two syncs the log then has the versions of each page, in order.
 * Mappings are kept read-only, and a page is made writable when a write to it faults: that tells
 * which pages were written, even if with what they had contained, for a sync writes those too.
 *
 * A record of the log is a head and its payload, in the machine's byte order:
 *
 *     'N' ino            a file was made, or comes into view
 *     'Z' ino size       the file's size has changed
 *     'P' ino page       a page has changed; the payload is what it contains now
 *     'W' ino page       a page was written, changed or not
 *     'F' ino ok         the file was synced (0: that failed)
 *     'D' ok             the directory was synced
 *     'L'                the directory's names have changed; the payload: "INO NAME\n"...
 *     'O'                the payload was written to standard output
 *     'C' n              the program's nth call comes; the payload is its name
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "record.h"

enum { PAGE = 4096, MAX_FD = 256, MAX_FILES = 64, MAX_LEN = 1 << 22, MAX_MAPS = 16 };

struct head {
    uint64_t type, ino, arg, len;
};

/* A file as the log has it. */
struct file {
    uint64_t ino, size;
    uint8_t *data;
};

/* A writable mapping of a file. */
struct map {
    uint8_t *at;
    size_t len;
    uint64_t ino;
    volatile sig_atomic_t written[MAX_LEN / PAGE];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file files[MAX_FILES];
static size_t n_files;
static struct file *open_file[MAX_FD];
static struct map maps[MAX_MAPS];
static char dir[PATH_MAX], listing[1 << 16];
static int log_fd = -1;
static _Thread_local bool is_on; /* between begin and end */
static uint64_t n_calls;

static void put(char type, uint64_t ino, uint64_t arg, const void *payload, size_t len)
{
    struct head head = {(uint64_t)type, ino, arg, len};
    struct iovec v[2] = {{&head, sizeof head}, {NULL, len}};
    memcpy(&v[1].iov_base, &payload, sizeof payload);
    if (writev(log_fd, v, 2) != (ssize_t)(sizeof head + len))
        abort();
}

/* One process at a time appends; the lock goes with the process if that is killed. */
static void lock_log(short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET};
    while (NEXT(fcntl, "fcntl64")(log_fd, F_OFD_SETLKW, &l) != 0)
        if (errno != EINTR)
            abort();
}

/* A write to a page that was not written since the last call. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    for (struct map *m = maps; m < maps + MAX_MAPS; m++) {
        uintptr_t off = (uintptr_t)info->si_addr - (uintptr_t)m->at;
        if (m->at != NULL && (uintptr_t)info->si_addr >= (uintptr_t)m->at && off < m->len) {
            m->written[off / PAGE] = 1;
            mprotect(m->at + off / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE);
            return;
        }
    }
    signal(sig, SIG_DFL);
}

static void note_written(void)
{
    for (struct map *m = maps; m < maps + MAX_MAPS; m++)
        for (size_t page = 0; m->at != NULL && page < (m->len + PAGE - 1) / PAGE; page++)
            if (m->written[page]) {
                m->written[page] = 0;
                mprotect(m->at + page * PAGE, PAGE, PROT_READ);
                put('W', m->ino, page, NULL, 0);
            }
}

__attribute__((constructor)) static void start(void)
{
    const char *log = getenv("RECORD_LOG"), *where = getenv("RECORD_DIR");
    if (log == NULL || where == NULL || realpath(where, dir) == NULL)
        return;
    /* Out of the way of the numbers that the program gets. */
    int fd = NEXT(open, "open64")(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    log_fd = NEXT(fcntl, "fcntl64")(fd, F_DUPFD_CLOEXEC, MAX_FD);
    NEXT(close, "close")(fd);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (log_fd < 0 || sigaction(SIGSEGV, &action, NULL) != 0)
        abort();
}

static void note_file(int fd, struct file *f)
{
    static uint8_t now[MAX_LEN];
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size > MAX_LEN)
        abort();
    uint64_t size = (uint64_t)st.st_size;
    memset(now, 0, size + PAGE <= MAX_LEN ? (size_t)size + PAGE : MAX_LEN);
    ssize_t got = pread(fd, now, (size_t)size, 0);
    if (got < 0)
        return; /* open for writing only */
    if (size != f->size)
        put('Z', f->ino, size, NULL, 0);
    for (uint64_t at = 0; at < size || at < f->size; at += PAGE)
        if (memcmp(now + at, f->data + at, PAGE) != 0)
            put('P', f->ino, at / PAGE, now + at, PAGE);
    memcpy(f->data, now, (size_t)(size > f->size ? size : f->size));
    f->size = size;
}

static void note_names(void)
{
    static char now[sizeof listing];
    size_t len = 0;
    DIR *d = opendir(dir);
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_type == DT_REG && len + PATH_MAX < sizeof now)
            len += (size_t)sprintf(now + len, "%" PRIu64 " %s\n", (uint64_t)e->d_ino, e->d_name);
    closedir(d);
    now[len] = '\0';
    if (strcmp(now, listing) != 0)
        put('L', 0, 0, now, len);
    memcpy(listing, now, len + 1);
}

static void note_all(void)
{
    note_written();
    for (int fd = 0; fd < MAX_FD; fd++)
        if (open_file[fd] != NULL)
            note_file(fd, open_file[fd]);
    note_names();
}

void record_begin(const char *call)
{
    if (log_fd < 0)
        return;
    pthread_mutex_lock(&mutex);
    is_on = true;
    lock_log(F_WRLCK);
    note_all();
    put('C', 0, ++n_calls, call, strlen(call));
}

bool record_is_on(void)
{
    return is_on;
}

void record_end(void)
{
    int saved = errno;
    if (!is_on)
        return;
    note_all();
    lock_log(F_UNLCK);
    is_on = false;
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

/* Is this a file of the directory, with a name or without? */
static bool is_ours(int fd, struct stat *st)
{
    char link[40], path[PATH_MAX];
    if (fd < 0 || fd >= MAX_FD || fstat(fd, st) != 0 || !S_ISREG(st->st_mode))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    size_t dir_len = strlen(dir);
    return len > (ssize_t)dir_len && memcmp(path, dir, dir_len) == 0 && path[dir_len] == '/';
}

void record_open(int fd, int flags)
{
    struct stat st;
    bool is_new = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (!is_on || !is_ours(fd, &st))
        return;
    size_t i = 0;
    while (i < n_files && (files[i].ino != st.st_ino || is_new))
        i++;
    if (i == n_files) {
        if (n_files == MAX_FILES)
            abort();
        files[n_files++] = (struct file){.ino = st.st_ino, .data = calloc(1, MAX_LEN)};
        if (is_new)
            put('N', st.st_ino, 0, NULL, 0);
    }
    open_file[fd] = &files[i];
}

bool record_knows(int fd)
{
    return fd >= 0 && fd < MAX_FD && open_file[fd] != NULL;
}

void record_close(int fd)
{
    if (is_on)
        open_file[fd] = NULL;
}

void record_range(int fd, off_t off, ssize_t len)
{
    if (!is_on || !record_knows(fd) || len < 0)
        return;
    for (off_t page = off / PAGE; page * PAGE < off + len; page++)
        put('W', open_file[fd]->ino, (uint64_t)page, NULL, 0);
}

void record_output(const void *data, ssize_t len)
{
    if (is_on && len > 0)
        put('O', 0, 0, data, (size_t)len);
}

void record_sync(int fd, bool ok)
{
    struct stat st;
    if (is_on && record_knows(fd))
        put('F', open_file[fd]->ino, ok, NULL, 0);
    else if (is_on && ok && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        put('D', 0, 1, NULL, 0);
}

static struct map *map_at(const void *at)
{
    for (struct map *m = maps; m < maps + MAX_MAPS; m++)
        if (m->at == at)
            return m;
    return NULL;
}

void record_map(void *at, size_t len, int fd)
{
    struct map *m = map_at(NULL);
    if (!is_on || at == MAP_FAILED)
        return;
    if (m == NULL || fd < 0 || len > MAX_LEN || mprotect(at, len, PROT_READ) != 0)
        abort();
    m->len = len;
    m->ino = open_file[fd]->ino;
    m->at = at;
}

void record_unmap(void *at)
{
    struct map *m = map_at(at);
    if (is_on && m != NULL)
        m->at = NULL;
}
