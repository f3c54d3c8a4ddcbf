/*
 * Classic Bloom filters: a key has k positions in one array of m bits, and is in the filter if all
 * of them are set. Most layouts of other programs are of this family; they differ in the hash, in
 * the rule from hash to positions (layout->positions) and in what stands around the bits.
 *
 *     data       the bits: bit x is at place x mod 8, from the low end, of byte x / 8; zero bits
 *                up to a multiple of 64; then, in some layouts, other bytes (`extra`)
 *     geometry   [0] m   [1] k, and from bit 16 on what the layout wants   [2] extra bytes
 *                [3] what the layout wants
 *
 * A layout of the family is a file with a struct layout and
 *
 *     const struct kind kind_name = {.id = 100, .name = "name", .layout = &layout, .lanes = 2,
 *                                    CLASSIC_KIND};
 *
 * `check` of a layout tests what is its own, and calls classic_check.
 */
#ifndef KIND_CLASSIC_CLASSIC_H
#define KIND_CLASSIC_CLASSIC_H

#include "base/mul.h"
#include "kind/kind.h"
#include "kind/layout.h"

enum {
    /* The smallest rate that a double can hold, 2^-1074, takes k = 1074; a file may say more. */
    CLASSIC_MAX_K = 4096,
    CLASSIC_K_BITS = 16, /* of geometry[1] */
};

/* More bits than this are no filter: 2^45 bits are 4 TiB. */
#define CLASSIC_MAX_M ((uint64_t)1 << 45)

struct classic {
    uint64_t m;
    unsigned k;
    uint64_t variant; /* geometry[1] from bit 16 on */
    uint64_t extra;   /* bytes behind the bits */
};

struct classic classic_of(const struct layer *layer);

/* Sets geometry and data_len. The kind and geometry[3] stay. */
void classic_to(const struct classic *c, struct layer *layer);

/* Bytes of m bits, in whole words. */
static inline uint64_t classic_bytes(uint64_t m)
{
    return (m + 63) / 64 * 8;
}

/* x mod m for many x, m at most CLASSIC_MAX_M: two divisions when it is set up, two multiplications
 * for each x. */
struct modulus {
    uint64_t m, inverse; /* floor((2^(64 + shift) - 1) / m) */
    unsigned shift;
};

enum { MODULUS_SHIFT = 18 }; /* 64 less the bits of CLASSIC_MAX_M, less one */

/* With m inverse + r = 2^64 - 1 the inverse is floor(((2^64 - 1) 2^shift + 2^shift - 1) / m), which
 * is inverse 2^shift + floor((r 2^shift + 2^shift - 1) / m). It has 64 bits, since 2^shift is at
 * most m. */
static inline struct modulus modulus_of(uint64_t m)
{
    unsigned log2_m = 63 - (unsigned)__builtin_clzll(m);
    unsigned shift = log2_m < MODULUS_SHIFT ? log2_m : MODULUS_SHIFT;
    uint64_t inverse = UINT64_MAX / m, r = UINT64_MAX % m, low = ((uint64_t)1 << shift) - 1;
    return (struct modulus){m, (inverse << shift) + ((r << shift) + low) / m, shift};
}

/* The quotient is right or 1 too small: x / m - x inverse / 2^(64 + shift) is at most x / 2^(64 +
 * shift). So it is mostly right, and the branch is predicted. */
static inline uint64_t modulo(uint64_t x, struct modulus by)
{
    uint64_t r = x - (mul_high(x, by.inverse) >> by.shift) * by.m;
    if (__builtin_expect(r >= by.m, 0))
        r -= by.m;
    return r;
}

/* Sets the design of a foreign filter of one layer that does not state it: from the spec where that
 * has it; else n = m ln 2 / k, with which half of the bits are set, and p = 2^-k. */
void classic_design(const struct classic *c, const struct layout_spec *spec,
                    struct layout_filter *out);

/* Sets the design of a filter of one layer, which has the size that it is to have: for n keys (0:
 * for as many as half of its bits are set with), p as its FPR, or what the formula gives, (1 -
 * e^(-kn/m))^k, where p is 0. Fails if the formula gives more than p. */
bool classic_design_for(const struct classic *c, uint64_t n, double p, struct layout_filter *out,
                        struct err *err);

/* The m and k with the lowest FPR, before they are rounded: -n ln p / (ln 2)^2, and m / n ln 2. In
 * doubles, from left to right: other programs do the same. */
double classic_best_m(double n, double p);
double classic_best_k(double m, double n);

/* Of layouts without a configuration in Redis. */
extern const struct layout_redis classic_redis;

/* Bitmaps as Redis has them (SETBIT): the bits alone, in ORDER_HIGH_FIRST; zero bytes at the end
 * may be missing. Reading fails if a bit from m on is set. */
bool classic_read_bitmap(const struct layout_foreign *in, uint64_t m, struct layout_bits *bits,
                         struct err *err);
bool classic_write_bitmap(const struct layer *layer, const uint8_t *data,
                          const struct layout_sink *sink, struct err *err);
uint64_t classic_bitmap_len(const struct layout_filter *filter);

/* Distinct keys of which c of m bits are set: -m/k ln(1 - c/m) (Swamidass and Baldi, 2007). */
double classic_estimate(uint64_t m, unsigned k, uint64_t set);

/* Are all bits of `bits` from bit m on zero? Fails with the first that is set. */
bool classic_check_bits(const struct layout_bits *bits, uint64_t m, struct err *err);

/* The members of struct kind that do not depend on the layout. */
bool classic_check(const struct layer *layer, struct err *err);
void classic_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                   uint64_t *present);
void classic_prefetch(const struct layer *layer, const uint8_t *data, struct hashes keys,
                      size_t n);
void classic_add(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                 uint64_t *present);
bool classic_pages(const struct layer *layer, const uint8_t *data, struct hashes key,
                   bool (*need)(void *ctx, uint64_t page), void *ctx);
void classic_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                    struct census *out);
void classic_census_of(const struct layer *layer, uint64_t set, struct census *out);
bool classic_pair(const struct layer *const *layer, const uint8_t *const *data, unsigned threads,
                  struct pair_census *out);
bool classic_alike(const struct layer *a, const struct layer *b);
void classic_census_union(const struct layer *const *layer, const uint8_t *const *data, unsigned n,
                          unsigned threads, struct census *out);
struct shape classic_shape(const struct layer *layer);
double classic_fpr_at(const struct layer *layer, double n);
bool classic_check_fpr(double p, struct err *err);
bool classic_unite(const struct layer *a, const struct layer *b, struct layer *out);
bool classic_write_union(const struct target *target, const struct union_of *parts,
                         struct census *census, struct err *err);

/* A kind whose layers cannot be united. */
#define CLASSIC_KIND_ALONE                                                                        \
    .query = classic_query, .prefetch = classic_prefetch, .add = classic_add,                     \
    .pages = classic_pages, .census = classic_census, .alike = classic_alike,                     \
    .census_union = classic_census_union, .pair = classic_pair, .shape = classic_shape,           \
    .fpr_at = classic_fpr_at, .check_fpr = classic_check_fpr, .hash_share = 1, .fpr_min = 0,      \
    .fpr_max = 1, .len_max = CLASSIC_MAX_M / 8

#define CLASSIC_KIND                                                                              \
    CLASSIC_KIND_ALONE, .unite = classic_unite, .write_union = classic_write_union

#endif
