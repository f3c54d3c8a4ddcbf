/* SPDX-License-Identifier: MIT */
#include "foreign/hash.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/exact.h"

/*
 * Defines a struct hash_fn from a function that hashes one key:
 *
 *     static void one(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride);
 *
 * It writes lane l to out[l * stride]. Its seed is the number of the struct hash_seed.
 */
#define FOREIGN_HASH(fn, stored, text, n_lanes, one)                                               \
    static void one##_keys(const char *const *data, const size_t *len, size_t n,                   \
                           const struct hash_seed *seed, uint64_t *out, size_t stride)             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            one(data[i], hash_len(data, len, i), seed->number, out + i, stride);                   \
    }                                                                                              \
    const struct hash_fn fn = {.id = stored, .name = text, .lanes = n_lanes, .keys = one##_keys};

/* ---- FNV-1 of 64 bits (Fowler, Noll and Vo; RFC 9923). */

static void fnv1(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    (void)seed;
    (void)stride;
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        h = h * 0x00000100000001b3 ^ (unsigned char)data[i];
    out[0] = h;
}

FOREIGN_HASH(hash_fnv1_64, 8, "fnv1-64", 1, fnv1)

/* ---- MurmurHash2 and MurmurHash64A of Austin Appleby's SMHasher. */

static const uint32_t M32 = 0x5bd1e995;

static uint32_t murmur2(const char *data, size_t len, uint32_t seed)
{
    uint32_t h = seed ^ (uint32_t)len;
    for (; len >= 4; len -= 4, data += 4) {
        uint32_t x = get_le32(data) * M32;
        h = h * M32 ^ (x ^ x >> 24) * M32;
    }
    if (len > 0) {
        char rest[4] = {0};
        memcpy(rest, data, len);
        h = (h ^ get_le32(rest)) * M32;
    }
    h = (h ^ h >> 13) * M32;
    return h ^ h >> 15;
}

static void murmur2_pair(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    uint32_t first = murmur2(data, len, (uint32_t)seed);
    out[0] = first;
    out[stride] = murmur2(data, len, first);
}

FOREIGN_HASH(hash_murmur2_pair, 6, "murmur2-pair", 2, murmur2_pair)

static const uint64_t M64 = 0xc6a4a7935bd1e995;

static uint64_t murmur64a(const char *data, size_t len, uint64_t seed)
{
    uint64_t h = seed ^ len * M64;
    size_t left = len;
    for (; left >= 8; left -= 8, data += 8) {
        uint64_t x = get_le64(data) * M64;
        h = (h ^ (x ^ x >> 47) * M64) * M64;
    }
    if (left > 0) {
        char rest[8] = {0};
        memcpy(rest, data, left);
        h = (h ^ get_le64(rest)) * M64;
    }
    h = (h ^ h >> 47) * M64;
    return h ^ h >> 47;
}

static void murmur64a_pair(const char *data, size_t len, uint64_t seed, uint64_t *out,
                           size_t stride)
{
    out[0] = murmur64a(data, len, seed);
    out[stride] = murmur64a(data, len, seed > UINT32_MAX ? out[0] : out[0] & UINT32_MAX);
}

FOREIGN_HASH(hash_murmur64a_pair, 5, "murmur64a-pair", 2, murmur64a_pair)

/* ---- MurmurHash3 x64 128 of Austin Appleby's SMHasher. */

enum { BLOCK3 = 16 };

struct murmur3 {
    uint64_t a, b;
};

static uint64_t murmur3_rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* The first half of a block goes into one half of the state, the second into the other. */
static uint64_t murmur3_mix_first(uint64_t x)
{
    return murmur3_rotate(x * 0x87c37b91114253d5, 31) * 0x4cf5ad432745937f;
}

static uint64_t murmur3_mix_second(uint64_t x)
{
    return murmur3_rotate(x * 0x4cf5ad432745937f, 33) * 0x87c37b91114253d5;
}

static uint64_t murmur3_avalanche(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

/* Takes a whole block, by its halves. */
static void murmur3_take(struct murmur3 *s, uint64_t first, uint64_t second)
{
    s->a ^= murmur3_mix_first(first);
    s->a = (murmur3_rotate(s->a, 27) + s->b) * 5 + 0x52dce729;
    s->b ^= murmur3_mix_second(second);
    s->b = (murmur3_rotate(s->b, 31) + s->a) * 5 + 0x38495ab5;
}

/* Sets `rest` to the last `left` bytes of a key, fewer than a block, as two halves of a block
 * padded with zeros. They begin at `data`. In a key of a block or more, they are shifted out of its
 * last 16 bytes, which takes less time than a copy of variable length. */
static void murmur3_rest(const char *data, size_t len, size_t left, uint64_t *rest)
{
    if (len < BLOCK3) {
        char block[BLOCK3] = {0};
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
static size_t murmur3_begin(struct murmur3 *s, const char *data, size_t len, uint64_t seed,
                            uint64_t *rest)
{
    size_t left = len;
    *s = (struct murmur3){seed, seed};
    for (; left >= BLOCK3; left -= BLOCK3, data += BLOCK3)
        murmur3_take(s, get_le64(data), get_le64(data + 8));
    murmur3_rest(data, len, left, rest);
    return left;
}

/* Takes the rest of a key of len bytes. Then s->a and s->b are the halves of the hash. The zeros
 * after the last bytes change nothing. */
static void murmur3_end(struct murmur3 *s, uint64_t first, uint64_t second, uint64_t len)
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

static void murmur3(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    struct murmur3 s;
    uint64_t rest[2];
    murmur3_begin(&s, data, len, seed, rest);
    murmur3_end(&s, rest[0], rest[1], len);
    out[0] = s.a;
    out[stride] = s.b;
}

FOREIGN_HASH(hash_murmur3_128, 2, "murmur3-128", 2, murmur3)

enum { SUFFIXES = 14 };
_Static_assert((int)SUFFIXES <= (int)HASH_LANES, "hash.h");

/* The hash of a key of `len` bytes followed by the byte `last`, from the state after the key's
 * whole blocks. The n bytes after those are in `rest`. */
static struct murmur3 murmur3_with(struct murmur3 s, const uint64_t *rest, size_t n, size_t len,
                                   uint64_t last)
{
    uint64_t word[2] = {rest[0], rest[1]};
    word[n >= 8] |= last << n % 8 * 8;
    if (n + 1 == BLOCK3) {
        murmur3_take(&s, word[0], word[1]);
        word[0] = word[1] = 0;
    }
    murmur3_end(&s, word[0], word[1], (uint64_t)len + 1);
    return s;
}

/* The keys of all lanes differ only in the byte after the rest. */
static void murmur3_suffix(const char *data, size_t len, uint64_t seed, uint64_t *out,
                           size_t stride)
{
    struct murmur3 s;
    uint64_t rest[2];
    const size_t n = murmur3_begin(&s, data, len, seed, rest);
    for (uint64_t i = 0; i < SUFFIXES; i++)
        out[i * stride] = murmur3_with(s, rest, n, len, i).a;
}

FOREIGN_HASH(hash_murmur3_128_suffix, 3, "murmur3-128-suffix", SUFFIXES, murmur3_suffix)

static void murmur3_twice(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    struct murmur3 s;
    uint64_t rest[2];
    const size_t n = murmur3_begin(&s, data, len, seed, rest);
    const struct murmur3 second = murmur3_with(s, rest, n, len, 1);
    murmur3_end(&s, rest[0], rest[1], len);
    out[0] = s.a;
    out[stride] = s.b;
    out[2 * stride] = second.a;
    out[3 * stride] = second.b;
}

FOREIGN_HASH(hash_murmur3_128_twice, 11, "murmur3-128-twice", 4, murmur3_twice)

/* ---- MurmurHash3 x86 32 as Spark has it: each byte after the whole words is a word of its own,
 * with the byte's sign. */

static uint32_t rotate32(uint32_t x, unsigned bits)
{
    return x << bits | x >> (32 - bits);
}

static uint32_t spark_mix(uint32_t h, uint32_t word)
{
    h ^= rotate32(word * 0xcc9e2d51, 15) * 0x1b873593;
    return rotate32(h, 13) * 5 + 0xe6546b64;
}

static uint32_t spark_murmur3(const char *data, size_t len, uint32_t seed)
{
    uint32_t h = seed;
    size_t left = len;
    for (; left >= 4; left -= 4, data += 4)
        h = spark_mix(h, get_le32(data));
    for (; left > 0; left--, data++)
        h = spark_mix(h, (uint32_t)(int32_t)(int8_t)*data);
    h ^= (uint32_t)len;
    h = (h ^ h >> 16) * 0x85ebca6b;
    h = (h ^ h >> 13) * 0xc2b2ae35;
    return h ^ h >> 16;
}

static void spark(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    uint32_t first = spark_murmur3(data, len, (uint32_t)seed);
    out[0] = first;
    out[stride] = spark_murmur3(data, len, first);
}

FOREIGN_HASH(hash_murmur3_spark, 12, "murmur3-spark", 2, spark)

/* ---- HighwayHash of 128 bits. */

enum { LANES = 4, PACKET = LANES * 8, LAST = 6 };

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

static void start_highway(struct state *s)
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

static void update_highway(struct state *s, const uint64_t *packet)
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
    update_highway(s, packet);
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
        uint32_t low = rotate32((uint32_t)s->b[i], n);
        uint32_t high = rotate32((uint32_t)(s->b[i] >> 32), n);
        s->b[i] = (uint64_t)high << 32 | low;
    }
    last_packet(data, n, packet);
    update_bytes(s, packet);
}

static void highway(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    (void)seed;
    struct state s;
    start_highway(&s);
    for (; len >= PACKET; len -= PACKET, data += PACKET)
        update_bytes(&s, data);
    if (len > 0)
        update_rest(&s, data, (unsigned)len);
    for (unsigned i = 0; i < LAST; i++) {
        const uint64_t packet[LANES] = {swap_halves(s.a[2]), swap_halves(s.a[3]),
                                        swap_halves(s.a[0]), swap_halves(s.a[1])};
        update_highway(&s, packet);
    }
    out[0] = s.a[0] + s.mul_a[0] + s.b[2] + s.mul_b[2];
    out[stride] = s.a[1] + s.mul_a[1] + s.b[3] + s.mul_b[3];
}

FOREIGN_HASH(hash_highway_128, 4, "highway-128", 2, highway)

/* ---- The hash functions of a PHP class. */

_Static_assert((int)PHP_MOST <= (int)HASH_LANES, "hash.h");

/* A number of PHP: an integer of 64 bits, or a double, which has no fraction here. Sums and
 * products of integers that do not fit are doubles. (-ffp-contract=off and exact.h: a double is
 * rounded once, to its 53 bits.) */
struct number {
    bool is_double;
    int64_t whole;
    double real;
};

static struct number integer(int64_t x)
{
    return (struct number){false, x, 0};
}

static struct number real(double x)
{
    return (struct number){true, 0, x};
}

static double to_double(struct number x)
{
    return x.is_double ? x.real : (double)x.whole;
}

/* As PHP converts a double for (int) and for operations on bits: cut to its lowest 64 bits. */
static int64_t to_int(struct number x)
{
    double size = fabs(x.real);
    if (!x.is_double)
        return x.whole;
    size -= (double)(uint64_t)(size * 0x1p-64) * 0x1p64;
    uint64_t low = (uint64_t)size;
    return (int64_t)(x.real < 0 ? 0 - low : low);
}

static struct number add_numbers(struct number a, struct number b)
{
    int64_t sum;
    return !a.is_double && !b.is_double && !__builtin_add_overflow(a.whole, b.whole, &sum)
               ? integer(sum)
               : real(to_double(a) + to_double(b));
}

static struct number subtract(struct number a, int64_t b)
{
    int64_t rest;
    return !a.is_double && !__builtin_sub_overflow(a.whole, b, &rest)
               ? integer(rest)
               : real(to_double(a) - (double)b);
}

static struct number multiply(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? real((double)a * (double)b) : integer(product);
}

static struct number shifted(int64_t x, unsigned bits)
{
    return integer((int64_t)((uint64_t)x << bits));
}

static struct number byte(const char *data, size_t i)
{
    return integer((unsigned char)data[i]);
}

static int64_t bkdr(const char *data, size_t len)
{
    int64_t h = 0;
    for (size_t i = 0; i < len; i++)
        h = to_int(add_numbers(multiply(h, 131), byte(data, i)));
    return h;
}

static int64_t sdbm(const char *data, size_t len)
{
    int64_t h = 0;
    for (size_t i = 0; i < len; i++)
        h = to_int(
            subtract(add_numbers(add_numbers(byte(data, i), shifted(h, 6)), shifted(h, 16)), h));
    return h;
}

static int64_t js(const char *data, size_t len)
{
    int64_t h = 1315423911;
    for (size_t i = 0; i < len; i++)
        h ^= to_int(add_numbers(add_numbers(shifted(h, 5), byte(data, i)), integer(h >> 2)));
    return h;
}

static int64_t djb(const char *data, size_t len)
{
    struct number h = integer(5381);
    for (size_t i = 0; i < len; i++)
        h = add_numbers(integer(to_int(add_numbers(shifted(to_int(h), 5), h))), byte(data, i));
    return to_int(h);
}

static int64_t dek(const char *data, size_t len)
{
    int64_t h = (int64_t)len;
    for (size_t i = 0; i < len; i++)
        h = to_int(shifted(h, 5)) ^ h >> 27 ^ byte(data, i).whole;
    return h;
}

static const int64_t MODULUS = UINT32_MAX;

/* h is below 2^32, so that no product needs a double. */
static int64_t fnv(const char *data, size_t len)
{
    int64_t h = 2166136261;
    for (size_t i = 0; i < len; i++)
        h = h * 16777619 % MODULUS ^ byte(data, i).whole;
    return h;
}

static int64_t elf(const char *data, size_t len)
{
    int64_t h = 0;
    for (size_t i = 0; i < len; i++) {
        h = to_int(add_numbers(shifted(h, 4), byte(data, i)));
        int64_t x = h & 0xf0000000;
        h = (h ^ x >> 24) & ~x;
    }
    return h;
}

static int64_t pjw(const char *data, size_t len)
{
    const int64_t high = (int64_t)0xffffffff << 28;
    int64_t h = 0;
    for (size_t i = 0; i < len; i++)
        h = to_int(add_numbers(shifted(h, 4), byte(data, i)));
    int64_t x = h & high;
    return x != 0 ? (h ^ x >> 24) & ~high : h;
}

static const struct {
    const char *name;
    int64_t (*of)(const char *data, size_t len);
} functions[PHP_LAST + 1] = {
    [PHP_BKDR] = {"BKDRHash", bkdr}, [PHP_SDBM] = {"SDBMHash", sdbm}, [PHP_JS] = {"JSHash", js},
    [PHP_DJB] = {"DJBHash", djb},    [PHP_DEK] = {"DEKHash", dek},    [PHP_FNV] = {"FNVHash", fnv},
    [PHP_ELF] = {"ELFHash", elf},    [PHP_PJW] = {"PJWHash", pjw},
};

const char *php_name(unsigned function)
{
    return function <= PHP_LAST ? functions[function].name : NULL;
}

unsigned php_by_name(const char *name)
{
    for (unsigned f = 1; f <= PHP_LAST; f++)
        if (strcmp(name, functions[f].name) == 0)
            return f;
    return 0;
}

unsigned php_functions(uint64_t seed)
{
    unsigned n = 0;
    for (; (seed & 15) != 0; seed >>= 4)
        if ((seed & 15) > PHP_LAST || ++n > PHP_MOST)
            return 0;
    return seed == 0 ? n : 0;
}

static void php(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride)
{
    const unsigned n = php_functions(seed);
    for (unsigned l = 0; l < PHP_MOST; l++) {
        int64_t h = l < n ? functions[seed >> 4 * l & 15].of(data, len) : 0;
        out[l * stride] = (uint64_t)(h % MODULUS) & UINT32_MAX;
    }
}

FOREIGN_HASH(hash_php_32, 9, "php-32", PHP_MOST, php)
