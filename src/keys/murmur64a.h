/* The hash function of RedisBloom's Bloom filters: MurmurHash64A of Austin Appleby's SMHasher,
 * twice. Lane 0 is the hash with the given seed, lane 1 the one whose seed is lane 0. RedisBloom
 * before 2.0.2 kept seeds in 32 bits: where the given one fits in 32 bits, that of lane 1 is cut to
 * them. */
#ifndef KEYS_MURMUR64A_H
#define KEYS_MURMUR64A_H

#include "keys/hash.h"

extern const struct hash_fn hash_murmur64a_pair;

#endif
