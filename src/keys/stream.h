/* SPDX-License-Identifier: MIT
 * A pipe, a terminal, a device, or gzip data: read sequentially, by one thread at a time.
 *
 *     struct stream s;
 *     if (!stream_begin(&s, &src, &st, gzip, &err)) ...
 *     stream_header(&s, &src, records, &chunk, &err)   // optional
 *     while (stream_chunk(&s, &src, &chunk, &err) && chunk.len > 0)
 *         ... records ...
 *     if (s.end == SOURCE_BROKEN) ... s.why ...
 *     stream_end(&s);                                  // in any case
 *
 * A chunk ends where a chunk of chunk_len of a regular file with the same bytes would end, unless
 * the source is `prompt`: then it ends when no more bytes are ready.
 */
#ifndef KEYS_STREAM_H
#define KEYS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "keys/gzip.h"
#include "keys/source.h"

struct stream {
    enum source_end end; /* what follows the bytes in `ahead` */
    struct err why;      /* with SOURCE_BROKEN */
    /* The rest is private. */
    struct gzip gzip;
    bool check;   /* first of all, whether the input is a list of keys */
    bool secret;  /* bytes of `ahead` are overwritten after use */
    uint64_t pos; /* bytes returned in chunks, without the header; a record begins there */
    /* Bytes not yet in a chunk come from ahead[ahead_at..ahead_len) first. */
    char *ahead;
    size_t ahead_at, ahead_len, ahead_capacity;
};

/* With `gzip`, detects gzip data; input that is not a list of keys (content.h) breaks the stream at
 * its first chunk. False: out of memory. A read error is left in s->end. */
bool stream_begin(struct stream *s, const struct source *src, const struct stat *st, bool gzip,
                  struct err *err);

/* Reads the first `records` records, or all if there are fewer. False: out of memory. */
bool stream_header(struct stream *s, const struct source *src, uint64_t records,
                   struct chunk *chunk, struct err *err);

/* Fills the chunk; chunk->len is 0 at the end of the stream. False: out of memory. */
bool stream_chunk(struct stream *s, const struct source *src, struct chunk *chunk, struct err *err);

/* The bytes that were read from the source, and are in no chunk yet. */
size_t stream_unread(const struct stream *s);

void stream_end(struct stream *s);

#endif
