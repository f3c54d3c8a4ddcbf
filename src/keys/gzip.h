/*
 * Inflates a stream, member after member.
 *
 *     struct gzip g;
 *     if (!gzip_begin(&g, &src, &why)) ...         // out of memory
 *     if (g.found)
 *         n = gzip_read(&g, &src, to, capacity, wait, &end, &why);
 *     else
 *         ... g.z.next_in[0..g.z.avail_in) has been read, then g.raw_end ...
 *     gzip_end(&g);                                // in any case
 *
 * Input is gzip if it begins with 1f 8b 08 and no reserved flag. Between members, and behind the
 * last one up to the end, zeroes are skipped, as tapes and gzip(1) have it.
 */
#ifndef KEYS_GZIP_H
#define KEYS_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

#include "base/err.h"
#include "keys/source.h"

struct gzip {
    bool found;              /* the stream is gzip */
    enum source_end raw_end; /* what comes behind the compressed bytes at hand ... */
    z_stream z;              /* ... z.next_in[0..avail_in) */
    /* The rest is private. */
    bool between; /* members */
    bool padding; /* behind the last one */
    unsigned char *raw;
};

/* This many first bytes are enough, if no more come. */
enum { GZIP_MAGIC = 3 };

/* Could these first n bytes be those of a gzip member? */
bool gzip_like(const unsigned char *p, size_t n);

/* Waits for the first bytes and finds out what they are. False: out of memory. */
bool gzip_begin(struct gzip *g, const struct source *src, struct err *why);

/* As source_read, for the inflated bytes. Damaged or truncated data, and other data behind it, are
 * errors: SOURCE_BROKEN. */
size_t gzip_read(struct gzip *g, const struct source *src, void *to, size_t capacity, bool wait,
                 enum source_end *end, struct err *why);

void gzip_end(struct gzip *g);

#endif
