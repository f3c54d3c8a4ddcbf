/*
 * Records what a program does to the files of one directory, so that a power cut can be replayed at
 * any point of it (replay.py). To be preloaded:
 *
 *     LD_PRELOAD=record.so RECORD_DIR=/tmp/d RECORD_LOG=/tmp/log seen add /tmp/d/f.seen ...
 *
 * The program changes its files through shared mappings too, which no call tells of. So at each
 * call that is interposed, all pages of the open files that have changed since the last one are
 * appended to the log. Between two syncs the log then has the versions of each page, in order.
 * Mappings are kept read-only, and a page is made writable when a write to it faults: that tells
 * which pages were written, even if with what they had contained, for a sync writes those too.
 *
 * RECORD_KILL=N kills the program before its Nth interposed call; RECORD_FAIL=N makes its Nth sync
 * of a file fail.
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
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

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
static uint64_t n_calls, n_syncs, kill_at, fail_at;

static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (f == NULL)
        abort();
    return f;
}

/* The C library's own function, by the name that it has with 64-bit offsets. */
#define NEXT(function, name) (*(__typeof__(function) **)&(void *){next(name)})

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
    const char *killed = getenv("RECORD_KILL"), *fails = getenv("RECORD_FAIL");
    if (log == NULL || where == NULL || realpath(where, dir) == NULL)
        return;
    if (killed != NULL)
        kill_at = strtoull(killed, NULL, 10);
    if (fails != NULL)
        fail_at = strtoull(fails, NULL, 10);
    /* Out of the way of the numbers that the program gets. */
    int fd = NEXT(open, "open64")(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    log_fd = NEXT(fcntl, "fcntl64")(fd, F_DUPFD_CLOEXEC, MAX_FD);
    close(fd);
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

static void enter(const char *call)
{
    if (log_fd < 0)
        return;
    pthread_mutex_lock(&mutex);
    lock_log(F_WRLCK);
    note_all();
    if (++n_calls == kill_at)
        kill(getpid(), SIGKILL);
    put('C', 0, n_calls, call, strlen(call));
}

static void leave(void)
{
    int saved = errno;
    if (log_fd < 0)
        return;
    note_all();
    lock_log(F_UNLCK);
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

static void opened(int fd, bool is_new)
{
    struct stat st;
    if (log_fd < 0 || !is_ours(fd, &st))
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

static bool makes_file(int flags)
{
    return (flags & O_TMPFILE) == O_TMPFILE || ((flags & O_CREAT) && (flags & O_EXCL));
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    enter("open");
    int fd = NEXT(open, "open64")(path, flags, mode);
    opened(fd, makes_file(flags));
    leave();
    return fd;
}

int openat(int at, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    enter("openat");
    int fd = NEXT(openat, "openat64")(at, path, flags, mode);
    opened(fd, makes_file(flags));
    leave();
    return fd;
}

int close(int fd)
{
    if (log_fd < 0 || fd < 0 || fd >= MAX_FD || open_file[fd] == NULL)
        return NEXT(close, "close")(fd);
    enter("close");
    open_file[fd] = NULL;
    int r = NEXT(close, "close")(fd);
    leave();
    return r;
}

static void note_range(int fd, uint64_t off, uint64_t len)
{
    if (log_fd < 0 || fd < 0 || fd >= MAX_FD || open_file[fd] == NULL)
        return;
    for (uint64_t page = off / PAGE; page * PAGE < off + len; page++)
        put('W', open_file[fd]->ino, page, NULL, 0);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t off)
{
    enter("pwritev");
    ssize_t r = NEXT(pwritev, "pwritev64")(fd, v, n, off);
    if (r > 0)
        note_range(fd, (uint64_t)off, (uint64_t)r);
    leave();
    return r;
}

ssize_t write(int fd, const void *data, size_t len)
{
    if (fd != STDOUT_FILENO)
        return NEXT(write, "write")(fd, data, len);
    enter("write");
    ssize_t r = NEXT(write, "write")(fd, data, len);
    if (log_fd >= 0 && r > 0)
        put('O', 0, 0, data, (size_t)r);
    leave();
    return r;
}

static int sync_call(int fd, const char *call)
{
    struct stat st;
    bool is_file = fd >= 0 && fd < MAX_FD && open_file[fd] != NULL;
    if (log_fd < 0)
        return NEXT(fsync, call)(fd);
    enter(call);
    int r = 0;
    if (is_file && ++n_syncs == fail_at) {
        errno = EIO;
        r = -1;
    }
    /* Nothing is really synced: no power cut comes. */
    if (is_file)
        put('F', open_file[fd]->ino, r == 0, NULL, 0);
    else if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        put('D', 0, 1, NULL, 0);
    leave();
    return r;
}

int fsync(int fd)
{
    return sync_call(fd, "fsync");
}

int fdatasync(int fd)
{
    return sync_call(fd, "fdatasync");
}

/* What the program may take up; as of now it does not. */
int msync(void *at, size_t len, int flags)
{
    (void)at, (void)len, (void)flags;
    abort();
}

int ftruncate(int fd, off_t len)
{
    enter("ftruncate");
    int r = NEXT(ftruncate, "ftruncate64")(fd, len);
    leave();
    return r;
}

int posix_fallocate(int fd, off_t off, off_t len)
{
    enter("posix_fallocate");
    int r = NEXT(posix_fallocate, "posix_fallocate64")(fd, off, len);
    leave();
    return r;
}

int fallocate(int fd, int mode, off_t off, off_t len)
{
    enter("fallocate");
    int r = NEXT(fallocate, "fallocate64")(fd, mode, off, len);
    if (r == 0)
        note_range(fd, (uint64_t)off, (uint64_t)len);
    leave();
    return r;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    enter("renameat");
    int r = NEXT(renameat, "renameat")(from_dir, from, to_dir, to);
    leave();
    return r;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    enter("renameat2");
    int r = NEXT(renameat2, "renameat2")(from_dir, from, to_dir, to, flags);
    leave();
    return r;
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    enter("linkat");
    int r = NEXT(linkat, "linkat")(from_dir, from, to_dir, to, flags);
    leave();
    return r;
}

int unlinkat(int at, const char *path, int flags)
{
    enter("unlinkat");
    int r = NEXT(unlinkat, "unlinkat")(at, path, flags);
    leave();
    return r;
}

/* Locks: what was changed under one is noted before it is given up. A call that may wait for
 * another process does not hold the log. */
int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    va_start(ap, cmd);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW) {
        enter("fcntl");
        leave();
    }
    return NEXT(fcntl, "fcntl64")(fd, cmd, arg);
}

void *mmap(void *hint, size_t len, int prot, int flags, int fd, off_t off)
{
    bool ours = log_fd >= 0 && fd >= 0 && fd < MAX_FD && open_file[fd] != NULL;
    if (!ours || (flags & MAP_SHARED) == 0 || (prot & PROT_WRITE) == 0)
        return NEXT(mmap, "mmap64")(hint, len, prot, flags, fd, off);
    enter("mmap");
    struct map *m = maps;
    while (m < maps + MAX_MAPS && m->at != NULL)
        m++;
    if (m == maps + MAX_MAPS || len > MAX_LEN || off != 0)
        abort();
    void *at = NEXT(mmap, "mmap64")(hint, len, PROT_READ, flags, fd, off);
    if (at != MAP_FAILED) {
        m->len = len;
        m->ino = open_file[fd]->ino;
        m->at = at;
    }
    leave();
    return at;
}

/* By now the whole mapping is read-only, and so of one piece, which the kernel asks for. */
void *mremap(void *at, size_t len, size_t new_len, int flags, ...)
{
    enter("mremap");
    void *now = NEXT(mremap, "mremap")(at, len, new_len, flags);
    for (struct map *m = maps; m < maps + MAX_MAPS; m++)
        if (m->at == at && now != MAP_FAILED) {
            if (new_len > MAX_LEN)
                abort();
            m->len = new_len;
            m->at = now;
        }
    leave();
    return now;
}

int munmap(void *at, size_t len)
{
    enter("munmap");
    for (struct map *m = maps; m < maps + MAX_MAPS; m++)
        if (m->at == at)
            m->at = NULL;
    leave();
    return NEXT(munmap, "munmap")(at, len);
}
