/*
 * Where records begin: the places behind each terminator in a buffer, found a vector at a time.
 */
#ifndef KEYS_SPLIT_H
#define KEYS_SPLIT_H

#include <stddef.h>

#include "base/variant.h"

/* split() may write this many entries beyond `max`, and mean some of them: a block of 64 bytes can
 * hold 64 terminators, and entries are stored four or eight at a time. */
enum { SPLIT_SLACK = 68 };

/* Stores pointers to the bytes that follow those equal to `terminator` in p[0..len), ascending,
 * into next. Stops when it has `max` (> 0) of them, or a few more: fewer than max + SPLIT_SLACK.
 * Returns how many and sets *scanned to the number of bytes it has looked at: every terminator in
 * p[0..*scanned) has its entry, and none from there on; so the next call may begin at p + *scanned.
 * Without `max` of them, that is len. */
size_t split(const char *p, size_t len, char terminator, const char **next, size_t max,
             size_t *scanned);

extern struct variants split_variants;

#endif
