/* SPDX-License-Identifier: MIT
 * Finds where records begin, a vector at a time: after each terminator in a buffer; or, in CSV
 * (RFC 4180), after each newline that is not between quotes.
 */
#ifndef KEYS_SPLIT_H
#define KEYS_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/variant.h"

/* split() may write this many entries beyond `max`, and some of them count: a block of 64 bytes can
 * hold 64 terminators, and entries are stored four or eight at a time. */
enum { SPLIT_SLACK = 68 };

/* Finds the bytes of p[0..len) that equal `terminator` and stores pointers to the bytes after them
 * in next, ascending. Stops at `max` (> 0) entries or a few more: fewer than max + SPLIT_SLACK.
 * Returns the number of entries and sets *scanned to the number of bytes searched: all terminators
 * in p[0..*scanned) have their entries, later ones do not. The next call may begin at p + *scanned.
 * With fewer than `max` entries, *scanned is len. */
size_t split(const char *p, size_t len, char terminator, const char **next, size_t max,
             size_t *scanned);

/* ---- CSV. A quote opens a field only as its first byte. It closes it only before a delimiter, a
 * newline, CR newline, or the end of the file. Two quotes between quotes are one. Any other quote
 * is an error, and so is a CR outside of quotes that no newline follows. By this rule, a byte is
 * between quotes exactly if an odd number of quotes stands before it. */

/* What is known at a byte of CSV. Zero-initialise it and set may_open where a record begins. */
struct csv_scan {
    bool inside;       /* the byte is between quotes */
    bool may_open;     /* the byte before it lets a quote stand here */
    bool closed;       /* the byte before it is a quote that closes a field, or the first of two */
    bool cr;           /* the byte before it is a CR outside of quotes */
    bool broken;       /* the byte at `bad` breaks the rule; what follows was not searched */
    size_t bad;        /* offset in the bytes of the last call */
    uint64_t newlines; /* that were between quotes: a record has one line more than these */
};

/* Sets *last to the offset behind the last record that ends in p[0..len), and *first behind the
 * first one whose newline is at `from` or later; leaves them as they are if there is none. *inside:
 * is p[0] between quotes? It becomes that of p[len]. */
void split_csv_ends(const char *p, size_t len, bool *inside, size_t from, size_t *first,
                    size_t *last);

/* Stores the offset of each delimiter and newline of p[0..len) that is not between quotes, in
 * ascending order, and returns their number; in `end`, those of the newlines alone, and then
 * UINT32_MAX. Each has room for len + SPLIT_SLACK entries; len is below 2^32 - 1. Ends at a byte
 * that breaks the rule. */
size_t split_csv(struct csv_scan *scan, const char *p, size_t len, char delimiter, uint32_t *place,
                 uint32_t *end);

extern struct variants split_variants;

#endif
