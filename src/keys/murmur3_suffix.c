#include "keys/murmur3_suffix.h"

#include "keys/hash_each.h"
#include "keys/murmur3_body.h"

enum { LANES = 14 };
_Static_assert((int)LANES <= (int)HASH_LANES, "hash.h");

/* The keys of all lanes differ only in the byte after the rest. */
static void murmur3_suffix(const char *data, size_t len, uint64_t seed, uint64_t *out,
                           size_t stride)
{
    struct murmur3 s;
    uint64_t rest[2];
    const size_t n = murmur3_begin(&s, data, len, seed, rest);
    const unsigned half = n >= 8, shift = n % 8 * 8;
    for (uint64_t i = 0; i < LANES; i++) {
        struct murmur3 one = s;
        uint64_t word[2] = {rest[0], rest[1]};
        word[half] |= i << shift;
        if (n + 1 == MURMUR3_BLOCK) {
            murmur3_take(&one, word[0], word[1]);
            word[0] = word[1] = 0;
        }
        murmur3_end(&one, word[0], word[1], (uint64_t)len + 1);
        out[i * stride] = one.a;
    }
}

HASH_EACH(murmur3_suffix)

const struct hash_fn hash_murmur3_128_suffix = {.id = 3,
                                                .name = "murmur3-128-suffix",
                                                .lanes = LANES,
                                                .keys = hash_keys,
                                                .records = hash_records};
