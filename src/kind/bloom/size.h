/*
 * Computes size, FPR and capacity of page-blocked Bloom filters from the layout in bloom.h. Every
 * function gives the same result to the last bit on every machine (base/exact.h).
 */
#ifndef KIND_BLOOM_SIZE_H
#define KIND_BLOOM_SIZE_H

#include "kind/bloom/bloom.h"

/* The smallest supported FPR. There a key takes 52 bits with two lines, 43 bits in a classic filter
 * and 30 bits in a compact one. The gap widens for smaller FPRs. */
#define BLOOM_MIN_FPR 1e-9

/* Up to this many pages, the page and the line come from different bits of a hash (bloom.h). */
#define BLOOM_MAX_PAGES ((uint64_t)1 << 42)

/* Expected FPR after n distinct keys. */
double bloom_fpr(const struct bloom *bloom, double n);

/* The smallest filter with FPR at most p for n keys: G = 1 for p >= 1e-3, else G = 2; ties go to
 * the smaller k. Needs n >= 1 and BLOOM_MIN_FPR <= p < 1. False if it needs more than 2^42 pages.
 */
bool bloom_size(uint64_t n, double p, struct bloom *out);

/* The filter of exactly `pages` pages with the smallest FPR for n keys: G = 2 if that gives an FPR
 * below 1e-3, else G = 1. bloom_size(n, that FPR) gives a filter of the same size. */
void bloom_best(uint64_t n, uint64_t pages, struct bloom *out);

/* Returns the largest n that a filter of `pages` pages holds at FPR p, and sets *out to that
 * filter. Returns 0 if it cannot hold one key; *out is then unchanged. */
uint64_t bloom_capacity(uint64_t pages, double p, struct bloom *out);

#endif
