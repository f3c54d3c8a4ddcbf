#include "keys/fnv1.h"

#include "keys/hash_each.h"

static void fnv1(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    (void)seed;
    (void)stride;
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        h = h * 0x00000100000001b3 ^ (unsigned char)data[i];
    out[0] = h;
}

HASH_EACH(fnv1)

const struct hash_fn hash_fnv1_64 = {
    .id = 8, .name = "fnv1-64", .lanes = 1, .keys = hash_keys, .records = hash_records};
