/*
 * Are the lines of a Bloom layer filled as random keys fill them? Where keys were chosen, or bits
 * set by other means, they are not. What is compared is the number of lines with 0, 1, ... 512 set
 * bits.
 *
 * Of n keys, a line gets J, a Poisson number of mean n G / lines, and k J / G probes. Each probe
 * sets one of the 512 bits, whether it was set or not. These are the model's only assumptions, and
 * G = 2 fills two lines of a page at once, which makes lines depend on each other by 1/63.
 */
#ifndef KIND_BLOOM_OCCUPANCY_H
#define KIND_BLOOM_OCCUPANCY_H

#include "kind/bloom/census.h"

/* From a census of all pages. */
void bloom_occupancy(const struct bloom *bloom, const struct bloom_census *c,
                     struct occupancy *out);

#endif
