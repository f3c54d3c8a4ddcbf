/* SPDX-License-Identifier: MIT
 * Computes the page, lines and probes of a hash (formulas in bloom.h), and declares the
 * instruction-set variants. Private to src/kind/bloom.
 */
#ifndef KIND_BLOOM_PROBE_H
#define KIND_BLOOM_PROBE_H

#include "base/ahead.h"
#include "base/exact.h"
#include "base/variant.h"
#include "kind/bloom/bloom.h"

#define BLOOM_INLINE static inline __attribute__((always_inline))

/* C_t: the first 64 bits of the fractional parts of the square roots of 2, 3, 5 and 7, made odd. */
static const uint64_t bloom_factor[4] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                         0xa54ff53a5f1d36f1};

enum {
    PROBE_BITS = 9,     /* 2^9 bits in a line */
    PROBES_IN_WORD = 7, /* 9 bits each, in 64 */
    BLOOM_PROBE = (1 << PROBE_BITS) - 1,
    WORDS = (BLOOM_MAX_K + PROBES_IN_WORD - 1) / PROBES_IN_WORD,
};

static inline uint64_t bloom_page(const struct bloom *bloom, uint64_t hash)
{
    return mul_high(hash, bloom->pages);
}

static inline uint32_t bloom_line_a(uint64_t hash)
{
    return (uint32_t)hash & 63;
}

static inline uint32_t bloom_line_b(uint64_t hash)
{
    uint32_t distance = 1 + (((uint32_t)(hash >> 6) & 0xffff) * 63 >> 16);
    return bloom_line_a(hash) ^ distance;
}

/* Offsets of a key's lines in the data, which begins with page first_page. */
struct bloom_place {
    uint64_t a, b; /* equal when there is one line */
};

BLOOM_INLINE struct bloom_place bloom_place(const struct bloom *bloom, uint64_t first_page,
                                            uint64_t hash, unsigned lines)
{
    uint64_t page = (bloom_page(bloom, hash) - first_page) * BLOOM_PAGE;
    uint64_t a = page + bloom_line_a(hash) * BLOOM_LINE;
    return (struct bloom_place){a, lines == 2 ? page + bloom_line_b(hash) * BLOOM_LINE : a};
}

/* Lines are prefetched BLOOM_AHEAD keys ahead, so that fetching and probing overlap. In a filter of
 * 20 MB, probing takes 5.6 ns a key with 64, 6.7 with 32 and 10 with 16. */
enum { BLOOM_AHEAD = 64 };

AHEAD_INLINE void bloom_prefetch(const struct bloom *bloom, const uint8_t *data,
                                 uint64_t first_page, uint64_t hash, unsigned lines)
{
    struct bloom_place place = bloom_place(bloom, first_page, hash, lines);
    ahead_fetch(data + place.a);
    if (lines == 2)
        ahead_fetch(data + place.b);
}

AHEAD_INLINE void bloom_prefetch_first(const struct bloom *bloom, const uint8_t *data,
                                       uint64_t first_page, const uint64_t *hash, size_t n,
                                       unsigned lines)
{
    for (size_t i = 0; i < BLOOM_AHEAD && i < n; i++)
        bloom_prefetch(bloom, data, first_page, hash[i], lines);
}

/* Call before processing key i. */
AHEAD_INLINE void bloom_prefetch_ahead(const struct bloom *bloom, const uint8_t *data,
                                       uint64_t first_page, const uint64_t *hash, size_t i,
                                       size_t n, unsigned lines)
{
    if (i + BLOOM_AHEAD < n)
        bloom_prefetch(bloom, data, first_page, hash[i + BLOOM_AHEAD], lines);
}

/* A step of a query: a layer is asked for those of 64 keys whose bits are set. */
struct bloom_step {
    struct bloom bloom;
    const uint8_t *data, **line; /* the layer; the line of each key that is tested next */
    const uint64_t *hash;
    uint64_t keys, *present; /* to be asked; those that were found in this or an earlier step */
};

AHEAD_INLINE void bloom_fetch_first(const struct bloom_step *step, unsigned i)
{
    step->line[i] = step->data + bloom_place(&step->bloom, 0, step->hash[i], 1).a;
    ahead_fetch(step->line[i]);
}

/* The same for the first key that is to be asked, which is then taken out. */
AHEAD_INLINE void bloom_fetch_next(struct bloom_step *step)
{
    bloom_fetch_first(step, (unsigned)__builtin_ctzll(step->keys));
    step->keys &= step->keys - 1;
}

/* Fetches the second lines of all keys, in place of their first. */
AHEAD_INLINE void bloom_fetch_second(const struct bloom_step *step)
{
    for (uint64_t keys = step->keys; keys != 0; keys &= keys - 1) {
        unsigned i = (unsigned)__builtin_ctzll(keys);
        step->line[i] = step->data + bloom_place(&step->bloom, 0, step->hash[i], 2).b;
        ahead_fetch(step->line[i]);
    }
}

static inline uint64_t bloom_word(uint64_t hash, unsigned t)
{
    return mul_fold(hash, bloom_factor[t]);
}

/* The number of the first k probes that come from word t. The first line gets the first k / lines
 * probes. */
BLOOM_INLINE unsigned bloom_probes(unsigned t, unsigned k)
{
    unsigned before = t * PROBES_IN_WORD;
    return k <= before ? 0 : k - before < PROBES_IN_WORD ? k - before : PROBES_IN_WORD;
}

#define BLOOM_CASE(body, k, lines)                                                                 \
    case 2 * (k) + (lines):                                                                        \
        body(k, lines);                                                                            \
        break;

/* Calls body(k, lines): with constants for the values that sizing chooses, with variables for other
 * values. Without constants, probing is half as fast. */
#define BLOOM_WITH_CONSTANTS(body, k, lines)                                                       \
    switch (2 * (k) + (lines)) {                                                                   \
        BLOOM_CASE(body, 3, 1)                                                                     \
        BLOOM_CASE(body, 4, 1)                                                                     \
        BLOOM_CASE(body, 5, 1)                                                                     \
        BLOOM_CASE(body, 6, 1)                                                                     \
        BLOOM_CASE(body, 7, 1)                                                                     \
        BLOOM_CASE(body, 8, 1)                                                                     \
        BLOOM_CASE(body, 9, 1)                                                                     \
        BLOOM_CASE(body, 10, 2)                                                                    \
        BLOOM_CASE(body, 12, 2)                                                                    \
        BLOOM_CASE(body, 14, 2)                                                                    \
        BLOOM_CASE(body, 16, 2)                                                                    \
        BLOOM_CASE(body, 18, 2)                                                                    \
        BLOOM_CASE(body, 20, 2)                                                                    \
        BLOOM_CASE(body, 22, 2)                                                                    \
    default:                                                                                       \
        body(k, lines);                                                                            \
    }

/* The loops over keys of one instruction set, as in bloom.h. insert ignores present. */
typedef void bloom_insert_fn(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                             const uint64_t *hash, size_t n, uint64_t *present);

struct bloom_variant {
    struct variant variant;
    uint64_t (*test_first)(struct bloom_step now, struct bloom_step next);
    uint64_t (*test_second)(struct bloom_step now);
    bloom_insert_fn *insert, *test_insert;
};

/* The 512 lines with one set bit, in order. A key's bits are or-ed from them, so its line is read
 * and written once. */
extern const uint64_t bloom_one_bit[1 << PROBE_BITS][BLOOM_LINE / sizeof(uint64_t)];

extern const struct bloom_variant bloom_avx512, bloom_avx2, bloom_neon, bloom_plain;

#endif
