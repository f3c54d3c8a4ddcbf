/* SPDX-License-Identifier: MIT */
#include "keys/input.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"
#include "base/exact.h"
#include "base/output.h"
#include "base/sig.h"
#include "keys/content.h"
#include "keys/gzip.h"
#include "keys/source.h"
#include "keys/split.h"
#include "keys/stream.h"

/* ---- A regular file, read by all threads at once: chunk i holds the records that begin in its
 * range. */
struct regular {
    off_t start;             /* chunk 0 begins here */
    off_t size;              /* when it was opened */
    struct timespec changed; /* time of the last change before it was opened */
    size_t range;            /* bytes in which the records of a chunk begin */
    uint64_t n_chunks;
};

/* Bytes left free in front of the data, so that a byte at offset x of the chunk's range lies at an
 * address equal to x modulo 64: the kernel copies faster between like alignments. */
enum { LEAD = 64 };

/* May the file be compressed, or no list of keys, from `start` on, so that stream.h must read it?
 * Also true if the file cannot be read: stream.h then tells the reason. */
static bool regular_needs_stream(int fd, off_t start, char terminator)
{
    unsigned char head[CONTENT_HEAD];
    size_t got = 0;
    struct err ignored;
    bool needs = !disk_read(fd, head, sizeof head, (uint64_t)start, &got) ||
                 (got >= GZIP_MAGIC && gzip_like(head, got)) ||
                 !content_check("", head, got, terminator, false, &ignored);
    port_wipe(head, got);
    return needs;
}

static void count_chunks(struct regular *r)
{
    uint64_t len = r->start < r->size ? (uint64_t)(r->size - r->start) : 0;
    r->n_chunks = len / r->range + (len % r->range != 0);
}

/* False: a file for stream.h; with `gzip`, one that may be no plain list of keys, too. This
 * includes files of size 0, as in /proc: their length is only known after reading. */
static bool regular_begin(struct regular *r, const struct source *src, const struct stat *st,
                          bool gzip)
{
    off_t start = S_ISREG(st->st_mode) ? lseek(src->fd, 0, SEEK_CUR) : -1;
    if (start < 0 || start >= st->st_size)
        return false;
    port_read_ahead(src->fd, start);
    if (gzip && regular_needs_stream(src->fd, start, src->terminator))
        return false;
    *r = (struct regular){start, st->st_size, st->port_changed, .range = src->chunk_len};
    count_chunks(r);
    return true;
}

/* The file ends at `end`: was it truncated? Files in /sys are shorter than their size says. */
static bool is_cut(const struct regular *r, int fd, off_t end)
{
    struct stat st;
    return end < r->size && (fstat(fd, &st) != 0 || st.st_size != r->size ||
                             !disk_same_time(&st.port_changed, &r->changed));
}

/* Reads up to `want` bytes of the file, from byte `at`, behind the first `keep` of the buffer. */
static bool regular_read(const struct regular *r, const struct source *src, struct chunk *chunk,
                         size_t keep, size_t want, off_t at, struct err *err)
{
    size_t got;
    bool ok = disk_read(src->fd, chunk->buffer + keep, want, (uint64_t)at, &got);
    chunk->filled = keep + got;
    if (!ok)
        return source_fail_read(src, err);
    return got == want || !is_cut(r, src->fd, at + (off_t)got) ||
           fail(err, "cannot read '%s': it became shorter", src->name);
}

/* Reads chunk i, up to byte *read_to of the file. The byte before the chunk's range tells whether a
 * record begins at its first byte. The last record of the chunk ends with the first terminator from
 * the last byte of the range on. */
static bool regular_chunk(const struct regular *r, const struct source *src, uint64_t i,
                          struct chunk *chunk, off_t *read_to, struct err *err)
{
    size_t range = r->range;
    size_t before = i > 0;
    size_t base = LEAD - before, last = LEAD + range - 1; /* first and last byte, in the buffer */
    off_t at = r->start + (off_t)(i * range) - (off_t)before;
    if (!chunk_fit(chunk, LEAD + range + CHUNK_OVERLAP))
        return source_fail_memory(src, err);

    size_t want = before + range + CHUNK_OVERLAP;
    if (!regular_read(r, src, chunk, base, want, at, err))
        return false;
    size_t end = chunk->filled;
    bool at_eof = end < base + want;
    if (end > LEAD)
        source_count(src, end - LEAD < range ? end - LEAD : range);

    size_t begin = base;
    if (before) {
        size_t stop = last < end ? last : end;
        const char *t = memchr(chunk->buffer + base, src->terminator, stop - base);
        begin = t ? (size_t)(t - chunk->buffer) + 1 : end;
        if (!t)
            at_eof = true; /* read no further: no record begins in this chunk */
    }
    if (begin >= end) {
        chunk_set(chunk, base, base);
        *read_to = at + (off_t)(end - base);
        return true;
    }

    size_t start = chunk_last_start(chunk, src, begin, last < end ? last : end);
    for (size_t from = last;;) {
        const char *t = NULL;
        if (from < end)
            t = memchr(chunk->buffer + from, src->terminator, end - from);
        bool too_long = chunk_too_long(chunk, src, start, t ? (size_t)(t - chunk->buffer) : end);
        if (t || at_eof || too_long) {
            chunk->offset = at + (off_t)(begin - base);
            chunk_set(chunk, begin, too_long ? start : t ? (size_t)(t - chunk->buffer) + 1 : end);
            *read_to = at + (off_t)(end - base);
            return true;
        }
        from = end;
        if (chunk->buffer_len == end && !chunk_grow(chunk, src))
            return source_fail_memory(src, err);
        want = chunk->buffer_len - end;
        if (!regular_read(r, src, chunk, end, want, at + (off_t)(end - base), err))
            return false;
        end = chunk->filled;
        at_eof = end < chunk->buffer_len;
    }
}

/* An open file. Regular files are read by all threads, without the lock: a thread that waits for
 * the next stream may hold it for long. */
struct file {
    struct source source;
    size_t index;
    bool is_regular; /* or a stream */
    bool begun;      /* its header, if any, has been read */
    bool resolved;   /* `columns` is set */
    struct csv_columns columns;
    struct stream stream;

    struct regular regular;
    uint64_t next_chunk;
    _Atomic int64_t read_to; /* end of the bytes that were read */
    atomic_uint users;       /* threads that are reading it, plus one while chunks remain */
    atomic_bool failed;      /* a failure was reported */
};

struct input {
    struct input_spec spec;
    pthread_mutex_t lock; /* for all fields below that are not atomic */
    struct file *file;
    size_t next_file;
    bool gave_header;
    char
        *columns; /* those of the first file, in one spelling (csv_plain), if records are printed */
    size_t columns_len, first_file;
    uint64_t seq;
    uint64_t total;
    _Atomic uint64_t done, finished;
    atomic_bool stopped;
    atomic_size_t wanted;   /* the first file that is still to be read */
    _Atomic int64_t resume; /* of input_resume; -1: not called */
};

static size_t count_files(const struct input_spec *spec)
{
    return spec->n_files ? spec->n_files : 1;
}

static bool is_stdin(const struct input_spec *spec, size_t file)
{
    return !spec->n_files || strcmp(spec->files[file], "-") == 0;
}

const char *input_name_of(const struct input_spec *spec, size_t file)
{
    return is_stdin(spec, file) ? "(standard input)" : spec->files[file];
}

const char *input_name(const struct input *in, size_t file)
{
    return input_name_of(&in->spec, file);
}

void input_stop(struct input *in)
{
    in->stopped = true;
}

void input_finished(struct input *in, uint64_t n)
{
    in->finished = n;
}

void input_skip(struct input *in, size_t file)
{
    in->wanted = file + 1;
}

void input_resume(struct input *in, int64_t offset)
{
    in->resume = offset;
}

/* Opening and closing. */

/* May the file be read as keys? */
static bool check(const struct input *in, const struct source *src, const struct stat *st,
                  struct err *err)
{
    const struct input_spec *spec = &in->spec;
    if (S_ISDIR(st->st_mode)) {
        errno = EISDIR;
        return source_fail_read(src, err);
    }
    if (spec->filter != NULL && disk_same_file(spec->filter, st))
        return fail(err, "'%s' is the filter itself", src->name);
    return !spec->prints || output_is_apart(src->fd, src->name, err);
}

static void file_close(const struct input *in, struct file *f)
{
    if (!is_stdin(&in->spec, f->index))
        close(f->source.fd);
    else if (f->is_regular) /* the next reader of standard input continues here */
        (void)lseek(f->source.fd, (off_t)f->read_to, SEEK_SET);
    stream_end(&f->stream);
    free(f);
}

/* Checks the opened file, and begins to read it. */
static bool file_begin(const struct input *in, struct file *f, struct err *err)
{
    const struct input_spec *spec = &in->spec;
    const struct source *src = &f->source;
    struct stat st;
    if (fstat(src->fd, &st) != 0)
        return source_fail_read(src, err);
    if (!check(in, src, &st, err))
        return false;
    /* Where a record of CSV ends depends on all the quotes before it. */
    f->is_regular = spec->csv == NULL && regular_begin(&f->regular, src, &st, spec->gzip);
    f->read_to = f->regular.start;
    bool may_be_no_list = !f->is_regular && spec->gzip &&
                          (S_ISREG(st.st_mode) || (!spec->questions && !isatty(src->fd)));
    return stream_begin(&f->stream, src, &st, may_be_no_list, err); /* if regular, for the header */
}

static void file_release(const struct input *in, struct file *f)
{
    if (atomic_fetch_sub(&f->users, 1) == 1)
        file_close(in, f);
}

/* The current file has no more chunks. */
static void leave_file(struct input *in, struct file *f)
{
    in->file = NULL;
    file_release(in, f);
}

bool input_fail_open(const char *name, bool apart, struct err *err)
{
    fail_errno(err, "cannot open '%s'", name);
    bool may_be = !apart && disk_lacks(name);
    bool is_url = may_be && strncmp(name, "http", 4) == 0 && strstr(name, "://") != NULL;
    bool is_key = may_be && (strchr(name, '/') == NULL || strstr(name, "://") != NULL);
    return is_url   ? fail_more(err, " (-k gives a key; curl -sSf 'URL' | seen ... reads a list)")
           : is_key ? fail_more(err, " (-k gives a key)")
                    : false;
}

static struct file *file_open(struct input *in, size_t index, struct err *err)
{
    const char *name = input_name(in, index);
    int fd = STDIN_FILENO;
    if (!is_stdin(&in->spec, index)) {
        /* Without O_NONBLOCK, opening a FIFO without a writer would block here. Signals that
         * another thread takes would go unnoticed. */
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0) {
            input_fail_open(name, in->spec.apart, err);
            return NULL;
        }
    }
    const struct source src = {.fd = fd,
                               .name = name,
                               .terminator = in->spec.terminator,
                               .csv = in->spec.csv != NULL,
                               .prompt = in->spec.prompt,
                               .secret = in->spec.secret,
                               .chunk_len = in->spec.chunk_len,
                               .longest = in->spec.longest,
                               .stopped = &in->stopped,
                               .done = &in->done,
                               .finished = &in->finished};
    struct file *f = calloc(1, sizeof *f);
    if (!f) {
        source_fail_memory(&src, err);
        if (fd != STDIN_FILENO)
            close(fd);
        return NULL;
    }
    f->source = src;
    f->index = index;
    f->users = 1;
    if (file_begin(in, f, err))
        return f;
    file_close(in, f);
    return NULL;
}

/* Chunks. All but read_regular and input_next expect the lock to be held. */

static enum input_got give_failure(struct input *in, size_t file, struct chunk *chunk)
{
    chunk->seq = in->seq++;
    chunk->file = file;
    chunk->data = "";
    chunk->len = 0;
    chunk->header = 0;
    return INPUT_FAILED;
}

/* A chunk of a regular file, claimed by one thread for reading. */
struct claim {
    struct file *file; /* NULL: none */
    uint64_t i;
};

static void claim_regular(struct input *in, struct file *f, struct chunk *chunk,
                          struct claim *claim)
{
    uint64_t i = f->next_chunk++, n = f->regular.n_chunks;
    *claim = (struct claim){f, i};
    chunk->seq = in->seq++;
    chunk->file = f->index;
    chunk->first = i == 0 && in->spec.header == 0;
    if (i + 1 < n)
        f->users++;
    else
        in->file = NULL; /* the claim takes over its place in f->users */
}

static enum input_got read_regular(const struct input *in, const struct claim *claim,
                                   struct chunk *chunk, struct err *err)
{
    struct file *f = claim->file;
    const struct regular *r = &f->regular;
    off_t read_to = 0;
    bool report = false;
    if (!regular_chunk(r, &f->source, claim->i, chunk, &read_to, err)) {
        report = !atomic_exchange(&f->failed, true);
        chunk->data = "";
        chunk->len = 0;
    }
    int64_t old = atomic_load(&f->read_to);
    while (old < read_to && !atomic_compare_exchange_weak(&f->read_to, &old, read_to))
        ; /* another thread may have raised it */
    file_release(in, f);
    return report ? INPUT_FAILED : INPUT_CHUNK_READ;
}

/* A regular file is read as a stream up to the end of its header. */
static bool read_file_header(struct input *in, struct file *f, struct chunk *chunk, struct err *err)
{
    struct stream *s = &f->stream;
    if (!stream_header(s, &f->source, in->spec.header, chunk, err))
        return false;
    if (!f->is_regular)
        return true;
    if (s->end == SOURCE_BROKEN) {
        *err = s->why;
        return false;
    }
    f->regular.start += (off_t)chunk->len;
    count_chunks(&f->regular);
    *f->source.done -= stream_unread(s); /* they are read again */
    f->read_to = f->regular.start;
    return true;
}

/* Are the columns of this file those under whose names records are printed? */
static bool check_columns(struct input *in, const struct file *f, const char *first, size_t len,
                          struct err *err)
{
    char *plain = malloc(len + 1);
    if (plain == NULL)
        return source_fail_memory(&f->source, err);
    size_t plain_len = csv_plain(in->spec.csv->delimiter, first, len, plain);
    if (in->columns == NULL) {
        in->columns = plain;
        in->columns_len = plain_len;
        in->first_file = f->index;
        return true;
    }
    bool same = plain_len == in->columns_len && memcmp(plain, in->columns, plain_len) == 0;
    free(plain);
    return same || fail(err,
                        "the columns of '%s' are not those of '%s', under whose names records "
                        "are printed",
                        f->source.name, input_name(in, in->first_file));
}

/* Finds the columns of a file of CSV in its first record. */
static bool resolve(struct input *in, struct file *f, const char *first, size_t len,
                    struct err *err)
{
    const struct csv *csv = in->spec.csv;
    struct err why;
    f->resolved = true;
    if (!csv_resolve(csv, first, len, &f->columns, &why))
        return fail(err, "'%.1000s' %s", f->source.name, why.text);
    return !in->spec.prints || csv->no_header || check_columns(in, f, first, len, err);
}

/* The same for a file without a header, of which `chunk` is the first with a record. */
static bool resolve_first(struct input *in, struct file *f, const struct chunk *chunk,
                          struct err *err)
{
    size_t begin = csv_blank_lines(chunk->data, chunk->len), len = chunk->len - begin, last;
    bool inside = false;
    if (len == 0)
        return true;
    split_csv_ends(chunk->data + begin, len, &inside, 0, &len, &last);
    return resolve(in, f, chunk->data + begin, len, err);
}

/* INPUT_END: there is no header. */
static enum input_got next_header(struct input *in, struct file *f, struct chunk *chunk,
                                  struct err *err)
{
    f->begun = true;
    if (in->spec.header == 0)
        return INPUT_END;
    chunk->seq = in->seq;
    bool ok = read_file_header(in, f, chunk, err) &&
              (in->spec.csv == NULL || chunk->len == 0 || chunk->too_long > 0 ||
               resolve(in, f, chunk->data, chunk->len, err));
    f->failed = !ok || chunk->too_long > 0;
    if (!ok)
        return give_failure(in, f->index, chunk);
    if (chunk->len == 0 && !f->failed) {
        chunk->header = 0;
        return INPUT_END;
    }
    in->seq++;
    chunk->file = f->index;
    chunk->first_header = !in->gave_header;
    in->gave_header = true;
    return INPUT_CHUNK_READ;
}

/* INPUT_END: the end of this file. */
static enum input_got next_of_stream(struct input *in, struct file *f, struct chunk *chunk,
                                     struct err *err)
{
    struct stream *s = &f->stream;
    chunk->seq = in->seq;
    chunk->first = s->pos == 0 && in->spec.header == 0;
    if (!stream_chunk(s, &f->source, chunk, err) ||
        (in->spec.csv != NULL && !f->resolved && chunk->len > 0 &&
         !resolve_first(in, f, chunk, err)))
        return give_failure(in, f->index, chunk);
    chunk->columns = f->columns;
    if (chunk->len > 0 || chunk->too_long > 0) {
        in->seq++;
        chunk->file = f->index;
        return INPUT_CHUNK_READ;
    }
    if (s->end == SOURCE_BROKEN) {
        *err = s->why;
        return give_failure(in, f->index, chunk);
    }
    return INPUT_END;
}

static enum input_got next_given(struct input *in, struct chunk *chunk)
{
    if (in->seq > 0)
        return INPUT_END;
    chunk->seq = in->seq++;
    chunk->file = 0;
    chunk->data = in->spec.given;
    chunk->len = in->spec.given_len;
    return INPUT_CHUNK_READ;
}

static enum input_got next_locked(struct input *in, struct chunk *chunk, struct claim *claim,
                                  struct err *err)
{
    for (;;) {
        if (in->stopped || sig_caught())
            return INPUT_END;
        if (in->spec.given != NULL)
            return next_given(in, chunk);
        if (!in->file) {
            if (in->next_file == count_files(&in->spec))
                return INPUT_END;
            size_t index = in->next_file++;
            in->file = file_open(in, index, err);
            if (!in->file)
                return give_failure(in, index, chunk);
        }
        struct file *f = in->file;
        if (f->index < in->wanted) {
            leave_file(in, f);
            continue;
        }
        enum input_got got = f->begun ? INPUT_END : next_header(in, f, chunk, err);
        if (got != INPUT_END)
            return got;
        if (f->failed || (f->is_regular && f->next_chunk == f->regular.n_chunks)) {
            leave_file(in, f);
            continue;
        }
        if (f->is_regular) {
            claim_regular(in, f, chunk, claim);
            return INPUT_CHUNK_READ;
        }
        got = next_of_stream(in, f, chunk, err);
        if (got == INPUT_CHUNK_READ)
            return got;
        leave_file(in, f);
        if (got == INPUT_FAILED)
            return got;
    }
}

enum input_got input_next(struct input *in, struct chunk *chunk, struct err *err)
{
    struct claim claim = {0};
    chunk->secret = in->spec.secret;
    chunk->header = 0;
    chunk->first_header = chunk->first = false;
    chunk->too_long = 0;
    chunk->offset = -1;
    pthread_mutex_lock(&in->lock);
    enum input_got got = next_locked(in, chunk, &claim, err);
    pthread_mutex_unlock(&in->lock);
    return claim.file != NULL ? read_regular(in, &claim, chunk, err) : got;
}

/* Bytes in all files; 0 if one of them is not a regular file. */
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
            continue; /* adds nothing; reported when it is opened */
        }
        if (!S_ISREG(st.st_mode))
            return 0;
        if (start >= 0 && start < st.st_size)
            total += (uint64_t)(st.st_size - start);
    }
    return total;
}

/* Where part i begins in `total` bytes, and its length. Each part begins at a pseudo-random place
 * in one of equal ranges: parts at equal distances would miss the repeats of a periodic file. */
static uint64_t part_at(uint64_t total, uint64_t i, size_t *len)
{
    uint64_t begin = total / INPUT_PARTS * i, random = (i + 1) * 0x9e3779b97f4a7c15;
    uint64_t range = i + 1 < INPUT_PARTS ? total / INPUT_PARTS : total - begin;
    random = (random ^ random >> 32) * 0xd6e8feb86659fd93;
    *len = range < INPUT_PART ? (size_t)range : INPUT_PART;
    return begin + mul_high(random, range - *len + 1);
}

/* Finds the columns in the first bytes of a file of CSV, which go to `part`. */
static bool look_at_columns(const struct input_spec *spec, int fd, off_t start, char *part,
                            struct csv_columns *columns)
{
    size_t got = 0, begin, first = 0, last;
    bool inside = false;
    struct err ignored;
    disk_read(fd, part, INPUT_PART, (uint64_t)start, &got);
    begin = csv_blank_lines(part, got);
    split_csv_ends(part + begin, got - begin, &inside, 0, &first, &last);
    return first > 0 && csv_resolve(spec->csv, part + begin, first, columns, &ignored);
}

/* Samples the parts that begin in a file, which begins at byte *base of the whole input; advances
 * *base. False: the file cannot be sampled. */
static bool look_at_parts(const struct input_spec *spec, size_t file, uint64_t total,
                          uint64_t *base, input_looker *each, void *ctx)
{
    struct csv_columns columns = {0};
    struct stat st;
    bool owned = !is_stdin(spec, file), looked = false;
    int fd = owned ? open(spec->files[file], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
                   : STDIN_FILENO;
    char *part = malloc(INPUT_PART);
    off_t start = fd >= 0 ? lseek(fd, 0, SEEK_CUR) : -1;
    if (part != NULL && start >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        start < st.st_size) {
        uint64_t len = (uint64_t)(st.st_size - start);
        looked = !(spec->gzip && regular_needs_stream(fd, start, spec->terminator)) &&
                 (spec->csv == NULL || look_at_columns(spec, fd, start, part, &columns));
        for (uint64_t i = 0; looked && i < INPUT_PARTS; i++) {
            size_t part_len, got = 0;
            uint64_t at = part_at(total, i, &part_len);
            if (at < *base || at - *base >= len)
                continue;
            disk_read(fd, part, part_len, (uint64_t)start + (at - *base), &got);
            each(ctx, part, got, &columns);
        }
        *base += len;
    }
    if (part != NULL && spec->secret)
        port_wipe(part, INPUT_PART);
    free(part);
    if (owned && fd >= 0)
        close(fd);
    return looked;
}

uint64_t input_look(const struct input_spec *spec, input_looker *each, void *ctx)
{
    uint64_t total = total_len(spec), base = 0;
    bool looked = false;
    for (size_t i = 0; total > 0 && i < count_files(spec); i++)
        looked |= look_at_parts(spec, i, total, &base, each, ctx);
    return looked ? total : 0;
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
    if (spec->prints && !output_is_none_of(spec->files, spec->n_files, err))
        return NULL;
    struct input *in = calloc(1, sizeof *in);
    if (!in || pthread_mutex_init(&in->lock, NULL) != 0) {
        free(in);
        fail(err, "no memory to read input");
        return NULL;
    }
    in->resume = -1;
    in->spec = *spec;
    if (!in->spec.chunk_len)
        in->spec.chunk_len = INPUT_CHUNK;
    if (!in->spec.longest)
        in->spec.longest = SIZE_MAX;
    in->total = spec->given != NULL ? 0 : total_len(spec);
    return in;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    if (in->file)
        leave_file(in, in->file);
    if (in->resume >= 0)
        (void)lseek(STDIN_FILENO, (off_t)in->resume, SEEK_SET);
    pthread_mutex_destroy(&in->lock);
    free(in->columns);
    free(in);
}

void input_progress(const struct input *in, uint64_t *done, uint64_t *total)
{
    *done = atomic_load_explicit(&in->done, memory_order_relaxed);
    *total = in->total;
}
