/*
 * Tests whether the lines of a Bloom layer are filled as random keys fill them. They are not if
 * keys were chosen, or bits were set by other means. The test compares the numbers of lines with 0,
 * 1, ... 512 set bits with the expected numbers.
 *
 * The model: of n keys, a line gets J, a Poisson number of mean n G / lines, and k J / G probes.
 * Each probe sets one of the 512 bits, which may be set already. There are no other assumptions.
 * With G = 2, a key sets bits in two lines of a page, so lines depend on each other by 1/63.
 */
#ifndef KIND_BLOOM_OCCUPANCY_H
#define KIND_BLOOM_OCCUPANCY_H

#include "kind/bloom/census.h"

/* From a census of all pages. */
void bloom_occupancy(const struct bloom *bloom, const struct bloom_census *c,
                     struct occupancy *out);

#endif
