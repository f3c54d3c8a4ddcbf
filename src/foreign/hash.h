/* SPDX-License-Identifier: MIT
 * The hash functions of other programs' filters. To add one: write a function that hashes one key,
 * FOREIGN_HASH in hash.c, and add it to foreign/list.c.
 */
#ifndef FOREIGN_HASH_H
#define FOREIGN_HASH_H

#include "keys/hash.h"

/* FNV-1 of 64 bits, of the repository DCSO/bloom. The seed is ignored. */
extern const struct hash_fn hash_fnv1_64;

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

/* bits-and-blooms/bloom: lanes 0 and 1 are murmur3-128 of the key, lanes 2 and 3 that of the key
 * followed by the byte 1. */
extern const struct hash_fn hash_murmur3_128_twice;

/* Apache Spark's BloomFilter: MurmurHash3 of 32 bits, whose last one to three bytes are each mixed
 * in like a word, twice. Lane 0 is the hash with the given seed, lane 1 that with lane 0 as its
 * seed.
 */
extern const struct hash_fn hash_murmur3_spark;

/* The hash function of Redisson's Bloom filters (RBloomFilter of the repository redisson/redisson):
 * HighwayHash of 128 bits (Alakuijala, Cox and Wassenberg: Fast keyed hash/pseudo-random function
 * using SIMD multiply and permute, 2016) with a fixed key. The seed is ignored. */
extern const struct hash_fn hash_highway_128;

/* ---- The hash functions of a PHP class for Bloom filters in Redis. A filter of this class uses
 * several of them: lane i is the value of function i in the list of the seed; lanes after the last
 * are 0.
 *
 * The functions, of 32 bits, come from Arash Partow's General Purpose Hash Function Algorithms
 * Library. In PHP they give other values: a sum or product that does not fit a signed integer of 64
 * bits is rounded to a double.
 *
 * The seed is a list of functions: four bits for each, the lowest first, then zeros. */

/* As stored in a seed; 0 is none. */
enum php_function {
    PHP_BKDR = 1,
    PHP_SDBM,
    PHP_JS,
    PHP_DJB,
    PHP_DEK,
    PHP_FNV,
    PHP_ELF,
    PHP_PJW,
    PHP_LAST = PHP_PJW
};

enum { PHP_MOST = 8 }; /* functions of a filter, at most */

extern const struct hash_fn hash_php_32;

/* The name of a function in the class: "BKDRHash". NULL: there is no such function. */
const char *php_name(unsigned function);

/* 0: no function has that name. */
unsigned php_by_name(const char *name);

/* The number of functions in a seed; 0: the seed is not a list of functions. */
unsigned php_functions(uint64_t seed);

#endif
