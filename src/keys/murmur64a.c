#include "keys/murmur64a.h"

#include <string.h>

#include "base/bytes.h"
#include "keys/hash_each.h"

static const uint64_t M = 0xc6a4a7935bd1e995;

static uint64_t murmur64a(const char *data, size_t len, uint64_t seed)
{
    uint64_t h = seed ^ len * M;
    size_t left = len;
    for (; left >= 8; left -= 8, data += 8) {
        uint64_t x = get_le64(data) * M;
        h = (h ^ (x ^ x >> 47) * M) * M;
    }
    if (left > 0) {
        char rest[8] = {0};
        memcpy(rest, data, left);
        h = (h ^ get_le64(rest)) * M;
    }
    h = (h ^ h >> 47) * M;
    return h ^ h >> 47;
}

static void pair(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    out[0] = murmur64a(data, len, seed);
    out[stride] = murmur64a(data, len, seed > UINT32_MAX ? out[0] : out[0] & UINT32_MAX);
}

HASH_EACH(pair)

const struct hash_fn hash_murmur64a_pair = {
    .id = 5, .name = "murmur64a-pair", .lanes = 2, .keys = hash_keys, .records = hash_records};
