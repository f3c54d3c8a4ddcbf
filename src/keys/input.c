#include "keys/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/disk.h"
#include "base/mapped.h"
#include "base/output.h"
#include "base/sig.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14; where it is refused, files are read */
#endif

enum {
    /* A chunk is read with so much more, in the hope that its last record ends there. */
    OVERLAP = 1024,
    /* Bytes left free in front of the data, so that a byte at offset x of the chunk's range lies at
     * an address equal to x modulo 64: the kernel copies faster between like alignments. */
    LEAD = 64,
    ALIGN = 4096,
    RAW_LEN = 64 << 10, /* compressed bytes read at a time */
    PIPE_LEN = 1 << 20, /* the most that Linux grants everybody unless told otherwise */
    /* A signal may be taken by another thread than the one that waits for input, which then sees it
     * after so long; and so it is with input_stop. */
    STOP_POLL_MS = 100,
    /* Regular files of this size and more are taken in chunks of it, and mapped, which spares a
     * copy: a fifth to three fifths of the cost of reading, by how the page cache holds them. For
     * less, system calls cost as much. Two chunks a thread, one in work and one that waits, make
     * 1 MiB (THREAD_MEMORY, filter_build.c); chunks twice as large are no faster. */
    LARGE_CHUNK = 512 << 10,
    /* Linux maps so much around a page that is asked for, if it is in memory. To ask for the first
     * page of each piece takes two thirds of the time of asking for all of them. */
    FAULT_AROUND = 64 << 10,
    /* Or as much as lies in one piece of memory with the page, which may be so much. */
    LARGEST_FOLIO = 2 << 20,
};

enum end {
    END_NOT_YET,
    END_REACHED,
    END_STOPPED, /* by a signal or input_stop */
    END_BROKEN,  /* why says how */
};

/* A regular file, mapped as a whole; unmapped when nobody uses it: neither its source nor a chunk
 * whose records lie in it. */
struct mapping {
    struct mapped file;
    _Atomic unsigned users;
    atomic_bool told; /* that it shrank, or could not be read */
    char name[];
};

/* An open file. Regular ones are read by all threads, outside the lock. */
struct source {
    int fd;
    size_t file;
    bool regular;
    bool failed;    /* and that has been reported */
    unsigned users; /* threads that are reading it outside the lock */

    /* Regular files. */
    off_t start; /* chunk 0 begins here */
    off_t size;  /* when it was opened */
    struct timespec changed; /* last, as of then */
    size_t range; /* bytes in which the records of a chunk begin */
    struct mapping *mapping; /* NULL: it is read */
    uint64_t n_chunks, next_chunk;
    off_t read_to; /* the furthest that was read */

    /* Streams. Bytes not yet in a chunk come from ahead[ahead_at..ahead_len) first. */
    char *ahead;
    size_t ahead_at, ahead_len, ahead_size;
    uint64_t pos; /* offset of the next byte for a chunk; a record begins there */
    enum end end; /* what there is behind the bytes in ahead */
    struct err why;

    /* Compressed streams: z.next_in[0..avail_in) is what is left in raw. */
    bool gzip;
    bool between; /* members */
    bool padding; /* behind the last one */
    enum end raw_end;
    unsigned char *raw;
    z_stream z;
};

struct input {
    struct input_spec spec;
    bool large_chunks; /* of regular files that are large enough */
    pthread_mutex_t lock; /* for all below but done and stopped */
    struct source *source;
    size_t next_file;
    uint64_t seq;
    uint64_t total;
    _Atomic uint64_t done;
    atomic_bool stopped;
};

static size_t count_files(const struct input_spec *spec)
{
    return spec->n_files ? spec->n_files : 1;
}

static bool is_stdin(const struct input_spec *spec, size_t file)
{
    return !spec->n_files || strcmp(spec->files[file], "-") == 0;
}

const char *input_name(const struct input *in, size_t file)
{
    return is_stdin(&in->spec, file) ? "(standard input)" : in->spec.files[file];
}

static bool fail_memory(const struct input *in, size_t file, struct err *err)
{
    return fail(err, "out of memory for a long record in '%s'", input_name(in, file));
}

static bool fail_read(const struct input *in, size_t file, struct err *err)
{
    return fail_errno(err, "cannot read '%s'", input_name(in, file));
}

static bool fail_cut(const struct input *in, size_t file, struct err *err)
{
    return fail(err, "cannot read '%s': it became shorter", input_name(in, file));
}

static void count_done(struct input *in, size_t n)
{
    atomic_fetch_add_explicit(&in->done, n, memory_order_relaxed);
}

static bool is_stopped(const struct input *in)
{
    return in->stopped || sig_caught();
}

void input_stop(struct input *in)
{
    in->stopped = true;
}

/* Chunk buffers. */

static void free_buffer(struct chunk *chunk)
{
    free(chunk->buffer);
    chunk->buffer = NULL;
    chunk->buffer_len = 0;
}

static void mapping_leave(struct mapping *m)
{
    if (m == NULL || --m->users > 0)
        return;
    mapped_close(&m->file);
    free(m);
}

/* Gives back the memory that the chunk's part of a mapped file takes, and what was mapped with the
 * byte before it. Others who use a page of it find it again. */
static void let_go(struct chunk *chunk)
{
    struct mapping *m = chunk->mapping;
    if (m == NULL)
        return;
    size_t begin = chunk->used_from / LARGEST_FOLIO * LARGEST_FOLIO;
    size_t end = (chunk->used_to + FAULT_AROUND - 1) / FAULT_AROUND * FAULT_AROUND;
    size_t len = m->file.len;
    madvise(m->file.data + begin, (end < len ? end : len) - begin, MADV_DONTNEED);
    mapping_leave(m);
    chunk->mapping = NULL;
}

void chunk_free(struct chunk *chunk)
{
    free_buffer(chunk);
    let_go(chunk);
}

/* Gives the chunk a buffer of `len` bytes, which begins with the first `keep` of the old one. */
static bool resize(struct chunk *chunk, size_t len, size_t keep)
{
    void *buffer;
    if (posix_memalign(&buffer, ALIGN, len) != 0)
        return false;
    if (keep)
        memcpy(buffer, chunk->buffer, keep);
    free(chunk->buffer);
    chunk->buffer = buffer;
    chunk->buffer_len = len;
    return true;
}

/* Room for `len` bytes and not for very many more: a long record must not leave large buffers in
 * every slot that it passes through. */
static bool fit(struct chunk *chunk, size_t len)
{
    if (chunk->buffer_len >= len && chunk->buffer_len / 8 <= len)
        return true;
    free_buffer(chunk);
    return resize(chunk, len, 0);
}

static bool grow(struct chunk *chunk)
{
    size_t len = chunk->buffer_len;
    return len <= SIZE_MAX / 2 && resize(chunk, 2 * len, len);
}

/* Regular files. */

static void set_data(struct chunk *chunk, size_t begin, size_t end)
{
    chunk->data = chunk->buffer + begin;
    chunk->len = end - begin;
}

/* Has the file been cut, if it ends here? Files in /sys are shorter than they say. */
static bool is_cut(const struct source *src, off_t end)
{
    struct stat st;
    const struct timespec *then = &src->changed, *now = &st.st_ctim;
    return end < src->size &&
           (fstat(src->fd, &st) != 0 || st.st_size != src->size || now->tv_sec != then->tv_sec ||
            now->tv_nsec != then->tv_nsec);
}

/* Reads chunk i. Whether a record begins at the first byte of the chunk's range is told by the byte
 * before it; its last record ends with the first terminator from the last byte of the range on. */
static bool read_chunk(struct input *in, struct source *src, uint64_t i, struct chunk *chunk,
                       off_t *read_to, struct err *err)
{
    size_t range = src->range;
    size_t before = i > 0;
    size_t base = LEAD - before, last = LEAD + range - 1; /* first and last byte, in the buffer */
    off_t at = src->start + (off_t)(i * range) - (off_t)before;
    if (!fit(chunk, LEAD + range + OVERLAP))
        return fail_memory(in, src->file, err);

    size_t want = before + range + OVERLAP, got;
    if (!disk_read(src->fd, chunk->buffer + base, want, (uint64_t)at, &got))
        return fail_read(in, src->file, err);
    if (got < want && is_cut(src, at + (off_t)got))
        return fail_cut(in, src->file, err);
    size_t end = base + got;
    bool at_eof = got < want;
    if (end > LEAD)
        count_done(in, end - LEAD < range ? end - LEAD : range);

    size_t begin = base;
    if (before) {
        size_t stop = last < end ? last : end;
        const char *t = memchr(chunk->buffer + base, in->spec.terminator, stop - base);
        begin = t ? (size_t)(t - chunk->buffer) + 1 : end;
        if (!t)
            at_eof = true; /* as far as this chunk goes: no record begins in it */
    }
    if (begin >= end) {
        set_data(chunk, base, base);
        *read_to = at + (off_t)got;
        return true;
    }

    for (size_t from = last;;) {
        const char *t = NULL;
        if (from < end)
            t = memchr(chunk->buffer + from, in->spec.terminator, end - from);
        if (t || at_eof) {
            set_data(chunk, begin, t ? (size_t)(t - chunk->buffer) + 1 : end);
            *read_to = at + (off_t)(end - base);
            return true;
        }
        from = end;
        want = end - base;
        if (chunk->buffer_len - end < want && !grow(chunk))
            return fail_memory(in, src->file, err);
        if (!disk_read(src->fd, chunk->buffer + end, want, (uint64_t)at + (end - base), &got))
            return fail_read(in, src->file, err);
        end += got;
        at_eof = got < want;
        if (at_eof && is_cut(src, at + (off_t)(end - base)))
            return fail_cut(in, src->file, err);
    }
}

static struct mapping *map_file(const struct input *in, const struct source *src)
{
    const char *name = input_name(in, src->file);
    size_t name_size = strlen(name) + 1;
    struct mapping *m = calloc(1, sizeof *m + name_size);
    if (m == NULL || !mapped_open(&m->file, src->fd, (uint64_t)src->size)) {
        free(m);
        return NULL;
    }
    memcpy(m->name, name, name_size);
    m->users = 1;
    return m;
}

/* Brings bytes [from, to) into memory, or most of them. False: they cannot be had. */
static bool populate(const struct mapping *m, size_t from, size_t to)
{
    for (size_t at = from / FAULT_AROUND * FAULT_AROUND; at < to; at += FAULT_AROUND)
        if (madvise(m->file.data + at, 1, MADV_POPULATE_READ) != 0)
            return false;
    return true;
}

enum input_got input_settle(const struct chunk *chunk, struct err *err)
{
    struct mapping *m = chunk->mapping;
    if (m == NULL || mapped_whole(&m->file, chunk->used_to))
        return INPUT_CHUNK_READ;
    m->file.lost = true;
    if (atomic_exchange(&m->told, true))
        return INPUT_END;
    fail(err, "cannot read '%s': it became shorter, or the disk failed", m->name);
    return INPUT_FAILED;
}

/* The same as read_chunk, without a copy. False, and nothing done: if the file cannot be mapped. */
static bool map_chunk(struct input *in, struct source *src, uint64_t i, struct chunk *chunk,
                      off_t *read_to)
{
    struct mapping *m = src->mapping;
    const struct mapped *file = &m->file;
    size_t from = (size_t)src->start + (size_t)i * src->range, before = i > 0;
    size_t next = file->len - from < src->range ? file->len : from + src->range;
    if (file->lost || !populate(m, from - before, next))
        return false;

    const char *p = file->data + from, *last = file->data + next - 1;
    const char *end = file->data + file->len;
    const char *begin = p, *stop = p;
    if (before) {
        const char *t = memchr(p - 1, in->spec.terminator, (size_t)(last - p) + 1);
        begin = t ? t + 1 : NULL;
    }
    if (begin != NULL) {
        const char *t = memchr(last, in->spec.terminator, (size_t)(end - last));
        stop = t ? t + 1 : end;
    }
    chunk->data = begin ? begin : p;
    chunk->len = (size_t)(stop - chunk->data);
    chunk->mapping = m;
    m->users++;
    chunk->used_from = from - before;
    chunk->used_to = begin ? (size_t)(stop - file->data) : next;
    *read_to = (off_t)chunk->used_to;
    count_done(in, next - from);
    return true;
}

/* Streams. */

/* Reads what is there; waits for something to come if asked to. 0 with *end as it was: nothing is
 * there yet. */
static size_t read_stream(struct input *in, struct source *src, void *to, size_t room, bool wait,
                          enum end *end)
{
    while (*end == END_NOT_YET) {
        struct pollfd p = {.fd = src->fd, .events = POLLIN};
        int ready = poll(&p, 1, wait ? STOP_POLL_MS : 0);
        if (is_stopped(in)) {
            *end = END_STOPPED;
        } else if (ready > 0) {
            ssize_t n = read(src->fd, to, room);
            if (n > 0) {
                count_done(in, (size_t)n);
                return (size_t)n;
            }
            if (n == 0) {
                *end = END_REACHED;
            } else if (errno != EINTR && errno != EAGAIN) {
                *end = END_BROKEN;
                fail_read(in, src->file, &src->why);
            }
        } else if (!wait && ready == 0) {
            return 0;
        }
    }
    return 0;
}

/* Adds to the compressed bytes at hand. */
static bool read_raw(struct input *in, struct source *src, bool wait)
{
    z_stream *z = &src->z;
    if (z->avail_in)
        memmove(src->raw, z->next_in, z->avail_in);
    z->next_in = src->raw;
    size_t n = read_stream(in, src, src->raw + z->avail_in, RAW_LEN - z->avail_in, wait,
                           &src->raw_end);
    z->avail_in += (uInt)n;
    return n > 0;
}

/* Could these first n bytes be those of a gzip member? */
static bool like_gzip(const unsigned char *p, size_t n)
{
    return (n < 1 || p[0] == 0x1f) && (n < 2 || p[1] == 0x8b) && (n < 3 || p[2] == 8) &&
           (n < 4 || (p[3] & 0xe0) == 0);
}

/* Is that enough to be taken for gzip? At the end of a file the magic number is. */
enum { GZIP_MAGIC = 3 };

/* Reads on until there are the four bytes that tell, or fewer that tell already. */
static bool begins_gzip(struct input *in, struct source *src, bool wait)
{
    z_stream *z = &src->z;
    while (z->avail_in < 4 && like_gzip(z->next_in, z->avail_in))
        if (!read_raw(in, src, wait))
            return src->raw_end == END_REACHED && z->avail_in >= GZIP_MAGIC;
    return like_gzip(z->next_in, z->avail_in);
}

static void break_off(struct input *in, struct source *src, const char *what, const char *detail)
{
    src->end = END_BROKEN;
    fail(&src->why, "'%s' %s%s%s", input_name(in, src->file), what, detail ? ": " : "",
         detail ? detail : "");
}

/* Behind a member: another one, the end, or zeroes up to the end, as tapes and gzip(1) have it.
 * Returns whether a member begins; if not, src->end tells, or nothing is there yet. */
static bool next_member(struct input *in, struct source *src, bool wait)
{
    z_stream *z = &src->z;
    if (!src->padding && begins_gzip(in, src, wait)) {
        inflateReset(z);
        src->between = false;
        return true;
    }
    src->padding |= z->avail_in && z->next_in[0] == 0;
    while (src->padding) {
        for (; z->avail_in && z->next_in[0] == 0; z->avail_in--)
            z->next_in++;
        if (z->avail_in || !read_raw(in, src, wait))
            break;
    }
    if (z->avail_in && (src->padding || !like_gzip(z->next_in, z->avail_in)))
        break_off(in, src, "has other data after its gzip data", NULL);
    else if (z->avail_in && src->raw_end == END_REACHED)
        break_off(in, src, "is truncated gzip data", NULL);
    else
        src->end = src->raw_end;
    return false;
}

static size_t inflate_stream(struct input *in, struct source *src, void *to, size_t room,
                             bool wait)
{
    z_stream *z = &src->z;
    uInt most = room < UINT32_MAX / 2 ? (uInt)room : UINT32_MAX / 2;
    z->next_out = to;
    z->avail_out = most;
    while (src->end == END_NOT_YET && z->avail_out == most) {
        if (src->between && !next_member(in, src, wait))
            break;
        int status = inflate(z, Z_NO_FLUSH);
        if (status == Z_STREAM_END)
            src->between = true;
        else if (status == Z_MEM_ERROR)
            break_off(in, src, "cannot be inflated: no memory", NULL);
        else if (status != Z_OK && status != Z_BUF_ERROR)
            break_off(in, src, "is damaged gzip data", z->msg);
        else if (z->avail_out == most && !read_raw(in, src, wait)) {
            if (src->raw_end == END_REACHED)
                break_off(in, src, "is truncated gzip data", NULL);
            else
                src->end = src->raw_end;
            break;
        }
    }
    return most - z->avail_out;
}

/* The stream's next bytes, as many as there are. 0: src->end tells; or, without `wait`, nothing is
 * there yet. */
static size_t take(struct input *in, struct source *src, char *to, size_t room, bool wait)
{
    size_t n = src->ahead_len - src->ahead_at;
    if (n) {
        n = n < room ? n : room;
        memcpy(to, src->ahead + src->ahead_at, n);
        src->ahead_at += n;
        return n;
    }
    if (src->gzip)
        return inflate_stream(in, src, to, room, wait);
    return read_stream(in, src, to, room, wait, &src->end);
}

/* Room for `len` bytes in ahead, beyond those that are there. */
static bool fit_ahead(struct source *src, size_t len)
{
    size_t have = src->ahead_len - src->ahead_at;
    if (src->ahead_at)
        memmove(src->ahead, src->ahead + src->ahead_at, have);
    src->ahead_at = 0;
    src->ahead_len = have;
    if (src->ahead_size - have >= len)
        return true;
    char *p = len <= SIZE_MAX / 2 - have ? realloc(src->ahead, 2 * (have + len)) : NULL;
    if (!p)
        return false;
    src->ahead = p;
    src->ahead_size = 2 * (have + len);
    return true;
}

/* Puts back the last n bytes that were taken. */
static bool put_back(struct source *src, const char *p, size_t n)
{
    if (src->ahead_at < src->ahead_len) { /* they came from there */
        src->ahead_at -= n;
        return true;
    }
    src->ahead_at = src->ahead_len = 0;
    if (!fit_ahead(src, n))
        return false;
    if (n)
        memcpy(src->ahead, p, n);
    src->ahead_len = n;
    return true;
}

/* Is a whole record there without waiting? */
static bool record_ready(struct input *in, struct source *src)
{
    size_t looked = 0;
    for (;;) {
        size_t n = src->ahead_len - src->ahead_at;
        if (n > looked) {
            const char *p = src->ahead + src->ahead_at + looked;
            if (memchr(p, in->spec.terminator, n - looked))
                return true;
        }
        looked = n;
        if (src->end != END_NOT_YET || !fit_ahead(src, OVERLAP))
            return false;
        char *to = src->ahead + src->ahead_len;
        size_t room = src->ahead_size - src->ahead_len;
        size_t got = src->gzip ? inflate_stream(in, src, to, room, false)
                               : read_stream(in, src, to, room, false, &src->end);
        if (!got)
            return false;
        src->ahead_len += got;
    }
}

/* Fills the chunk from a stream; with nothing when that is at its end. */
static bool fill_chunk(struct input *in, struct source *src, struct chunk *chunk, struct err *err)
{
    char terminator = in->spec.terminator;
    size_t range = in->spec.chunk_len;
    size_t limit = range - (size_t)(src->pos % range); /* up to the end of the range */
    if (!fit(chunk, range + OVERLAP))
        return fail_memory(in, src->file, err);

    size_t len = 0, whole = 0, end = 0; /* whole: bytes up to the last terminator */
    bool more = true;
    while (!end) {
        if (len == chunk->buffer_len && !grow(chunk))
            return fail_memory(in, src->file, err);
        size_t most = len < limit + OVERLAP ? limit + OVERLAP : chunk->buffer_len;
        bool wait = !in->spec.prompt || !whole;
        size_t n = take(in, src, chunk->buffer + len, most - len, wait);
        if (!n) {
            more = false;
            end = src->end == END_REACHED ? len : whole;
            break;
        }
        size_t from = len < limit ? limit - 1 : len;
        len += n;
        const char *t = memrchr(chunk->buffer + len - n, terminator, n);
        if (t)
            whole = (size_t)(t - chunk->buffer) + 1;
        if (t && whole >= limit) {
            t = memchr(chunk->buffer + from, terminator, len - from);
            end = (size_t)(t - chunk->buffer) + 1;
        }
    }
    if (src->end == END_NOT_YET || more) {
        if (!put_back(src, chunk->buffer + end, len - end))
            return fail_memory(in, src->file, err);
    }
    src->pos += end;
    chunk->more_ready = more && (!in->spec.prompt || record_ready(in, src));
    set_data(chunk, 0, end);
    return true;
}

/* Opening and closing. */

static bool reject(const struct input *in, size_t file, const struct stat *st, struct err *err)
{
    if (S_ISDIR(st->st_mode)) {
        errno = EISDIR;
        fail_read(in, file, err);
        return true;
    }
    bool forbids = in->spec.forbid_dev || in->spec.forbid_ino;
    if (forbids && st->st_dev == in->spec.forbid_dev && st->st_ino == in->spec.forbid_ino) {
        fail(err, "'%s' is the filter itself", input_name(in, file));
        return true;
    }
    return false;
}

static bool starts_like_gzip(int fd, off_t start)
{
    unsigned char magic[4];
    size_t got;
    return disk_read(fd, magic, sizeof magic, (uint64_t)start, &got) && got >= GZIP_MAGIC &&
           like_gzip(magic, got);
}

/* Not for files without a size, as in /proc: only reading tells how long they are. */
static bool start_regular(struct input *in, struct source *src, const struct stat *st)
{
    off_t start = S_ISREG(st->st_mode) ? lseek(src->fd, 0, SEEK_CUR) : -1;
    if (start < 0 || start >= st->st_size)
        return false;
    posix_fadvise(src->fd, start, 0, POSIX_FADV_SEQUENTIAL);
    if (in->spec.gzip && starts_like_gzip(src->fd, start))
        return false;
    uint64_t len = (uint64_t)(st->st_size - start);
    src->regular = true;
    src->start = src->read_to = start;
    src->size = st->st_size;
    src->changed = st->st_ctim;
    bool large = len >= LARGE_CHUNK && in->large_chunks;
    if (large && !in->spec.keep)
        src->mapping = map_file(in, src);
    large = large && (in->spec.keep || src->mapping != NULL);
    src->range = large ? LARGE_CHUNK : in->spec.chunk_len;
    src->n_chunks = len / src->range + (len % src->range != 0);
    return true;
}

/* Finds out whether the stream is compressed. A failure to read is left in src->end. */
static bool start_stream(struct input *in, struct source *src, const struct stat *st,
                         struct err *err)
{
#ifdef F_SETPIPE_SZ
    if (S_ISFIFO(st->st_mode))
        (void)fcntl(src->fd, F_SETPIPE_SZ,
                    (int)PIPE_LEN); /* pipes of 64 KiB cost four times more */
#else
    (void)st;
#endif
    if (!in->spec.gzip)
        return true;
    src->raw = malloc(RAW_LEN);
    if (!src->raw)
        return fail_memory(in, src->file, err);
    src->z.next_in = src->raw;
    if (begins_gzip(in, src, true)) {
        /* 16: only gzip's own wrapping; 15: any window that it may use. */
        if (inflateInit2(&src->z, 16 + 15) != Z_OK)
            return fail_memory(in, src->file, err);
        src->gzip = true;
        return true;
    }
    src->end = src->raw_end;
    return put_back(src, (const char *)src->z.next_in, src->z.avail_in) ||
           fail_memory(in, src->file, err);
}

static void source_free(const struct input *in, struct source *src)
{
    if (!is_stdin(&in->spec, src->file))
        close(src->fd);
    else if (src->regular) /* who reads it after us goes on where we ended */
        (void)lseek(src->fd, src->read_to, SEEK_SET);
    if (src->gzip)
        inflateEnd(&src->z);
    mapping_leave(src->mapping);
    free(src->raw);
    free(src->ahead);
    free(src);
}

static struct source *source_open(struct input *in, size_t file, struct err *err)
{
    int fd = STDIN_FILENO;
    if (!is_stdin(&in->spec, file)) {
        /* Without O_NONBLOCK a FIFO that nobody writes to would hold us here, deaf to signals that
         * another thread takes. */
        fd = open(in->spec.files[file], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0) {
            fail_errno(err, "cannot open '%s'", input_name(in, file));
            return NULL;
        }
    }
    struct source *src = calloc(1, sizeof *src);
    if (!src) {
        fail_memory(in, file, err);
        if (fd != STDIN_FILENO)
            close(fd);
        return NULL;
    }
    src->fd = fd;
    src->file = file;
    struct stat st;
    bool ok = fstat(fd, &st) == 0 ? !reject(in, file, &st, err) : fail_read(in, file, err);
    ok = ok && (!in->spec.prints || output_is_apart(fd, input_name(in, file), err));
    if (ok && !start_regular(in, src, &st))
        ok = start_stream(in, src, &st, err);
    if (!ok) {
        source_free(in, src);
        return NULL;
    }
    return src;
}

/* Chunks. All but input_next expect the lock to be held. */

static enum input_got give_failure(struct input *in, size_t file, struct chunk *chunk)
{
    chunk->seq = in->seq++;
    chunk->file = file;
    chunk->data = "";
    chunk->len = 0;
    chunk->more_ready = false;
    return INPUT_FAILED;
}

static enum input_got next_of_regular(struct input *in, struct source *src, struct chunk *chunk,
                                      struct err *err)
{
    uint64_t i = src->next_chunk++;
    chunk->seq = in->seq++;
    chunk->file = src->file;
    /* With prompt, whatever follows may keep us waiting. */
    chunk->more_ready = !in->spec.prompt || i + 1 < src->n_chunks;
    src->users++;
    if (i + 1 == src->n_chunks)
        in->source = NULL;

    pthread_mutex_unlock(&in->lock);
    off_t read_to = 0;
    bool ok = (src->mapping != NULL && map_chunk(in, src, i, chunk, &read_to)) ||
              read_chunk(in, src, i, chunk, &read_to, err);
    pthread_mutex_lock(&in->lock);

    bool report = false;
    if (!ok) {
        report = !src->failed &&
                 (src->mapping == NULL || !atomic_exchange(&src->mapping->told, true));
        src->failed = true;
        chunk->data = "";
        chunk->len = 0;
        if (in->source == src)
            in->source = NULL;
    } else if (read_to > src->read_to) {
        src->read_to = read_to;
    }
    src->users--;
    if (!src->users && in->source != src)
        source_free(in, src);
    return report ? INPUT_FAILED : INPUT_CHUNK_READ;
}

/* INPUT_END: of this file. */
static enum input_got next_of_stream(struct input *in, struct source *src, struct chunk *chunk,
                                     struct err *err)
{
    if (!fill_chunk(in, src, chunk, err))
        return give_failure(in, src->file, chunk);
    if (chunk->len) {
        chunk->seq = in->seq++;
        chunk->file = src->file;
        return INPUT_CHUNK_READ;
    }
    if (src->end == END_BROKEN) {
        *err = src->why;
        return give_failure(in, src->file, chunk);
    }
    return INPUT_END;
}

static enum input_got next_locked(struct input *in, struct chunk *chunk, struct err *err)
{
    for (;;) {
        if (is_stopped(in))
            return INPUT_END;
        if (!in->source) {
            if (in->next_file == count_files(&in->spec))
                return INPUT_END;
            size_t file = in->next_file++;
            in->source = source_open(in, file, err);
            if (!in->source)
                return give_failure(in, file, chunk);
        }
        struct source *src = in->source;
        if (src->regular)
            return next_of_regular(in, src, chunk, err);
        enum input_got got = next_of_stream(in, src, chunk, err);
        if (got == INPUT_CHUNK_READ)
            return got;
        in->source = NULL;
        source_free(in, src);
        if (got == INPUT_FAILED)
            return got;
    }
}

enum input_got input_next(struct input *in, struct chunk *chunk, struct err *err)
{
    let_go(chunk);
    pthread_mutex_lock(&in->lock);
    enum input_got got = next_locked(in, chunk, err);
    pthread_mutex_unlock(&in->lock);
    return got;
}

/* Bytes in all files; 0 if one of them is no regular file. */
static uint64_t total_len(const struct input_spec *spec)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count_files(spec); i++) {
        struct stat st;
        off_t start = 0;
        if (is_stdin(spec, i)) {
            if (fstat(STDIN_FILENO, &st) != 0)
                return 0;
            start = lseek(STDIN_FILENO, 0, SEEK_CUR);
        } else if (stat(spec->files[i], &st) != 0) {
            continue; /* adds nothing, and is reported in its turn */
        }
        if (!S_ISREG(st.st_mode))
            return 0;
        if (start >= 0 && start < st.st_size)
            total += (uint64_t)(st.st_size - start);
    }
    return total;
}

struct input *input_open(const struct input_spec *spec, struct err *err)
{
    size_t n_stdin = 0;
    for (size_t i = 0; i < count_files(spec); i++)
        n_stdin += is_stdin(spec, i);
    if (n_stdin > 1) {
        fail(err, "'-' is given twice");
        return NULL;
    }
    struct input *in = calloc(1, sizeof *in);
    if (!in || pthread_mutex_init(&in->lock, NULL) != 0) {
        free(in);
        fail(err, "no memory to read input");
        return NULL;
    }
    in->spec = *spec;
    in->large_chunks = !in->spec.chunk_len;
    if (!in->spec.chunk_len)
        in->spec.chunk_len = INPUT_CHUNK;
    in->total = total_len(spec);
    return in;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    if (in->source)
        source_free(in, in->source);
    pthread_mutex_destroy(&in->lock);
    free(in);
}

void input_progress(const struct input *in, uint64_t *done, uint64_t *total)
{
    *done = atomic_load_explicit(&in->done, memory_order_relaxed);
    *total = in->total;
}
