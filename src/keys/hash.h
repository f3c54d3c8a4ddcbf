/*
 * Hashing. A key is hashed once, to 64 bits by XXH3 (xxHash 0.8, XXH3_64bits_withSeed), and
 * everything else about it is derived from those 64 bits.
 */
#ifndef KEYS_HASH_H
#define KEYS_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/variant.h"

enum { HASH_XXH3_64 = 1 }; /* hash ids as stored in a file */

/* The hash of one key. */
uint64_t hash_key(const void *key, size_t len, uint64_t seed);

/* out[i] = hash_key(data[i], len[i]), for i < n. Fast for many short keys of mixed lengths. */
void hash_keys(const char *const *data, const size_t *len, size_t n, uint64_t seed,
               uint64_t *out);

/* The same for n records that lie one behind the other, each with a terminator of one byte, which
 * is not hashed: key i is [record[i], record[i + 1] - 1). */
void hash_records(const char *const *record, size_t n, uint64_t seed, uint64_t *out);

/* XXH3 of any bytes: checksums of headers and pages. */
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);

extern struct variants hash_variants;

#endif
