#include "keys/murmur3.h"

#include <string.h>

#include "base/bytes.h"

enum { BLOCK = 16 };

static const uint64_t C1 = 0x87c37b91114253d5, C2 = 0x4cf5ad432745937f;

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* The first half of a block goes into one half of the state, the second into the other. */
static uint64_t mix_first(uint64_t x)
{
    return rotate(x * C1, 31) * C2;
}

static uint64_t mix_second(uint64_t x)
{
    return rotate(x * C2, 33) * C1;
}

static uint64_t avalanche(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

static void murmur3(const char *data, size_t len, uint64_t seed, uint64_t *out,
                    size_t stride)
{
    uint64_t a = seed, b = seed;
    size_t left = len;
    for (; left >= BLOCK; left -= BLOCK, data += BLOCK) {
        a ^= mix_first(get_le64(data));
        a = (rotate(a, 27) + b) * 5 + 0x52dce729;
        b ^= mix_second(get_le64(data + 8));
        b = (rotate(b, 31) + a) * 5 + 0x38495ab5;
    }
    /* Zero padding after the last bytes changes nothing. */
    char rest[BLOCK] = {0};
    if (left > 0)
        memcpy(rest, data, left);
    a ^= mix_first(get_le64(rest)) ^ len;
    b ^= mix_second(get_le64(rest + 8)) ^ len;
    a += b;
    b += a;
    a = avalanche(a);
    b = avalanche(b);
    out[0] = a + b;
    out[stride] = b + out[0];
}

static void hash_keys(const char *const *data, const size_t *len, size_t n, uint64_t seed,
                      uint64_t *out, size_t stride)
{
    for (size_t i = 0; i < n; i++)
        murmur3(data[i], len[i], seed, out + i, stride);
}

static void hash_records(const char *const *record, size_t n, uint64_t seed, uint64_t *out,
                         size_t stride)
{
    for (size_t i = 0; i < n; i++)
        murmur3(record[i], (size_t)(record[i + 1] - record[i]) - 1, seed, out + i, stride);
}

const struct hash_fn hash_murmur3_128 = {
    .id = 2, .name = "murmur3-128", .lanes = 2, .keys = hash_keys, .records = hash_records};
