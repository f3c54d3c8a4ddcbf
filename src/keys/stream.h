/*
 * A pipe, a terminal, a device, or gzip data: read in turn, by one thread at a time.
 *
 *     struct stream s;
 *     if (!stream_begin(&s, &src, &st, gzip, &err)) ...
 *     stream_header(&s, &src, records, &chunk, &err)   // or not
 *     while (stream_chunk(&s, &src, &chunk, &err) && chunk.len > 0)
 *         ... records ...
 *     if (s.end == SOURCE_BROKEN) ... s.why ...
 *     stream_end(&s);                                  // in any case
 *
 * A chunk ends where that of a regular file with the same bytes would end, unless the source is
 * `prompt`: then it ends when nothing more is ready.
 */
#ifndef KEYS_STREAM_H
#define KEYS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "keys/chunk.h"
#include "keys/gzip.h"
#include "keys/source.h"

struct stream {
    enum source_end end; /* what comes behind the bytes in `ahead` */
    struct err why;      /* with SOURCE_BROKEN */
    /* The rest is private. */
    struct gzip gzip;
    bool refuse_compressed; /* by others than gzip */
    uint64_t pos; /* bytes in chunks, without the header; a record begins there */
    /* Bytes not yet in a chunk come from ahead[ahead_at..ahead_len) first. */
    char *ahead;
    size_t ahead_at, ahead_len, ahead_capacity;
    /* Nothing that was read is in ahead before and behind these bytes. */
    size_t dirty_from, dirty_to;
};

/* With `gzip`, finds out whether the stream is compressed with it; data of other compressors breaks
 * the stream at its first chunk. False: no memory; a failure to read is left in `end`. */
bool stream_begin(struct stream *s, const struct source *src, const struct stat *st, bool gzip,
                  struct err *err);

/* Reads the first records, so many or all that there are. False: no memory. */
bool stream_header(struct stream *s, const struct source *src, uint64_t records,
                   struct chunk *chunk, struct err *err);

/* Fills the chunk; with nothing when the stream is at its end. False: no memory. */
bool stream_chunk(struct stream *s, const struct source *src, struct chunk *chunk,
                  struct err *err);

void stream_end(struct stream *s);

#endif
