/*
 * Sizing of page-blocked Bloom filters: their size and FPR, derived from the layout in bloom.h.
 * Every function gives the same result to the last bit on every machine (base/exact.h).
 */
#ifndef KIND_BLOOM_SIZE_H
#define KIND_BLOOM_SIZE_H

#include "kind/bloom/bloom.h"

/* The smallest FPR that can be sized. There two lines a key take 52 bits, a classic filter 43 and a
 * compact one 30, and the gap widens below. */
#define BLOOM_MIN_FPR 1e-9

/* Up to this many pages, the page and the line come from different bits of a hash (bloom.h). */
#define BLOOM_MAX_PAGES ((uint64_t)1 << 42)

/* Expected FPR after n distinct keys. */
double bloom_fpr(const struct bloom *bloom, double n);

/* The smallest filter with FPR at most p for n keys: G = 1 for p >= 1e-3, else G = 2; ties go to
 * the smaller k. Needs n >= 1 and BLOOM_MIN_FPR <= p < 1. False if it needs more than 2^42 pages.
 */
bool bloom_size(uint64_t n, double p, struct bloom *out);

/* The filter of exactly `pages` pages with the smallest FPR for n keys: G = 2 if that brings the
 * FPR below 1e-3, else G = 1. bloom_size(n, that FPR) gives a filter of the same size. */
void bloom_best(uint64_t n, uint64_t pages, struct bloom *out);

/* The largest n that a filter of at most `pages` pages holds at FPR p, and that filter. 0 if it
 * cannot hold one key. */
uint64_t bloom_capacity(uint64_t pages, double p, struct bloom *out);

#endif
