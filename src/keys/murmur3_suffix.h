/* The hash function of go-zero's Bloom filters (core/bloom of the repository zeromicro/go-zero):
 * lane i is lane 0 of murmur3-128 (murmur3.h) of the key followed by the byte i. */
#ifndef KEYS_MURMUR3_SUFFIX_H
#define KEYS_MURMUR3_SUFFIX_H

#include "keys/hash.h"

extern const struct hash_fn hash_murmur3_128_suffix;

#endif
