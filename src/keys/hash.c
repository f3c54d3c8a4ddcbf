#include "keys/hash.h"

#include "keys/murmur3.h"
#include "keys/xxh3.h"

static const struct hash_fn *const functions[] = {&hash_xxh3_64, &hash_murmur3_128};

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
