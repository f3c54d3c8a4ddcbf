#include "keys/highway.h"

#include <string.h>

#include "base/bytes.h"
#include "keys/hash_each.h"

enum { LANES = 4, PACKET = LANES * 8, LAST = 6 };

/* Redisson's key. */
static const uint64_t redisson_key[LANES] = {0x9e3779b97f4a7c15, 0xf39cc0605cedc834,
                                             0x1082276bf3a27251, 0xf86c6a11d0c18e95};

/* The initial state, from the reference implementation (google/highwayhash). */
static const uint64_t begin0[LANES] = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344,
                                       0x243f6a8885a308d3};
static const uint64_t begin1[LANES] = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c,
                                       0x452821e638d01377};

/* v0, v1, mul0 and mul1 of the paper. */
struct state {
    uint64_t a[LANES], b[LANES], mul_a[LANES], mul_b[LANES];
};

static uint64_t swap_halves(uint64_t x)
{
    return x << 32 | x >> 32;
}

static void start(struct state *s)
{
    for (unsigned i = 0; i < LANES; i++) {
        s->mul_a[i] = begin0[i];
        s->mul_b[i] = begin1[i];
        s->a[i] = begin0[i] ^ redisson_key[i];
        s->b[i] = begin1[i] ^ swap_halves(redisson_key[i]);
    }
}

/* The number whose bytes, the least significant first, are bytes 3, 12, 2, 5, 14, 1, 15 and 0 of
 * the two words l and h, where l has bytes 0 to 7. */
static uint64_t zip_even(uint64_t l, uint64_t h)
{
    return (l & 0xff000000) >> 24 | (h & 0xff00000000) >> 24 | (l & 0xff0000) |
           (l & 0xff0000000000) >> 16 | (h & 0xff000000000000) >> 16 | (l & 0xff00) << 32 |
           (h >> 56) << 48 | l << 56;
}

/* The same with bytes 11, 4, 10, 13, 9, 6, 8 and 7. */
static uint64_t zip_odd(uint64_t l, uint64_t h)
{
    return (h & 0xff000000) >> 24 | (l & 0xff00000000) >> 24 | (h & 0xff0000) |
           (h & 0xff0000000000) >> 16 | (h & 0xff00) << 24 | (l & 0xff000000000000) >> 8 |
           (h & 0xff) << 48 | (l >> 56) << 56;
}

static void zip(uint64_t *to, const uint64_t *from)
{
    for (unsigned i = 0; i < LANES; i += 2) {
        to[i] += zip_even(from[i], from[i + 1]);
        to[i + 1] += zip_odd(from[i], from[i + 1]);
    }
}

static void update(struct state *s, const uint64_t *packet)
{
    for (unsigned i = 0; i < LANES; i++) {
        s->b[i] += s->mul_a[i] + packet[i];
        s->mul_a[i] ^= (s->b[i] & UINT32_MAX) * (s->a[i] >> 32);
        s->a[i] += s->mul_b[i];
        s->mul_b[i] ^= (s->a[i] & UINT32_MAX) * (s->b[i] >> 32);
    }
    zip(s->a, s->b);
    zip(s->b, s->a);
}

static void update_bytes(struct state *s, const char *bytes)
{
    uint64_t packet[LANES];
    for (unsigned i = 0; i < LANES; i++)
        packet[i] = get_le64(bytes + 8 * i);
    update(s, packet);
}

static uint64_t rotate_halves(uint64_t x, unsigned bits)
{
    uint32_t low = (uint32_t)x, high = (uint32_t)(x >> 32);
    low = low << bits | low >> (32 - bits);
    high = high << bits | high >> (32 - bits);
    return (uint64_t)high << 32 | low;
}

/* Makes the packet of the last n bytes of a key; n is 1 to PACKET - 1. */
static void last_packet(const char *data, unsigned n, char packet[PACKET])
{
    const unsigned words = n / 4 * 4, odd = n % 4;
    memset(packet, 0, PACKET);
    memcpy(packet, data, words);
    if (n >= 16) {
        memcpy(packet + PACKET - 4, data + n - 4, 4);
    } else if (odd > 0) {
        packet[16] = data[words];
        packet[17] = data[words + odd / 2];
        packet[18] = data[n - 1];
    }
}

static void update_rest(struct state *s, const char *data, unsigned n)
{
    char packet[PACKET];
    for (unsigned i = 0; i < LANES; i++) {
        s->a[i] += (uint64_t)n << 32 | n;
        s->b[i] = rotate_halves(s->b[i], n);
    }
    last_packet(data, n, packet);
    update_bytes(s, packet);
}

static void highway(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    (void)seed;
    struct state s;
    start(&s);
    for (; len >= PACKET; len -= PACKET, data += PACKET)
        update_bytes(&s, data);
    if (len > 0)
        update_rest(&s, data, (unsigned)len);
    for (unsigned i = 0; i < LAST; i++) {
        const uint64_t packet[LANES] = {swap_halves(s.a[2]), swap_halves(s.a[3]),
                                        swap_halves(s.a[0]), swap_halves(s.a[1])};
        update(&s, packet);
    }
    out[0] = s.a[0] + s.mul_a[0] + s.b[2] + s.mul_b[2];
    out[stride] = s.a[1] + s.mul_a[1] + s.b[3] + s.mul_b[3];
}

HASH_EACH(highway)

const struct hash_fn hash_highway_128 = {
    .id = 4, .name = "highway-128", .lanes = 2, .keys = highway_keys, .records = highway_records};
