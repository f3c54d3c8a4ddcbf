#include "keys/php.h"

#include <stdbool.h>
#include <string.h>

#include "keys/hash.h"

_Static_assert((int)PHP_MOST <= (int)HASH_LANES, "hash.h");

/*
 * A number of PHP: an integer of 64 bits, or a double, which has no fraction here. Both are kept as
 * integers of 128 bits, in two's complement. PHP converts a double to an integer, for (int) and for
 * operations on bits, by cutting it to its lowest 64 bits.
 *
 * Doubles are rounded here, since the floating-point unit of some machines would round twice: to 64
 * bits and then to 53.
 */
struct number {
    uint64_t low;
    int64_t high;
    bool is_double;
};

static struct number integer(int64_t x)
{
    return (struct number){(uint64_t)x, x >> 63, false};
}

static int64_t to_int(struct number x)
{
    return (int64_t)x.low;
}

/* -x if `sign` has all bits set, and x if none. */
static struct number signed_as(struct number x, uint64_t sign)
{
    uint64_t low = (x.low ^ sign) - sign;
    uint64_t high = ((uint64_t)x.high ^ sign) + (sign & (low == 0));
    return (struct number){low, (int64_t)high, x.is_double};
}

/* Rounds to the 53 bits of a double, half to even. |x| is below 2^116, so the bits that are cut are
 * in x.low. Without a branch: signs and lengths are random. */
static struct number rounded(struct number x)
{
    const uint64_t sign = (uint64_t)(x.high >> 63);
    x = signed_as(x, sign);
    unsigned above = x.high != 0 ? 64 : 0;
    unsigned bits = 64 + above - (unsigned)__builtin_clzll(above ? (uint64_t)x.high : x.low | 1);
    unsigned cut = bits > 53 ? bits - 53 : 0;
    uint64_t is_cut = cut > 0;
    uint64_t half = ((uint64_t)1 << cut >> 1) - is_cut + (x.low >> cut & is_cut);
    x.low += half;
    x.high += x.low < half;
    x.low = x.low >> cut << cut;
    x.is_double = true;
    return signed_as(x, sign);
}

static struct number exact_sum(struct number a, struct number b)
{
    uint64_t low = a.low + b.low;
    return (struct number){low, a.high + b.high + (low < a.low), false};
}

static bool is_integer(struct number x)
{
    return !x.is_double && x.high == (int64_t)x.low >> 63;
}

/* |a| and |b| are at most 2^66. */
static struct number add(struct number a, struct number b)
{
    struct number sum = exact_sum(a, b);
    if (!a.is_double && !b.is_double && is_integer(sum))
        return sum;
    return rounded(exact_sum(rounded(a), rounded(b)));
}

static struct number exact_product(struct number a, uint32_t by)
{
    uint64_t first = (a.low & UINT32_MAX) * by, second = (a.low >> 32) * by + (first >> 32);
    return (struct number){second << 32 | (first & UINT32_MAX),
                           a.high * (int64_t)by + (int64_t)(second >> 32), false};
}

static struct number multiply(int64_t a, uint32_t by)
{
    struct number product = exact_product(integer(a), by);
    return is_integer(product) ? product : rounded(exact_product(rounded(integer(a)), by));
}

static struct number shifted(int64_t x, unsigned bits)
{
    return integer((int64_t)((uint64_t)x << bits));
}

static int64_t byte(const char *data, size_t i)
{
    return (unsigned char)data[i];
}

/* A product that is a double is 2^63 or more, or -2^63 or less, and doubles are at least 2^10 apart
 * there: adding a byte does not change it. */
static int64_t bkdr(const char *data, size_t len)
{
    int64_t h = 0;
    for (size_t i = 0; i < len; i++) {
        struct number product = multiply(h, 131);
        h = to_int(product.is_double ? product : add(product, integer(byte(data, i))));
    }
    return h;
}

static int64_t sdbm(const char *data, size_t len)
{
    int64_t h = 0;
    for (size_t i = 0; i < len; i++) {
        struct number sum = add(integer(byte(data, i)), shifted(h, 6));
        sum = add(sum, shifted(h, 16));
        h = to_int(add(sum, signed_as(integer(h), UINT64_MAX)));
    }
    return h;
}

static int64_t js(const char *data, size_t len)
{
    int64_t h = 1315423911;
    for (size_t i = 0; i < len; i++)
        h ^= to_int(add(add(shifted(h, 5), integer(byte(data, i))), integer(h >> 2)));
    return h;
}

static int64_t djb(const char *data, size_t len)
{
    struct number h = integer(5381);
    for (size_t i = 0; i < len; i++)
        h = add(integer(to_int(add(shifted(to_int(h), 5), h))), integer(byte(data, i)));
    return to_int(h);
}

static int64_t dek(const char *data, size_t len)
{
    int64_t h = (int64_t)len;
    for (size_t i = 0; i < len; i++)
        h = to_int(shifted(h, 5)) ^ h >> 27 ^ byte(data, i);
    return h;
}

static const int64_t MODULUS = UINT32_MAX;

/* h is below 2^32, so that no product needs a double. */
static int64_t fnv(const char *data, size_t len)
{
    int64_t h = 2166136261;
    for (size_t i = 0; i < len; i++)
        h = h * 16777619 % MODULUS ^ byte(data, i);
    return h;
}

static int64_t elf(const char *data, size_t len)
{
    int64_t h = 0;
    for (size_t i = 0; i < len; i++) {
        h = to_int(add(shifted(h, 4), integer(byte(data, i))));
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
        h = to_int(add(shifted(h, 4), integer(byte(data, i))));
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

HASH_EACH(php)

const struct hash_fn hash_php_32 = {
    .id = 9, .name = "php-32", .lanes = PHP_MOST, .keys = php_keys, .records = php_records};
