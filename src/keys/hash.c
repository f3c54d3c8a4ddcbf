#include "keys/hash.h"

#include "keys/hash_foreign.h"
#include "keys/highway.h"
#include "keys/php.h"
#include "keys/siphash.h"
#include "keys/xxh3.h"

static const struct hash_fn *const functions[] = {
    &hash_xxh3_64,     &hash_murmur3_128,    &hash_murmur3_128_suffix,
    &hash_highway_128, &hash_murmur64a_pair, &hash_murmur2_pair,
    &hash_xxh64,       &hash_fnv1_64,        &hash_php_32,
    &hash_siphash_2_4,
};

const struct hash_fn *hash_by_id(uint32_t id)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i]->id == id)
            return functions[i];
    return NULL;
}

const struct hash_fn *hash_usual(void)
{
    return &hash_xxh3_64;
}

const struct hash_fn *hash_keyed(void)
{
    return &hash_siphash_2_4;
}
