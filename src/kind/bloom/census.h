/*
 * What the bits of a page-blocked Bloom filter say: the exact current FPR, and an estimate of the
 * number of distinct keys with its error. A census counts pages in any order, on any number of
 * threads. It sums integers, so the result does not depend on the order.
 *
 *     struct bloom_census c = {0};
 *     bloom_census_add(&bloom, data, pages, &c);      // as often as needed; merge with _sum
 *     bloom_census_result(&bloom, &c, &census);
 */
#ifndef KIND_BLOOM_CENSUS_H
#define KIND_BLOOM_CENSUS_H

#include "kind/bloom/bloom.h"

/* Up to so many clear bits a line on average, the number of keys is estimated from all lines
 * together: with fewer, some lines are full. With 16, a line is full with a chance of e^-16, or
 * e^-8 if it has half as many clear bits as the average. */
enum { BLOOM_CLEAR_BITS = 16 };

struct bloom_census {
    uint64_t lines_with[513];               /* lines by their number of set bits */
    uint64_t pair_hits_high, pair_hits_low; /* G = 2: sum over pages, 128-bit fixed point */
};

void bloom_census_add(const struct bloom *bloom, const uint8_t *data, uint64_t pages,
                      struct bloom_census *c);
void bloom_census_sum(struct bloom_census *to, const struct bloom_census *from);
void bloom_census_result(const struct bloom *bloom, const struct bloom_census *c,
                         struct census *out);

/* The chance that an absent key is reported by any of n layers of one geometry, at most 32, as a
 * part of the sum of their chances: estimated to two fifths of a percent from a sample of lines. It
 * is less than independent layers would have when they share keys. */
double bloom_union_part(const struct bloom *bloom, const uint8_t *const *data, unsigned n);

/* For tests: with fewer samples it takes less time, and the error is larger. */
extern unsigned bloom_union_samples;

/* Of two filters and of the union of their bits, all of one size: census[0], [1] and [2]. False:
 * too many bits are set. */
bool bloom_census_pair(const struct bloom *bloom, const struct bloom_census *census,
                       struct pair_census *out);

#endif
