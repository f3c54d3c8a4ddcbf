/* SPDX-License-Identifier: MIT
 * Stands before the calls of a program: one of them may fail (here), and what they do to the files
 * of a directory may be recorded (record.c). To be preloaded:
 *
 *     LD_PRELOAD=preload.so INJECT=open:5:EMFILE:from seen add f.seen ...
 *
 * The calls below are counted, in the program and its libraries, but not those that the C library
 * makes itself. INJECT is NAME:N:HOW. The Nth call of that name, counted from 1,
 *
 *     ENOSPC        fails with this errno
 *     ENOSPC:from   fails, and so do all later ones of that name: a disk that is full stays so
 *     short         reads or writes one byte
 *     kill          is not reached: SIGKILL
 *
 * Two names stand for several calls, where these are recorded: "change" for all that may change the
 * directory, "sync" for each sync of a file. "lock" is an fcntl that takes a lock; "fcntl" are the
 * others.
 *
 * Without INJECT all succeed. INJECT_LACKS=1 stands for an old kernel or file system: there is no
 * renameat2; with INJECT_LACKS=fuse, no links either, and the file system
 * says that it is FUSE; with INJECT_LACKS=direct, no shared mapping either. INJECT_LOG is a file of
 * a struct log, which tells the calls that were made; then random bytes and the time of day are the
 * same in each run, so that files are, too.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "record.h"

enum { MAX_CALLS = 1 << 16, MAX_RANGES = 16, MAX_FRAMES = 32 };

struct call {
    char name[16];
    uint64_t
        site; /* where it is called from: an offset in the program, or above 2^40 a library's */
    uint64_t stack; /* a hash of that and of all callers; 0 if a call is to fail */
};

struct log {
    _Atomic uint64_t n, done; /* calls, and how many of them were made to fail */
    struct call calls[MAX_CALLS];
};

/* Where the program and its libraries are in memory; those of the C library are not counted. */
struct range {
    uintptr_t begin, end, base;
    bool counted;
};

enum how { ONCE, FROM, SHORT, KILL };

static struct log *calls;
static struct range ranges[MAX_RANGES];
static size_t n_ranges;
static int error;
static enum how how;
static char wanted[16];
static atomic_ulong left = 1; /* calls of that name until one fails, and that one */
static bool lacks, is_fuse, is_direct;

/* glibc's own: dlsym allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);

static int note_range(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const char *name = info->dlpi_name;
    if (strstr(name, "linux-vdso") != NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && n_ranges < MAX_RANGES) {
            uintptr_t begin = info->dlpi_addr + p->p_vaddr;
            bool own =
                strstr(name, "/libc.so") || strstr(name, "/ld-") || strstr(name, "preload.so");
            ranges[n_ranges++] = (struct range){begin, begin + p->p_memsz, info->dlpi_addr, !own};
        }
    }
    return 0;
}

static void read_wish(const char *what)
{
    char as[24];
    unsigned long n;
    if (sscanf(what, "%15[^:]:%lu:%23s", wanted, &n, as) != 3)
        abort();
    left = n;
    how = strcmp(as, "short") == 0  ? SHORT
          : strcmp(as, "kill") == 0 ? KILL
          : strstr(as, ":from")     ? FROM
                                    : ONCE;
    as[strcspn(as, ":")] = '\0';
    for (const char *name = ""; how <= FROM && (name == NULL || strcmp(name, as) != 0);)
        if ((name = strerrorname_np(++error)) == NULL && error > 1000)
            abort();
}

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("INJECT_LOG"), *what = getenv("INJECT");
    const char *lack = getenv("INJECT_LACKS");
    dl_iterate_phdr(note_range, NULL);
    lacks = lack != NULL;
    is_direct = lacks && strcmp(lack, "direct") == 0;
    is_fuse = is_direct || (lacks && strcmp(lack, "fuse") == 0);
    if (what != NULL)
        read_wish(what);
    if (file == NULL)
        return;
    int fd = NEXT(open, "open64")(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || NEXT(ftruncate, "ftruncate64")(fd, sizeof *calls) != 0)
        abort();
    calls = NEXT(mmap, "mmap64")(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (calls == MAP_FAILED)
        abort();
    NEXT(close, "close")(fd);
}

static bool is_wanted(const char *name, const char *also)
{
    return strcmp(name, wanted) == 0 || strcmp(also, wanted) == 0 ||
           (strcmp(wanted, "change") == 0 && record_is_on());
}

/* The same in each run; 0 if it is not the program's, nor that of a library that is counted. */
static uint64_t place_of(const void *from)
{
    uintptr_t at = (uintptr_t)from;
    size_t i = 0;
    while (i < n_ranges && !(ranges[i].begin <= at && at < ranges[i].end))
        i++;
    if (i == n_ranges || !ranges[i].counted)
        return 0;
    return at - ranges[i].base + ((uint64_t)i << 40);
}

static uint64_t hash_stack(void)
{
    static _Thread_local bool inside; /* backtrace() allocates when it is called first */
    void *frames[MAX_FRAMES];
    uint64_t hash = 0;
    if (inside)
        return 0;
    inside = true;
    int n = backtrace(frames, MAX_FRAMES);
    inside = false;
    for (int i = 0; i < n; i++)
        hash = (hash ^ place_of(frames[i])) * 0x9E3779B97F4A7C15u;
    return hash;
}

/* A call comes. Is it the one that fails? Sets errno then. */
static bool fails_from(const char *name, const char *also, const void *from)
{
    uint64_t place = place_of(from);
    if (place == 0)
        return false;
    uint64_t n = calls != NULL ? atomic_fetch_add(&calls->n, 1) : MAX_CALLS;
    if (n < MAX_CALLS) {
        strncpy(calls->calls[n].name, name, sizeof calls->calls[n].name - 1);
        calls->calls[n].site = place;
        calls->calls[n].stack = wanted[0] == '\0' ? hash_stack() : 0;
    }
    if (!is_wanted(name, also))
        return false;
    unsigned long before = left;
    while (before > 0 && !atomic_compare_exchange_weak(&left, &before, before - 1))
        ;
    if (before != 1 && !(before == 0 && how == FROM))
        return false;
    if (calls != NULL)
        atomic_fetch_add(&calls->done, 1);
    if (how == KILL)
        kill(getpid(), SIGKILL);
    errno = error;
    return true;
}

#define FAILS(name) fails_from(name, name, __builtin_return_address(0))

/* Functions that return -1. */
#define CALL(function, name, parameters, arguments)                                                \
    int function parameters                                                                        \
    {                                                                                              \
        return FAILS(#function) ? -1 : NEXT(function, name) arguments;                             \
    }

/* The same for those that may change a directory, and what is recorded of one that returns r. */
#define CHANGE(function, name, parameters, arguments, recorded)                                    \
    int function parameters                                                                        \
    {                                                                                              \
        record_begin(#function);                                                                   \
        int r = FAILS(#function) ? -1 : NEXT(function, name) arguments;                            \
        recorded;                                                                                  \
        record_end();                                                                              \
        return r;                                                                                  \
    }

/* ---- memory */

void *malloc(size_t size)
{
    return FAILS("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return FAILS("calloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *at, size_t size)
{
    return FAILS("realloc") ? NULL : __libc_realloc(at, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return FAILS("aligned_alloc") ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **at, size_t align, size_t size)
{
    if (FAILS("posix_memalign"))
        return error;
    *at = __libc_memalign(align, size);
    return *at != NULL ? 0 : ENOMEM;
}

static char *copy(const char *s, size_t len)
{
    char *made = __libc_malloc(len + 1);
    if (made != NULL) {
        memcpy(made, s, len);
        made[len] = '\0';
    }
    return made;
}

char *strdup(const char *s)
{
    return FAILS("strdup") ? NULL : copy(s, strlen(s));
}

char *strndup(const char *s, size_t len)
{
    return FAILS("strndup") ? NULL : copy(s, strnlen(s, len));
}

int asprintf(char **s, const char *format, ...)
{
    if (FAILS("asprintf"))
        return -1;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(s, format, ap);
    va_end(ap);
    return n;
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t off)
{
    if (is_direct && fd >= 0 && (flags & MAP_SHARED) != 0) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    if (record_knows(fd) && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0)
        record_begin("mmap");
    void *got =
        FAILS("mmap") ? MAP_FAILED : NEXT(mmap, "mmap64")(at, len, protection, flags, fd, off);
    record_map(got, len, off == 0 ? fd : -1);
    record_end();
    return got;
}

CHANGE(munmap, "munmap", (void *at, size_t len), (at, len), record_unmap(at))

CHANGE(msync, "msync", (void *at, size_t len, int flags), (at, len, flags), (void)0)

/* ---- files */

CALL(mprotect, "mprotect", (void *at, size_t len, int protection), (at, len, protection))
CALL(madvise, "madvise", (void *at, size_t len, int advice), (at, len, advice))
CALL(fstat, "fstat64", (int fd, struct stat *st), (fd, st))
CALL(stat, "stat64", (const char *path, struct stat *st), (path, st))
CALL(fstatat, "fstatat64", (int at, const char *path, struct stat *st, int flags),
     (at, path, st, flags))
CALL(statvfs, "statvfs64", (const char *path, struct statvfs *st), (path, st))
CALL(fstatvfs, "fstatvfs64", (int fd, struct statvfs *st), (fd, st))
CALL(access, "access", (const char *path, int mode), (path, mode))
CALL(sync_file_range, "sync_file_range", (int fd, off_t off, off_t len, unsigned flags),
     (fd, off, len, flags))
CHANGE(ftruncate, "ftruncate64", (int fd, off_t len), (fd, len), (void)0)
CALL(fchmod, "fchmod", (int fd, mode_t mode), (fd, mode))
CALL(fchown, "fchown", (int fd, uid_t uid, gid_t gid), (fd, uid, gid))
CALL(dup2, "dup2", (int fd, int to), (fd, to))
CHANGE(renameat, "renameat", (int from_dir, const char *from, int to_dir, const char *to),
       (from_dir, from, to_dir, to), (void)0)
CALL(unlink, "unlink", (const char *path), (path))
CHANGE(unlinkat, "unlinkat", (int at, const char *path, int flags), (at, path, flags), (void)0)
CALL(mkstemp, "mkstemp64", (char *path), (path))

int fstatfs(int fd, struct statfs *st)
{
    if (FAILS("fstatfs") || NEXT(fstatfs, "fstatfs64")(fd, st) != 0)
        return -1;
    if (is_fuse)
        st->f_type = 0x65735546;
    return 0;
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    record_begin("linkat");
    int r =
        is_fuse || FAILS("linkat") ? -1 : NEXT(linkat, "linkat")(from_dir, from, to_dir, to, flags);
    if (is_fuse)
        errno = EPERM;
    record_end();
    return r;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    record_begin("renameat2");
    int r = lacks || FAILS("renameat2")
                ? -1
                : NEXT(renameat2, "renameat2")(from_dir, from, to_dir, to, flags);
    if (lacks)
        errno = EINVAL;
    record_end();
    return r;
}

/* What is recorded is not really synced: no power cut comes. */
static int sync_file(int fd, const char *name, const void *from)
{
    record_begin(name);
    int r = fails_from(name, record_knows(fd) ? "sync" : name, from) ? -1
            : record_is_on()                                         ? 0
                                                                     : NEXT(fsync, name)(fd);
    record_sync(fd, r == 0);
    record_end();
    return r;
}

int fsync(int fd)
{
    return sync_file(fd, "fsync", __builtin_return_address(0));
}

int fdatasync(int fd)
{
    return sync_file(fd, "fdatasync", __builtin_return_address(0));
}

/* It is closed all the same. */
int close(int fd)
{
    if (record_knows(fd))
        record_begin("close");
    bool lost = FAILS("close");
    int saved = errno;
    record_close(fd);
    int r = NEXT(close, "close")(fd);
    errno = lost ? saved : errno;
    record_end();
    return lost ? -1 : r;
}

CHANGE(fallocate, "fallocate64", (int fd, int mode, off_t off, off_t len), (fd, mode, off, len),
       record_range(fd, off, r == 0 ? len : 0))

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    return FAILS("pthread_create")
               ? error
               : NEXT(pthread_create, "pthread_create")(thread, attr, body, arg);
}

static mode_t mode_of(int flags, va_list *ap)
{
    return (flags & O_CREAT) ? va_arg(*ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, &ap);
    va_end(ap);
    record_begin("open");
    int fd = FAILS("open") ? -1 : NEXT(open, "open64")(path, flags, mode);
    record_open(fd, flags);
    record_end();
    return fd;
}

int openat(int at, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, &ap);
    va_end(ap);
    record_begin("openat");
    int fd = FAILS("openat") ? -1 : NEXT(openat, "openat64")(at, path, flags, mode);
    record_open(fd, flags);
    record_end();
    return fd;
}

/* What was changed under a lock is recorded before that is given up. A call that may wait for
 * another process is not made between begin and end. */
int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    bool changes = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_SETLK;
    if (changes)
        record_begin("fcntl");
    bool takes = changes && ((const struct flock *)arg)->l_type != F_UNLCK;
    bool fails = takes ? FAILS("lock") : FAILS("fcntl");
    record_end();
    return fails ? -1 : NEXT(fcntl, "fcntl64")(fd, command, arg);
}

/* ---- reading and writing, which may be short */

static size_t one(size_t len)
{
    return len < 1 ? len : 1;
}

ssize_t read(int fd, void *data, size_t len)
{
    if (FAILS("read")) {
        if (how != SHORT)
            return -1;
        len = one(len);
    }
    return NEXT(read, "read")(fd, data, len);
}

ssize_t pread(int fd, void *data, size_t len, off_t off)
{
    if (FAILS("pread")) {
        if (how != SHORT)
            return -1;
        len = one(len);
    }
    return NEXT(pread, "pread64")(fd, data, len, off);
}

ssize_t write(int fd, const void *data, size_t len)
{
    if (fd == STDOUT_FILENO)
        record_begin("write");
    ssize_t r = -1;
    /* Messages are shown. */
    bool fails = fd != STDERR_FILENO && FAILS("write");
    if (!fails || how == SHORT)
        r = NEXT(write, "write")(fd, data, fails ? one(len) : len);
    record_output(data, r);
    record_end();
    return r;
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t off)
{
    record_begin("pwritev");
    struct iovec first = {v[0].iov_base, one(v[0].iov_len)};
    bool fails = FAILS("pwritev");
    ssize_t r = -1;
    if (!fails || how == SHORT)
        r = NEXT(pwritev, "pwritev64")(fd, fails ? &first : v, fails ? 1 : n, off);
    record_range(fd, off, r);
    record_end();
    return r;
}

off_t lseek(int fd, off_t off, int whence)
{
    return FAILS("lseek") ? -1 : NEXT(lseek, "lseek64")(fd, off, whence);
}

ssize_t readlink(const char *path, char *target, size_t len)
{
    return FAILS("readlink") ? -1 : NEXT(readlink, "readlink")(path, target, len);
}

/* ---- what would differ from run to run */

ssize_t getrandom(void *data, size_t len, unsigned flags)
{
    static uint64_t state = 1;
    if (FAILS("getrandom"))
        return -1;
    if (calls == NULL)
        return NEXT(getrandom, "getrandom")(data, len, flags);
    for (size_t i = 0; i < len; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        ((uint8_t *)data)[i] = (uint8_t)(state >> 56);
    }
    return (ssize_t)len;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int r = NEXT(clock_gettime, "clock_gettime")(clock, now);
    if (calls != NULL && r == 0 && clock == CLOCK_REALTIME)
        *now = (struct timespec){.tv_sec = 1700000000};
    return r;
}

time_t time(time_t *now)
{
    time_t is = calls != NULL ? 1700000000 : NEXT(time, "time")(NULL);
    if (now != NULL)
        *now = is;
    return is;
}
