#include "keys/murmur2.h"

#include <string.h>

#include "base/bytes.h"
#include "keys/hash_each.h"

static const uint32_t M = 0x5bd1e995;

static uint32_t murmur2(const char *data, size_t len, uint32_t seed)
{
    uint32_t h = seed ^ (uint32_t)len;
    for (; len >= 4; len -= 4, data += 4) {
        uint32_t x = get_le32(data) * M;
        h = h * M ^ (x ^ x >> 24) * M;
    }
    if (len > 0) {
        char rest[4] = {0};
        memcpy(rest, data, len);
        h = (h ^ get_le32(rest)) * M;
    }
    h = (h ^ h >> 13) * M;
    return h ^ h >> 15;
}

static void pair(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    uint32_t first = murmur2(data, len, (uint32_t)seed);
    out[0] = first;
    out[stride] = murmur2(data, len, first);
}

HASH_EACH(pair)

const struct hash_fn hash_murmur2_pair = {
    .id = 6, .name = "murmur2-pair", .lanes = 2, .keys = hash_keys, .records = hash_records};
