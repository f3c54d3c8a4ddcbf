/*
 * XXH3 compiled for one instruction set. Private to xxh3*.c.
 */
#ifndef KEYS_XXH3_VARIANT_H
#define KEYS_XXH3_VARIANT_H

#include "keys/xxh3.h"

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
