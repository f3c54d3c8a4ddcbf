/* SPDX-License-Identifier: MIT */
#include "keys/stream.h"

#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "base/bytes.h"
#include "keys/content.h"
#include "keys/gzip.h"
#include "keys/split.h"

enum { PIPE_LEN = 1 << 20 }; /* Linux's default limit for unprivileged users */

static size_t read_more(struct stream *s, const struct source *src, char *to, size_t capacity,
                        bool wait)
{
    if (s->gzip.found)
        return gzip_read(&s->gzip, src, to, capacity, wait, &s->end, &s->why);
    return source_read(src, to, capacity, wait, &s->end, &s->why);
}

static void free_ahead(struct stream *s)
{
    if (s->secret && s->ahead != NULL)
        port_wipe(s->ahead, s->ahead_capacity);
    free(s->ahead);
    s->ahead = NULL;
    s->ahead_at = s->ahead_len = s->ahead_capacity = 0;
}

/* Takes the next bytes of the stream, as many as are ready. 0: s->end says why; or, without `wait`,
 * no bytes are ready. */
static size_t take_ahead(struct stream *s, const struct source *src, char *to, size_t capacity,
                         bool wait)
{
    size_t n = s->ahead_len - s->ahead_at;
    if (!n)
        return read_more(s, src, to, capacity, wait);
    n = n < capacity ? n : capacity;
    memcpy(to, s->ahead + s->ahead_at, n);
    s->ahead_at += n;
    return n;
}

/* Makes space for `len` bytes more in ahead, of which nothing was taken. */
static bool fit_ahead(struct stream *s, size_t len)
{
    size_t have = s->ahead_len;
    if (s->ahead_capacity - have >= len)
        return true;
    char *p = len <= SIZE_MAX / 2 - have ? malloc(2 * (have + len)) : NULL;
    if (!p)
        return false;
    if (have > 0)
        memcpy(p, s->ahead, have);
    free_ahead(s);
    s->ahead = p;
    s->ahead_len = have;
    s->ahead_capacity = 2 * (have + len);
    return true;
}

/* Puts back the last n bytes that were taken. */
static bool put_back(struct stream *s, const char *p, size_t n)
{
    if (s->ahead_at < s->ahead_len) { /* they came from there */
        s->ahead_at -= n;
        return true;
    }
    s->ahead_at = s->ahead_len = 0;
    if (!fit_ahead(s, n))
        return false;
    if (n)
        memcpy(s->ahead, p, n);
    s->ahead_len = n;
    return true;
}

/* Reads the first bytes ahead. Waits for them, or, if the source is `prompt`, for the first record.
 * If they show that the input is not a list of keys, breaks the stream. False: out of memory. */
static bool check_head(struct stream *s, const struct source *src)
{
    size_t got = 1;
    while (got > 0 && s->ahead_len < CONTENT_HEAD) {
        if (!fit_ahead(s, CONTENT_HEAD))
            return false;
        bool wait = !src->prompt || memchr(s->ahead, src->terminator, s->ahead_len) == NULL;
        got = read_more(s, src, s->ahead + s->ahead_len, s->ahead_capacity - s->ahead_len, wait);
        s->ahead_len += got;
    }
    s->check = false;
    if (s->ahead_len > 0 && !content_check(src->name, s->ahead, s->ahead_len, src->terminator,
                                           s->gzip.found, &s->why)) {
        s->end = SOURCE_BROKEN;
        s->ahead_len = 0;
    }
    return true;
}

/* The chunk is bytes [begin, end) of its buffer. */
static void give_chunk(struct stream *s, struct chunk *chunk, size_t begin, size_t end)
{
    chunk_set(chunk, begin, end);
    if (s->secret && s->ahead != NULL) { /* overwrites what is no longer in ahead */
        port_wipe(s->ahead, s->ahead_at);
        port_wipe(s->ahead + s->ahead_len, s->ahead_capacity - s->ahead_len);
    }
}

/* A record is too long: what follows it is not read. False: there is no more. */
static bool leave_rest(struct stream *s)
{
    s->end = SOURCE_STOPPED;
    return false;
}

/* stream_header() for CSV: its first record. Lines without a byte before it are counted, but are
 * not part of the chunk. */
static bool csv_header(struct stream *s, const struct source *src, struct chunk *chunk,
                       struct err *err)
{
    size_t len = 0, begin = 0, end = 0, looked = 0;
    bool more = true, inside = false;
    while (end == 0 && more && !chunk_too_long(chunk, src, begin, len)) {
        if (len == chunk->buffer_len && !chunk_grow(chunk, src))
            return source_fail_memory(src, err);
        size_t n = take_ahead(s, src, chunk->buffer + len, chunk->buffer_len - len, true);
        more = n > 0;
        chunk->filled = len += n;
        while (end == 0 && looked < len) {
            size_t first = 0, last;
            split_csv_ends(chunk->buffer + looked, len - looked, &inside, 0, &first, &last);
            size_t stop = first > 0 ? looked + first : len;
            if (first > 0) {
                inside = false;
                chunk->header++;
                if (csv_blank_lines(chunk->buffer + begin, stop - begin) > 0)
                    begin = stop;
                else
                    end = stop;
            }
            looked = stop;
        }
    }
    if (!more && s->end == SOURCE_ENDED && end == 0 && begin < len) {
        chunk->header++;
        end = len;
    }
    end = end > 0 ? end : begin;
    if (chunk->too_long > 0)
        more = leave_rest(s);
    if (more && !put_back(s, chunk->buffer + end, len - end))
        return source_fail_memory(src, err);
    give_chunk(s, chunk, begin, end);
    return true;
}

bool stream_header(struct stream *s, const struct source *src, uint64_t records,
                   struct chunk *chunk, struct err *err)
{
    size_t len = 0, end = 0;
    bool more = true;
    if ((s->check && !check_head(s, src)) || !chunk_fit(chunk, src->chunk_len + CHUNK_OVERLAP))
        return source_fail_memory(src, err);
    if (src->csv)
        return csv_header(s, src, chunk, err);
    while (chunk->header < records && more && chunk->too_long == 0) {
        if (len == chunk->buffer_len && !chunk_grow(chunk, src))
            return source_fail_memory(src, err);
        size_t n = take_ahead(s, src, chunk->buffer + len, chunk->buffer_len - len, true);
        chunk->filled = len + n;
        for (const char *t; chunk->header < records; chunk->header++) {
            size_t from = end > len ? end : len;
            if ((t = memchr(chunk->buffer + from, src->terminator, len + n - from)) == NULL ||
                chunk_too_long(chunk, src, end, (size_t)(t - chunk->buffer)))
                break;
            end = (size_t)(t - chunk->buffer) + 1;
        }
        len += n;
        more = n > 0;
        if (chunk->header < records && chunk->too_long == 0)
            chunk_too_long(chunk, src, end, len);
    }
    if (!more && s->end == SOURCE_ENDED && end < len) { /* the last record lacks its terminator */
        chunk->header++;
        end = len;
    }
    if (chunk->too_long > 0)
        more = leave_rest(s);
    if (more && !put_back(s, chunk->buffer + end, len - end))
        return source_fail_memory(src, err);
    give_chunk(s, chunk, 0, end);
    return true;
}

/* Looks at the bytes of the chunk from `from` to `len`. *last becomes the offset behind the last
 * record that ends in them; *end, that behind the first one whose terminator is at `limit` or
 * later. Both stay as they are if there is none. *inside, for CSV: is the next byte between quotes?
 */
static void find_ends(const struct source *src, const char *p, size_t from, size_t len,
                      size_t limit, bool *inside, size_t *last, size_t *end)
{
    /* Without quotes, each newline ends a record. */
    if (src->csv && (*inside || memchr(p + from, '"', len - from) != NULL)) {
        size_t of_first = 0, of_last = 0;
        split_csv_ends(p + from, len - from, inside, limit > from ? limit - from : 0, &of_first,
                       &of_last);
        *last = of_last > 0 ? from + of_last : *last;
        *end = of_first > 0 ? from + of_first : *end;
        return;
    }
    const char *t = bytes_last(p + from, src->terminator, len - from);
    if (t == NULL)
        return;
    *last = (size_t)(t - p) + 1;
    size_t at = limit > from ? limit : from;
    if (*last > at)
        *end = (size_t)((const char *)memchr(p + at, src->terminator, len - at) - p) + 1;
}

bool stream_chunk(struct stream *s, const struct source *src, struct chunk *chunk, struct err *err)
{
    size_t range = src->chunk_len;
    size_t limit = range - (size_t)(s->pos % range); /* up to the end of the range */
    if ((s->check && !check_head(s, src)) || !chunk_fit(chunk, range + CHUNK_OVERLAP))
        return source_fail_memory(src, err);

    size_t len = 0, whole = 0, end = 0; /* whole: bytes up to the last terminator */
    bool more = true, inside = false;
    while (!end && !chunk_too_long(chunk, src, whole, len)) {
        if (len == chunk->buffer_len && !chunk_grow(chunk, src))
            return source_fail_memory(src, err);
        size_t left = chunk->buffer_len - len, most = len + (left < range ? left : range);
        if (len < limit + CHUNK_OVERLAP)
            most = limit + CHUNK_OVERLAP;
        bool wait = !src->prompt || !whole;
        size_t n = take_ahead(s, src, chunk->buffer + len, most - len, wait);
        if (!n) {
            more = false;
            end = s->end == SOURCE_ENDED ? len : whole;
            break;
        }
        len += n;
        chunk->filled = len;
        find_ends(src, chunk->buffer, len - n, len, limit - 1, &inside, &whole, &end);
    }
    if (end > 0) {
        size_t start = chunk_last_start(chunk, src, 0, (end < limit ? end : limit) - 1);
        bool terminated = chunk->buffer[end - 1] == src->terminator;
        whole = chunk_too_long(chunk, src, start, end - terminated) ? start : end;
    }
    if (chunk->too_long > 0) {
        end = whole;
        more = leave_rest(s);
    }
    if ((s->end == SOURCE_GOES_ON || more) && !put_back(s, chunk->buffer + end, len - end))
        return source_fail_memory(src, err);
    give_chunk(s, chunk, 0, end);
    s->pos += chunk->len;
    return true;
}

bool stream_begin(struct stream *s, const struct source *src, const struct stat *st, bool gzip,
                  struct err *err)
{
    *s = (struct stream){.secret = src->secret};
    if (S_ISFIFO(st->st_mode)) /* pipes of 64 KiB cost four times more */
        port_widen_pipe(src->fd, (int)PIPE_LEN);
    if (!gzip)
        return true;
    s->check = true;
    if (!gzip_begin(&s->gzip, src, &s->why))
        return source_fail_memory(src, err);
    if (s->gzip.found)
        return true;
    s->end = s->gzip.raw_end;
    bool ok = put_back(s, (const char *)s->gzip.z.next_in, s->gzip.z.avail_in);
    gzip_end(&s->gzip);
    return ok || source_fail_memory(src, err);
}

size_t stream_unread(const struct stream *s)
{
    return s->ahead_len - s->ahead_at;
}

void stream_end(struct stream *s)
{
    gzip_end(&s->gzip);
    free_ahead(s);
}
