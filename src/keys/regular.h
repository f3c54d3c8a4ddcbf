/*
 * A regular file, read by all threads at once: chunk i holds the records that begin in its range.
 * Large files are mapped if possible, else they are read.
 *
 *     struct regular r;
 *     regular_begin(&r, &src, &st, &how)
 *     regular_header(&r, &src, records, &chunk, &err)            // optional
 *     for (uint64_t i = 0; i < r.n_chunks; i++)                  // any thread, any order
 *         regular_chunk(&r, &src, i, &chunk, &read_to, &err)
 *     regular_end(&r);
 */
#ifndef KEYS_REGULAR_H
#define KEYS_REGULAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "keys/chunk.h"
#include "keys/source.h"

struct regular {
    off_t start;             /* chunk 0 begins here */
    off_t size;              /* when it was opened */
    struct timespec changed; /* time of the last change before it was opened */
    size_t range;            /* bytes in which the records of a chunk begin */
    uint64_t n_chunks;
};

struct regular_how {
    bool gzip;         /* leave a file that looks compressed to stream.h */
    bool large_chunks; /* use large chunks for files that are large enough */
};

/* May the file be compressed, from `start` on, so that stream.h must read it? Also true if the file
 * cannot be read: stream.h then tells the reason. */
bool regular_may_be_compressed(int fd, off_t start);

/* False: not a file for this module. This includes files of size 0, as in /proc: their length is
 * only known after reading. */
bool regular_begin(struct regular *r, const struct source *src, const struct stat *st,
                   const struct regular_how *how);

/* Reads the first `records` records of the file, or all if there are fewer. Chunk 0 begins after
 * them. */
bool regular_header(struct regular *r, const struct source *src, uint64_t records,
                    struct chunk *chunk, struct err *err);

/* Reads chunk i, up to byte *read_to of the file. */
bool regular_chunk(const struct regular *r, const struct source *src, uint64_t i,
                   struct chunk *chunk, off_t *read_to, struct err *err);

#endif
