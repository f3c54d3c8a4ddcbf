/* SPDX-License-Identifier: MIT
 * Classic Bloom filters: a key has k positions in one array of m bits, and is in the filter if the
 * bits at all its positions are set. Most layouts of other programs belong to this family. They
 * differ in the hash function, in the rule from hash to positions (layout->positions) and in the
 * file format around the bits.
 *
 *     data       the bits: bit x is at place x mod 8, from the low end, of byte x / 8; zero bits
 *                up to a multiple of 64; then, in some layouts, other bytes (`extra`)
 *     geometry   [0] m   [1] k, and from bit 16 on a value of the layout (`variant`)
 *                [2] extra bytes   [3] a value of the layout
 *
 * To add a layout to the family, write a file with a struct layout and
 *
 *     const struct kind kind_name = {CLASSIC_KIND(100, "name", 2), .uniting = &classic_uniting};
 *
 * Its `check` validates the layout's own fields, then calls classic_check. The layout's `positions`
 * are the rule; CLASSIC_KIND sets all else.
 */
#ifndef FOREIGN_CLASSIC_H
#define FOREIGN_CLASSIC_H

#include "base/exact.h"
#include "kind/kind.h"
#include "foreign/layout.h"
#include "kind/table.h"

enum {
    /* The smallest FPR in a double, 2^-1074, needs k = 1074; a file may state a larger k. */
    CLASSIC_MAX_K = 4096,
    CLASSIC_K_BITS = 16, /* of geometry[1] */
};

/* Largest number of bits: 2^45 bits are 4 TiB. */
#define CLASSIC_MAX_M ((uint64_t)1 << 45)

struct classic {
    uint64_t m;
    unsigned k;
    uint64_t variant; /* geometry[1] from bit 16 on */
    uint64_t extra;   /* bytes after the bits */
};

struct classic classic_of(const struct layer *layer);

/* Sets geometry[0] to [2] and data_len. The kind and geometry[3] stay unchanged. */
void classic_to(const struct classic *c, struct layer *layer);

/* Bytes of m bits, in whole words. */
static inline uint64_t classic_bytes(uint64_t m)
{
    return (m + 63) / 64 * 8;
}

/* Computes x mod m for many x, m at most CLASSIC_MAX_M: two divisions for the setup, two
 * multiplications for each x. */
struct modulus {
    uint64_t m, inverse; /* floor((2^(64 + shift) - 1) / m) */
    unsigned shift;
};

enum { MODULUS_SHIFT = 18 }; /* 64 - log2(CLASSIC_MAX_M) - 1 */

/* The result's inverse is floor(((2^64 - 1) 2^shift + 2^shift - 1) / m). With 2^64 - 1 = m inverse
 * + r, where `inverse` is the variable below, this equals inverse 2^shift +
 * floor((r 2^shift + 2^shift - 1) / m). It fits 64 bits, since 2^shift is at most m. */
static inline struct modulus modulus_of(uint64_t m)
{
    unsigned log2_m = 63 - (unsigned)__builtin_clzll(m);
    unsigned shift = log2_m < MODULUS_SHIFT ? log2_m : MODULUS_SHIFT;
    uint64_t inverse = UINT64_MAX / m, r = UINT64_MAX % m, low = ((uint64_t)1 << shift) - 1;
    return (struct modulus){m, (inverse << shift) + ((r << shift) + low) / m, shift};
}

/* The quotient is exact or 1 too small, since x / m - x inverse / 2^(64 + shift) is at most
 * x / 2^(64 + shift). It is mostly exact, so the branch is predicted. */
static inline uint64_t modulo(uint64_t x, struct modulus by)
{
    uint64_t r = x - (mul_high(x, by.inverse) >> by.shift) * by.m;
    if (__builtin_expect(r >= by.m, 0))
        r -= by.m;
    return r;
}

/* Begins a filter of one layer (layout_begin). */
void classic_begin(const struct layout_spec *spec, const struct classic *c,
                   struct layout_filter *out);

/* Sets the design of a foreign filter of one layer that does not state it. Capacity and FPR are
 * those of the spec, if given; else n = m ln 2 / k, the number of keys that set half of the bits,
 * and p = 2^-k. */
void classic_design(const struct classic *c, const struct layout_spec *spec,
                    struct layout_filter *out);

/* Sets the design of a new filter of one layer with given m and k. The capacity is n, or with n = 0
 * the number of keys that set half of the bits. The FPR is p, or with p = 0 that of the formula,
 * (1 - e^(-kn/m))^k. Fails if p is given and the formula gives more. */
bool classic_design_for(const struct classic *c, uint64_t n, double p, struct layout_filter *out,
                        struct err *err);

/* The bits and the positions a key that a spec gives in these two parameters; 0: not given. */
bool classic_given(const struct layout_spec *spec, unsigned bits, unsigned positions,
                   uint64_t max_m, struct classic *c, struct err *err);

/* Are these numbers of a foreign file in range? */
bool classic_check_numbers(uint64_t m, uint64_t k, struct err *err);

/* The optimal m and k, not rounded: -n ln p / (ln 2)^2, and m / n ln 2. Evaluated in doubles, from
 * left to right, as other programs do. */
double classic_best_m(double n, double p);
double classic_best_k(double m, double n);

/* classic_best_m, truncated, as `program` computes it. Fails if that is less than 1, or more than
 * `most`. */
bool classic_size(const char *program, uint64_t n, double p, uint64_t most, double *m,
                  struct err *err);

/* For layouts that store no configuration in Redis. */
extern const struct layout_redis classic_redis;

/* Bitmaps as Redis stores them (SETBIT): the bits alone, in ORDER_HIGH_FIRST. Trailing zero bytes
 * may be missing. Reading fails if bit m or a later bit is set. */
bool classic_read_bitmap(const struct layout_foreign *in, uint64_t m, struct layout_bits *bits,
                         struct err *err);

/* The same for a size that a user has given: unless the spec is forced, also fails if the bits
 * contradict it (classic_check_size). */
bool classic_read_sized(const struct layout_spec *spec, const struct layout_foreign *in, uint64_t m,
                        struct layout_bits *bits, struct err *err);
bool classic_write_bitmap(const struct layout_filter *filter, const uint8_t *const *data,
                          const struct layout_sink *sink, struct err *err);
uint64_t classic_bitmap_len(const struct layout_filter *filter);

/* Can a bitmap of m bits, a number that the user gave, have `set` bits set, all among its first
 * `end`? Fails if that is less probable than 1e-9 for bits at random places. Only for layouts whose
 * positions are uniform; those of php are not. The error is a clause. */
bool classic_check_size(uint64_t m, uint64_t set, uint64_t end, struct err *err);

/* Are all bits of `bits` from bit m on zero? If not, the error names the first that is set. */
bool classic_check_bits(const struct layout_bits *bits, uint64_t m, struct err *err);

/* kind->sampled_fpr, for layouts in which a key's positions depend on each other
 * (layout->value). If too few samples would hit, it is classic_fpr: below 2.4e-5, or more where
 * keys have many positions. */
double classic_sample(const struct layer *layer, const uint8_t *data, unsigned threads,
                      double bits_set);

/* The FPR of a layer with this fraction of its bits set: set^k, and the layout's excess. */
double classic_fpr(const struct layer *layer, double set);

/* The excess where values grow by one step from position to position: in small filters for low
 * rates it is most of the FPR. To within CLASSIC_FACTOR for k up to 256; above that, too high. */
struct classic_steps {
    unsigned bits; /* values wrap at 2^bits; 0: never */
    bool turns;    /* those in the upper half count down again */
};
#define CLASSIC_FACTOR 1.25
double classic_excess(const struct layer *layer, double set, struct classic_steps steps);

/* The excess where two starts and two steps give the positions: 0, 4, 8 ... begin at the first one
 * and go by the first step, 3, 7, 11 ... from the second by the same, 1, 5, 9 ... from the second
 * by the second step, 2, 6, 10 ... from the first by that. To within CLASSIC_FACTOR_FOUR. */
#define CLASSIC_FACTOR_FOUR 4
double classic_excess_four(const struct layer *layer, double set);

/* kind->sampled_fpr where one step, or two, give the positions. In filters that are large for their
 * FPR, the formula holds. */
double classic_double_hashed(const struct layer *layer, const uint8_t *data, unsigned threads,
                             double bits_set);

/* The census of a layer with `set` bits set. */
void classic_census_of(const struct layer *layer, uint64_t set, struct census *out);

/* The members of struct kind that do not depend on the layout. */
bool classic_check(const struct layer *layer, struct err *err);
void classic_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                   uint64_t *present);
void classic_add(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                 uint64_t *present);
bool classic_pages(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                   bool (*need)(void *ctx, uint64_t page), void *ctx);
bool classic_alike(const struct layer *a, const struct layer *b);
struct shape classic_shape(const struct layer *layer);
double classic_fpr_at(const struct layer *layer, double n);
extern const struct kind_uniting classic_uniting;
extern const struct table classic_table;

/* What all kinds of this family have, and three members of one. Its file defines `layout` and
 * `check`. */
#define CLASSIC_KIND(number, text, n_lanes)                                                        \
    .id = (number), .name = (text), .lanes = (n_lanes), .layout = &layout, .check = check,         \
    .table = &classic_table, .query = classic_query, .add = classic_add, .pages = classic_pages,   \
    .census = table_census, .shape = classic_shape, .fpr_at = classic_fpr_at

/* The layouts of other programs, one in each file of this folder. */
extern const struct kind kind_bitsandblooms, kind_dcso, kind_gozero, kind_guava, kind_php,
    kind_redisbloom, kind_redisson, kind_spark;

#endif
