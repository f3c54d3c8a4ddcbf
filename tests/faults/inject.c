/*
 * Lets one call of a program fail. To be preloaded:
 *
 *     LD_PRELOAD=inject.so INJECT_LOG=/tmp/log INJECT=17:open:5:once seen add f.seen ...
 *
 * The calls below are counted, in the program and its libraries, but not those that the C library
 * makes itself. INJECT is N:NAME:ERROR:HOW; call N, counted from 1, if it
 * has that name (threads change the order),
 *
 *     once     fails with that errno
 *     from     fails, and so do all later ones of that name: a disk that is full stays so
 *     short    reads or writes one byte
 *     kill     is not reached: SIGKILL
 *
 * Without INJECT all succeed. INJECT_LACKS=1 stands for an old kernel or file system: there is no
 * renameat2, and no O_TMPFILE; with INJECT_LACKS=fuse, no links either, and the file system
 * says that it is FUSE; with INJECT_LACKS=direct, no shared mapping either. INJECT_LOG is a file of
 * a struct log, which tells the calls that were made. Random bytes and the time of day are the same
 * in each run, so that files are, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CALLS = 1 << 16, MAX_RANGES = 16 };

struct call {
    char name[16];
    uint64_t
        site; /* where it is called from: an offset in the program, or above 2^40 a library's */
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
static unsigned long fail_at;
static int error;
static enum how how;
static char wanted[16];
static atomic_bool failed, lacks, is_fuse, is_direct;

/* glibc's own: dlsym allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (f == NULL)
        abort();
    return f;
}

/* The C library's own function, by the name that it has with 64-bit offsets. */
#define NEXT(function, name) (*(__typeof__(function) **)&(void *){next(name)})

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
                strstr(name, "/libc.so") || strstr(name, "/ld-") || strstr(name, "inject.so");
            ranges[n_ranges++] = (struct range){begin, begin + p->p_memsz, info->dlpi_addr, !own};
        }
    }
    return 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("INJECT_LOG"), *what = getenv("INJECT");
    int fd = file != NULL ? NEXT(open, "open64")(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd < 0 || NEXT(ftruncate, "ftruncate64")(fd, sizeof *calls) != 0)
        return;
    dl_iterate_phdr(note_range, NULL);
    lacks = getenv("INJECT_LACKS") != NULL;
    is_direct = lacks && strcmp(getenv("INJECT_LACKS"), "direct") == 0;
    is_fuse = lacks && (is_direct || strcmp(getenv("INJECT_LACKS"), "fuse") == 0);
    if (what != NULL) {
        char as[6];
        if (sscanf(what, "%lu:%15[^:]:%d:%5s", &fail_at, wanted, &error, as) != 4)
            abort();
        how = *as == 'o' ? ONCE : *as == 'f' ? FROM : *as == 's' ? SHORT : KILL;
    }
    calls = NEXT(mmap, "mmap64")(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (calls == MAP_FAILED)
        abort();
    NEXT(close, "close")(fd);
}

/* Is this the call that fails? Sets errno then. */
static bool fails_from(const char *name, const void *from)
{
    if (calls == NULL)
        return false;
    uintptr_t at = (uintptr_t)from;
    size_t i = 0;
    while (i < n_ranges && !(ranges[i].begin <= at && at < ranges[i].end))
        i++;
    if (i == n_ranges || !ranges[i].counted)
        return false;
    uint64_t n = atomic_fetch_add(&calls->n, 1);
    if (n < MAX_CALLS) {
        strncpy(calls->calls[n].name, name, sizeof calls->calls[n].name - 1);
        calls->calls[n].site = at - ranges[i].base + ((uint64_t)i << 40);
    }
    if (strcmp(name, wanted) != 0 || (n + 1 != fail_at && !(how == FROM && failed)))
        return false;
    failed = true;
    atomic_fetch_add(&calls->done, 1);
    if (how == KILL)
        kill(getpid(), SIGKILL);
    errno = error;
    return true;
}

#define FAILS(name) fails_from(name, __builtin_return_address(0))

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
    return FAILS("mmap") ? MAP_FAILED : NEXT(mmap, "mmap64")(at, len, protection, flags, fd, off);
}

void *mremap(void *at, size_t len, size_t new_len, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    void *to = (flags & MREMAP_FIXED) ? va_arg(ap, void *) : NULL;
    va_end(ap);
    return FAILS("mremap") ? MAP_FAILED : NEXT(mremap, "mremap")(at, len, new_len, flags, to);
}

/* ---- files: functions that return -1 */

#define CALL(function, name, parameters, arguments)                                                \
    int function parameters                                                                        \
    {                                                                                              \
        return FAILS(#function) ? -1 : NEXT(function, name) arguments;                             \
    }

CALL(mprotect, "mprotect", (void *at, size_t len, int protection), (at, len, protection))
CALL(madvise, "madvise", (void *at, size_t len, int advice), (at, len, advice))
CALL(mlock, "mlock", (const void *at, size_t len), (at, len))
CALL(fstat, "fstat64", (int fd, struct stat *st), (fd, st))
CALL(stat, "stat64", (const char *path, struct stat *st), (path, st))
CALL(fstatat, "fstatat64", (int at, const char *path, struct stat *st, int flags),
     (at, path, st, flags))
CALL(statvfs, "statvfs64", (const char *path, struct statvfs *st), (path, st))
CALL(fstatvfs, "fstatvfs64", (int fd, struct statvfs *st), (fd, st))
CALL(access, "access", (const char *path, int mode), (path, mode))
CALL(fsync, "fsync", (int fd), (fd))
CALL(fdatasync, "fdatasync", (int fd), (fd))
CALL(sync_file_range, "sync_file_range", (int fd, off_t off, off_t len, unsigned flags),
     (fd, off, len, flags))
CALL(ftruncate, "ftruncate64", (int fd, off_t len), (fd, len))
CALL(fallocate, "fallocate64", (int fd, int mode, off_t off, off_t len), (fd, mode, off, len))
CALL(fchmod, "fchmod", (int fd, mode_t mode), (fd, mode))
CALL(fchown, "fchown", (int fd, uid_t uid, gid_t gid), (fd, uid, gid))
CALL(flock, "flock", (int fd, int operation), (fd, operation))
CALL(dup2, "dup2", (int fd, int to), (fd, to))
CALL(renameat, "renameat", (int from_dir, const char *from, int to_dir, const char *to),
     (from_dir, from, to_dir, to))
CALL(unlink, "unlink", (const char *path), (path))
CALL(unlinkat, "unlinkat", (int at, const char *path, int flags), (at, path, flags))
CALL(mkostemp, "mkostemp64", (char *path, int flags), (path, flags))

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
    if (is_fuse)
        errno = EPERM;
    return is_fuse || FAILS("linkat") ? -1
                                      : NEXT(linkat, "linkat")(from_dir, from, to_dir, to, flags);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (lacks)
        errno = EINVAL;
    return lacks || FAILS("renameat2")
               ? -1
               : NEXT(renameat2, "renameat2")(from_dir, from, to_dir, to, flags);
}

/* It is closed all the same. */
int close(int fd)
{
    bool lost = FAILS("close");
    int saved = errno, r = NEXT(close, "close")(fd);
    errno = lost ? saved : errno;
    return lost ? -1 : r;
}

int posix_fallocate(int fd, off_t off, off_t len)
{
    return FAILS("posix_fallocate") ? error
                                    : NEXT(posix_fallocate, "posix_fallocate64")(fd, off, len);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    return FAILS("pthread_create")
               ? error
               : NEXT(pthread_create, "pthread_create")(thread, attr, body, arg);
}

static mode_t mode_of(int flags, va_list *ap)
{
    return (flags & (O_CREAT | O_TMPFILE)) ? va_arg(*ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, &ap);
    va_end(ap);
    if (is_fuse && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return FAILS("open") ? -1 : NEXT(open, "open64")(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, &ap);
    va_end(ap);
    if (lacks && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return FAILS("openat") ? -1 : NEXT(openat, "openat64")(at, path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    return FAILS("fcntl") ? -1 : NEXT(fcntl, "fcntl64")(fd, command, arg);
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
    /* Messages are shown. */
    if (fd != STDERR_FILENO && FAILS("write")) {
        if (how != SHORT)
            return -1;
        len = one(len);
    }
    return NEXT(write, "write")(fd, data, len);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t off)
{
    struct iovec first = v[0];
    if (FAILS("pwritev")) {
        if (how != SHORT)
            return -1;
        first.iov_len = one(first.iov_len);
        v = &first;
        n = 1;
    }
    return NEXT(pwritev, "pwritev64")(fd, v, n, off);
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
    (void)flags;
    static uint64_t state = 1;
    if (FAILS("getrandom"))
        return -1;
    for (size_t i = 0; i < len; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        ((uint8_t *)data)[i] = (uint8_t)(state >> 56);
    }
    return (ssize_t)len;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int r = NEXT(clock_gettime, "clock_gettime")(clock, now);
    if (r == 0 && clock == CLOCK_REALTIME)
        *now = (struct timespec){.tv_sec = 1700000000};
    return r;
}

time_t time(time_t *now)
{
    if (now != NULL)
        *now = 1700000000;
    return 1700000000;
}
