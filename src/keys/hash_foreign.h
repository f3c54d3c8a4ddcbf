/*
 * The hash functions of other programs' filters but the longest, in php.h. To
 * add one: write a function that hashes one key, HASH_EACH and a struct
 * hash_fn in hash_foreign.c, and add it to the list in hash.c.
 */
#ifndef KEYS_HASH_FOREIGN_H
#define KEYS_HASH_FOREIGN_H

#include "keys/hash.h"

/* FNV-1 of 64 bits, of the repository DCSO/bloom. The seed is ignored. */
extern const struct hash_fn hash_fnv1_64;

/* XXH64, of Apache Parquet's split-block Bloom filters. */
extern const struct hash_fn hash_xxh64;

/* RedisBloom's Bloom filters without the option FORCE64: MurmurHash2, twice. Lane 0 is the hash
 * with the given seed; lane 1 is the hash with lane 0 as its seed. Seeds and hashes have 32 bits.
 */
extern const struct hash_fn hash_murmur2_pair;

/* RedisBloom's Bloom filters: MurmurHash64A, twice. Lane 0 is the hash with the given seed; lane 1
 * is the hash with lane 0 as its seed. RedisBloom before 2.0.2 kept seeds in 32 bits: if the given
 * seed fits in 32 bits, the seed of lane 1 is truncated to 32 bits. */
extern const struct hash_fn hash_murmur64a_pair;

/* MurmurHash3 x64 128, of Guava's BloomFilter. Lane 0 is the first eight bytes of its output as a
 * little-endian number, lane 1 the last eight. Both halves of the state begin with the 64-bit seed;
 * the reference allows only seeds below 2^32. */
extern const struct hash_fn hash_murmur3_128;

/* go-zero's Bloom filters (core/bloom of the repository zeromicro/go-zero): lane i is lane 0 of
 * murmur3-128 of the key followed by the byte i. */
extern const struct hash_fn hash_murmur3_128_suffix;

/* The hash function of Redisson's Bloom filters (RBloomFilter of the repository redisson/redisson):
 * HighwayHash of 128 bits (Alakuijala, Cox and Wassenberg: Fast keyed hash/pseudo-random function
 * using SIMD multiply and permute, 2016) with a fixed key. The seed is ignored. */
extern const struct hash_fn hash_highway_128;

#endif
