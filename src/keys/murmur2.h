/* The hash function of RedisBloom's Bloom filters without the option FORCE64: MurmurHash2 of Austin
 * Appleby's SMHasher, twice. Lane 0 is the hash with the given seed; lane 1 is the hash with lane 0
 * as its seed. Seeds and hashes have 32 bits. */
#ifndef KEYS_MURMUR2_H
#define KEYS_MURMUR2_H

#include "keys/hash.h"

extern const struct hash_fn hash_murmur2_pair;

#endif
