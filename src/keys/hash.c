#include "keys/hash.h"

#include "base/cpu.h"
#include "keys/hash_variant.h"

struct variants hash_variants = {{
#ifdef CPU_X86
    &hash_avx512.variant,
    &hash_avx2.variant,
#endif
    &hash_plain.variant,
}, NULL};

static const struct hash_variant *in_use(void)
{
    return (const void *)variant_in_use(&hash_variants);
}

void hash_keys(const char *const *data, const size_t *len, size_t n, uint64_t seed,
               uint64_t *out)
{
    const struct hash_variant *v = in_use();
    size_t i = 0;
    for (; n - i >= HASH_GROUP; i += HASH_GROUP)
        v->group(data + i, len + i, seed, out + i);
    for (; i < n; i++)
        out[i] = v->one(data[i], len[i], seed);
}

void hash_records(const char *const *record, size_t n, uint64_t seed, uint64_t *out)
{
    const struct hash_variant *v = in_use();
    size_t i = 0;
    for (; n - i >= HASH_GROUP; i += HASH_GROUP)
        v->group_of_records(record + i, seed, out + i);
    for (; i < n; i++)
        out[i] = v->one(record[i], (size_t)(record[i + 1] - record[i]) - 1, seed);
}

uint64_t hash_key(const void *key, size_t len, uint64_t seed)
{
    return in_use()->one(key, len, seed);
}

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return in_use()->one(data, len, seed);
}
