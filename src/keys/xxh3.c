/* SPDX-License-Identifier: MIT */
#include "keys/xxh3.h"

#include "base/variant.h"

struct variants xxh3_variants = {{
#ifdef CPU_X86
                                     &xxh3_avx512.variant,
                                     &xxh3_avx2.variant,
#endif
                                     &xxh3_plain.variant,
                                 },
                                 NULL};

static const struct xxh3_variant *in_use(void)
{
    return (const void *)variant_in_use(&xxh3_variants);
}

uint64_t xxh3_bytes(const void *data, size_t len, uint64_t seed)
{
    return in_use()->one(data, len, seed);
}

static void xxh3_keys(const char *const *data, const size_t *len, size_t n,
                      const struct hash_seed *seed, uint64_t *out, size_t stride)
{
    const struct xxh3_variant *v = in_use();
    size_t i = 0;
    (void)stride;
    for (; n - i >= XXH3_GROUP; i += XXH3_GROUP)
        v->group(data + i, len != NULL ? len + i : NULL, seed->number, out + i);
    for (; i < n; i++)
        out[i] = v->one(data[i], hash_len(data, len, i), seed->number);
}

const struct hash_fn hash_xxh3_64 = {.id = 1, .name = "xxh3-64", .lanes = 1, .keys = xxh3_keys};
