#include "keys/regular.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "keys/compressed.h"
#include "keys/gzip.h"

enum {
    /* Bytes left free in front of the data, so that a byte at offset x of the chunk's range lies at
     * an address equal to x modulo 64: the kernel copies faster between like alignments. */
    LEAD = 64,
    /* Regular files of this size and more are read in chunks of this size, and mapped. Mapping
     * saves a copy: a fifth to three fifths of the cost of reading, depending on how the page cache
     * holds the file. Below this size, system calls cost as much as the copy. Each thread has two
     * chunks, one in work and one waiting: 1 MiB (THREAD_MEMORY, filter_build.c). Chunks twice as
     * large are no faster. */
    LARGE_CHUNK = 512 << 10,
};

bool regular_may_be_compressed(int fd, off_t start)
{
    unsigned char magic[COMPRESSED_MAGIC];
    size_t got;
    return !disk_read(fd, magic, sizeof magic, (uint64_t)start, &got) ||
           (got >= GZIP_MAGIC && gzip_like(magic, got)) || compressed_find(magic, got) != NULL;
}

static void count_chunks(struct regular *r)
{
    uint64_t len = r->start < r->size ? (uint64_t)(r->size - r->start) : 0;
    r->n_chunks = len / r->range + (len % r->range != 0);
}

bool regular_begin(struct regular *r, const struct source *src, const struct stat *st,
                   const struct regular_how *how)
{
    off_t start = S_ISREG(st->st_mode) ? lseek(src->fd, 0, SEEK_CUR) : -1;
    if (start < 0 || start >= st->st_size)
        return false;
    posix_fadvise(src->fd, start, 0, POSIX_FADV_SEQUENTIAL);
    if (how->gzip && regular_may_be_compressed(src->fd, start))
        return false;
    uint64_t len = (uint64_t)(st->st_size - start);
    *r = (struct regular){.start = start, .size = st->st_size, .changed = st->st_ctim};
    /* The chunk size must not depend on memory: it affects the contents of a filter that grows. */
    bool large = len >= LARGE_CHUNK && how->large_chunks;
    r->range = large ? LARGE_CHUNK : src->chunk_len;
    count_chunks(r);
    return true;
}

/* The file ends at `end`: was it truncated? Files in /sys are shorter than their size says. */
static bool is_cut(const struct regular *r, int fd, off_t end)
{
    struct stat st;
    const struct timespec *then = &r->changed, *now = &st.st_ctim;
    return end < r->size && (fstat(fd, &st) != 0 || st.st_size != r->size ||
                             now->tv_sec != then->tv_sec || now->tv_nsec != then->tv_nsec);
}

static bool fail_cut(const struct source *src, struct err *err)
{
    return fail(err, "cannot read '%s': it became shorter", src->name);
}

bool regular_header(struct regular *r, const struct source *src, uint64_t records,
                    struct chunk *chunk, struct err *err)
{
    size_t len = 0, end = 0;
    bool at_eof = false;
    if (!chunk_fit(chunk, src->chunk_len + CHUNK_OVERLAP))
        return source_fail_memory(src, err);
    while (chunk->header < records && !at_eof) {
        if (len == chunk->buffer_len && !chunk_grow(chunk))
            return source_fail_memory(src, err);
        size_t want = chunk->buffer_len - len, got;
        if (!disk_read(src->fd, chunk->buffer + len, want, (uint64_t)r->start + len, &got))
            return source_fail_read(src, err);
        chunk->filled = len + got;
        end = chunk_find_header(chunk, len, len + got, src->terminator, records, end);
        len += got;
        at_eof = got < want;
    }
    if (at_eof && is_cut(r, src->fd, r->start + (off_t)len))
        return fail_cut(src, err);
    if (chunk->header < records && end < len) { /* the last record lacks its terminator */
        chunk->header++;
        end = len;
    }
    chunk_set(chunk, 0, end);
    source_count(src, end);
    r->start += (off_t)end;
    count_chunks(r);
    return true;
}

/* The byte before the chunk's range tells whether a record begins at its first byte. The last
 * record of the chunk ends with the first terminator from the last byte of the range on. */
bool regular_chunk(const struct regular *r, const struct source *src, uint64_t i,
                   struct chunk *chunk, off_t *read_to, struct err *err)
{
    size_t range = r->range;
    size_t before = i > 0;
    size_t base = LEAD - before, last = LEAD + range - 1; /* first and last byte, in the buffer */
    off_t at = r->start + (off_t)(i * range) - (off_t)before;
    if (!chunk_fit(chunk, LEAD + range + CHUNK_OVERLAP))
        return source_fail_memory(src, err);

    size_t want = before + range + CHUNK_OVERLAP, got;
    if (!disk_read(src->fd, chunk->buffer + base, want, (uint64_t)at, &got))
        return source_fail_read(src, err);
    if (got < want && is_cut(r, src->fd, at + (off_t)got))
        return fail_cut(src, err);
    size_t end = chunk->filled = base + got;
    bool at_eof = got < want;
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
        *read_to = at + (off_t)got;
        return true;
    }

    for (size_t from = last;;) {
        const char *t = NULL;
        if (from < end)
            t = memchr(chunk->buffer + from, src->terminator, end - from);
        if (t || at_eof) {
            chunk_set(chunk, begin, t ? (size_t)(t - chunk->buffer) + 1 : end);
            *read_to = at + (off_t)(end - base);
            return true;
        }
        from = end;
        want = end - base;
        if (chunk->buffer_len - end < want && !chunk_grow(chunk))
            return source_fail_memory(src, err);
        if (!disk_read(src->fd, chunk->buffer + end, want, (uint64_t)at + (end - base), &got))
            return source_fail_read(src, err);
        end += got;
        chunk->filled = end;
        at_eof = got < want;
        if (at_eof && is_cut(r, src->fd, at + (off_t)(end - base)))
            return fail_cut(src, err);
    }
}
