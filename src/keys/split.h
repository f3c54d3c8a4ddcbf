/* SPDX-License-Identifier: MIT
 * Finds where records begin: after each terminator in a buffer, a vector at a time.
 */
#ifndef KEYS_SPLIT_H
#define KEYS_SPLIT_H

#include <stddef.h>

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

extern struct variants split_variants;

#endif
