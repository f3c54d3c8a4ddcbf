#include "keys/murmur3.h"

#include "keys/hash_each.h"
#include "keys/murmur3_body.h"

static void murmur3(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    struct murmur3 s;
    uint64_t rest[2];
    murmur3_begin(&s, data, len, seed, rest);
    murmur3_end(&s, rest[0], rest[1], len);
    out[0] = s.a;
    out[stride] = s.b;
}

HASH_EACH(murmur3)

const struct hash_fn hash_murmur3_128 = {
    .id = 2, .name = "murmur3-128", .lanes = 2, .keys = hash_keys, .records = hash_records};
