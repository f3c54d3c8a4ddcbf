/* The hash function of Redisson's Bloom filters (RBloomFilter of the repository redisson/redisson):
 * HighwayHash of 128 bits (Alakuijala, Cox and Wassenberg: Fast keyed hash/pseudo-random function
 * using SIMD multiply and permute, 2016) with a fixed key. The seed is ignored. */
#ifndef KEYS_HIGHWAY_H
#define KEYS_HIGHWAY_H

#include "keys/hash.h"

extern const struct hash_fn hash_highway_128;

#endif
