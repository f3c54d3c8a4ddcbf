#include "hash.h"

#include <stdatomic.h>
#include <string.h>

#include "hash_variant.h"

static const struct hash_variant *const variants[] = {
#ifdef __x86_64__
    &hash_avx512,
    &hash_avx2,
#endif
    &hash_plain,
};

enum { N_VARIANTS = sizeof variants / sizeof *variants };

static const struct hash_variant *_Atomic chosen;

static const struct hash_variant *choice(void)
{
    const struct hash_variant *v = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (v)
        return v;
    for (size_t i = 0; v == NULL && i < N_VARIANTS; i++)
        if (variants[i]->available())
            v = variants[i];
    atomic_store_explicit(&chosen, v, memory_order_relaxed);
    return v;
}

void hash_keys(const char *const *data, const size_t *len, size_t n, uint64_t seed,
               uint64_t *out)
{
    const struct hash_variant *v = choice();
    size_t i = 0;
    for (; n - i >= HASH_GROUP; i += HASH_GROUP)
        v->group(data + i, len + i, seed, out + i);
    for (; i < n; i++)
        out[i] = v->one(data[i], len[i], seed);
}

void hash_records(const char *const *record, size_t n, uint64_t seed, uint64_t *out)
{
    const struct hash_variant *v = choice();
    size_t i = 0;
    for (; n - i >= HASH_GROUP; i += HASH_GROUP)
        v->group_of_records(record + i, seed, out + i);
    for (; i < n; i++)
        out[i] = v->one(record[i], (size_t)(record[i + 1] - record[i]) - 1, seed);
}

uint64_t hash_key(const void *key, size_t len, uint64_t seed)
{
    return choice()->one(key, len, seed);
}

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return choice()->one(data, len, seed);
}

const char *hash_variant(void)
{
    return choice()->name;
}

const char *const *hash_variants(void)
{
    static const char *names[N_VARIANTS + 1];
    size_t n = 0;
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (variants[i]->available())
            names[n++] = variants[i]->name;
    names[n] = NULL;
    return names;
}

bool hash_use(const char *variant)
{
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (variants[i]->available() && strcmp(variants[i]->name, variant) == 0) {
            atomic_store_explicit(&chosen, variants[i], memory_order_relaxed);
            return true;
        }
    return false;
}
