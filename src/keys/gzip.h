/* SPDX-License-Identifier: MIT
 * Inflates a gzip stream, member after member.
 *
 *     struct gzip g;
 *     if (!gzip_begin(&g, &src, &why)) ...         // out of memory
 *     if (g.found)
 *         n = gzip_read(&g, &src, to, capacity, wait, &end, &why);
 *     else
 *         ... g.z.next_in[0..g.z.avail_in) has been read; g.raw_end says what follows ...
 *     gzip_end(&g);                                // in any case
 *
 * Input is gzip if it begins with 1f 8b 08 and no reserved flag. Zeroes from the last member up to
 * the end are skipped, as gzip(1) does; tapes are padded with them.
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
    enum source_end raw_end; /* what follows the bytes that were read but not inflated ... */
    z_stream z;              /* ... z.next_in[0..avail_in) */
    /* The rest is private. */
    bool between; /* a member has ended */
    bool padding; /* the zeroes after the last member have begun */
    unsigned char *raw;
};

/* If the input ends after this many bytes, they are enough to recognise gzip. */
enum { GZIP_MAGIC = 3 };

/* Could these first n bytes be those of a gzip member? */
bool gzip_like(const unsigned char *p, size_t n);

/* Waits for the first bytes and sets g->found. False: out of memory. */
bool gzip_begin(struct gzip *g, const struct source *src, struct err *why);

/* As source_read, for the inflated bytes. Damaged or truncated data, and other data after the last
 * member, are errors: SOURCE_BROKEN. */
size_t gzip_read(struct gzip *g, const struct source *src, void *to, size_t capacity, bool wait,
                 enum source_end *end, struct err *why);

void gzip_end(struct gzip *g);

#endif
