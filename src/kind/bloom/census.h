/*
 * Census of a page-blocked Bloom filter: the exact current FPR, and an estimate of the number of
 * distinct keys with its error. Pages can be counted in any order, on any number of threads. The
 * census sums integers, so the result does not depend on the order.
 *
 *     struct bloom_census c = {0};
 *     bloom_census_add(&bloom, data, pages, &c);      // repeat; bloom_census_sum merges threads
 *     bloom_census_result(&bloom, &c, &census);
 */
#ifndef KIND_BLOOM_CENSUS_H
#define KIND_BLOOM_CENSUS_H

#include "kind/bloom/bloom.h"

/* Up to this average number of clear bits per line, the number of keys is estimated from the total
 * of clear bits, since some lines may be full. Above, it is estimated line by line. With an average
 * of 16, a line is full with probability e^-16; where 8 are expected, with e^-8. */
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

/* census[0] and [1] are of two filters, census[2] of the union of their bits, all of one size.
 * False: too many bits are set. */
bool bloom_census_pair(const struct bloom *bloom, const struct bloom_census *census,
                       struct pair_census *out);

#endif
