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

extern const struct hash_fn hash_xxh3_64; /* fast for many short keys of mixed lengths */

uint64_t xxh3_bytes(const void *data, size_t len, uint64_t seed);

extern struct variants xxh3_variants;

/* ---- XXH3 compiled for one instruction set. Private to xxh3*.c. */

enum { XXH3_GROUP = 256 };

struct xxh3_variant {
    struct variant variant;
    uint64_t (*one)(const void *data, size_t len, uint64_t seed);
    /* Exactly XXH3_GROUP keys, as in struct hash_fn. */
    void (*group)(const char *const *data, const size_t *len, uint64_t seed, uint64_t *out);
};

extern const struct xxh3_variant xxh3_plain, xxh3_avx2, xxh3_avx512;

#endif
