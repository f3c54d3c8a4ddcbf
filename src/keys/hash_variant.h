/*
 * XXH3 compiled for one instruction set. Private to hash*.c.
 */
#ifndef KEYS_HASH_VARIANT_H
#define KEYS_HASH_VARIANT_H

#include "keys/hash.h"

enum { HASH_GROUP = 256 };

struct hash_variant {
    struct variant variant;
    uint64_t (*one)(const void *data, size_t len, uint64_t seed);
    /* Exactly HASH_GROUP keys. */
    void (*group)(const char *const *data, const size_t *len, uint64_t seed, uint64_t *out);
    void (*group_of_records)(const char *const *record, uint64_t seed, uint64_t *out);
};

extern const struct hash_variant hash_plain, hash_avx2, hash_avx512;

#endif
