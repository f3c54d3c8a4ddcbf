/* SPDX-License-Identifier: MIT
 * XXH3 (xxHash 0.8, XXH3_64bits_withSeed), compiled for several instruction sets. It is the default
 * hash function of keys, and the checksum of headers and pages.
 */
#ifndef KEYS_XXH3_H
#define KEYS_XXH3_H

#include <stddef.h>
#include <stdint.h>

#include "base/variant.h"
#include "keys/hash.h"

extern const struct hash_fn hash_xxh3_64;

uint64_t xxh3_bytes(const void *data, size_t len, uint64_t seed);

/* out[i] = xxh3_bytes(data[i], len[i]), for i < n. Fast for many short keys of mixed lengths. */
void xxh3_keys(const char *const *data, const size_t *len, size_t n, uint64_t seed, uint64_t *out);

/* The same for n adjacent records. Each ends with a terminator of one byte, which is not hashed:
 * key i is [record[i], record[i + 1] - 1). */
void xxh3_records(const char *const *record, size_t n, uint64_t seed, uint64_t *out);

extern struct variants xxh3_variants;

/* ---- XXH3 compiled for one instruction set. Private to xxh3*.c. */

enum { XXH3_GROUP = 256 };

struct xxh3_variant {
    struct variant variant;
    uint64_t (*one)(const void *data, size_t len, uint64_t seed);
    /* Exactly XXH3_GROUP keys. */
    void (*group)(const char *const *data, const size_t *len, uint64_t seed, uint64_t *out);
    void (*group_of_records)(const char *const *record, uint64_t seed, uint64_t *out);
};

extern const struct xxh3_variant xxh3_plain, xxh3_avx2, xxh3_avx512;

#endif
