/* MurmurHash3 x64 128 of Austin Appleby's SMHasher. For murmur3.c and murmur3_suffix.c. */
#ifndef KEYS_MURMUR3_BODY_H
#define KEYS_MURMUR3_BODY_H

#include <string.h>

#include "base/bytes.h"

enum { MURMUR3_BLOCK = 16 };

struct murmur3 {
    uint64_t a, b;
};

static inline uint64_t murmur3_rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* The first half of a block goes into one half of the state, the second into the other. */
static inline uint64_t murmur3_mix_first(uint64_t x)
{
    return murmur3_rotate(x * 0x87c37b91114253d5, 31) * 0x4cf5ad432745937f;
}

static inline uint64_t murmur3_mix_second(uint64_t x)
{
    return murmur3_rotate(x * 0x4cf5ad432745937f, 33) * 0x87c37b91114253d5;
}

static inline uint64_t murmur3_avalanche(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

/* Takes a whole block, by its halves. */
static inline void murmur3_take(struct murmur3 *s, uint64_t first, uint64_t second)
{
    s->a ^= murmur3_mix_first(first);
    s->a = (murmur3_rotate(s->a, 27) + s->b) * 5 + 0x52dce729;
    s->b ^= murmur3_mix_second(second);
    s->b = (murmur3_rotate(s->b, 31) + s->a) * 5 + 0x38495ab5;
}

/* Sets `rest` to the last `left` bytes of a key, fewer than a block, as two halves of a block
 * padded with zeros. They begin at `data`. In a key of a block or more, they are shifted out of its
 * last 16 bytes, which takes less time than a copy of variable length. */
static inline void murmur3_rest(const char *data, size_t len, size_t left, uint64_t *rest)
{
    if (len < MURMUR3_BLOCK) {
        char block[MURMUR3_BLOCK] = {0};
        if (left > 0)
            memcpy(block, data, left);
        rest[0] = get_le64(block);
        rest[1] = get_le64(block + 8);
        return;
    }
    uint64_t low = get_le64(data + left - 16), high = get_le64(data + left - 8);
    unsigned bits = 8 * (unsigned)(left % 8);
    /* In two steps, since a shift by 64 is undefined. */
    uint64_t before = low >> (63 - bits) >> 1, end = high >> (63 - bits) >> 1;
    rest[0] = left < 8 ? end : high << bits | before;
    rest[1] = left < 8 ? 0 : end;
}

/* Takes the whole blocks of a key. Sets `rest` to the bytes after them, as two halves of a block
 * padded with zeros, and returns their number. */
static inline size_t murmur3_begin(struct murmur3 *s, const char *data, size_t len, uint64_t seed,
                                   uint64_t *rest)
{
    size_t left = len;
    *s = (struct murmur3){seed, seed};
    for (; left >= MURMUR3_BLOCK; left -= MURMUR3_BLOCK, data += MURMUR3_BLOCK)
        murmur3_take(s, get_le64(data), get_le64(data + 8));
    murmur3_rest(data, len, left, rest);
    return left;
}

/* Takes the rest of a key of len bytes. Then s->a and s->b are the halves of the hash. The zeros
 * after the last bytes change nothing. */
static inline void murmur3_end(struct murmur3 *s, uint64_t first, uint64_t second, uint64_t len)
{
    uint64_t a = s->a ^ murmur3_mix_first(first) ^ len;
    uint64_t b = s->b ^ murmur3_mix_second(second) ^ len;
    a += b;
    b += a;
    a = murmur3_avalanche(a);
    b = murmur3_avalanche(b);
    s->a = a + b;
    s->b = b + s->a;
}

#endif
