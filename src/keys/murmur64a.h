/* The hash function of RedisBloom's Bloom filters: MurmurHash64A of Austin Appleby's SMHasher,
 * twice. Lane 0 is the hash with the given seed; lane 1 is the hash with lane 0 as its seed.
 * RedisBloom before 2.0.2 kept seeds in 32 bits: if the given seed fits in 32 bits, the seed of
 * lane 1 is truncated to 32 bits. */
#ifndef KEYS_MURMUR64A_H
#define KEYS_MURMUR64A_H

#include "keys/hash.h"

extern const struct hash_fn hash_murmur64a_pair;

#endif
