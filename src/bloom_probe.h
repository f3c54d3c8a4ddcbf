/*
 * From a hash to page, lines and probes (bloom.h has the formulas), and the table of instruction-set
 * variants. For bloom*.c only.
 */
#ifndef BLOOM_PROBE_H
#define BLOOM_PROBE_H

#include "bloom.h"
#include "mul.h"

#if defined(__x86_64__)
#define BLOOM_X86 1
#endif

/* C_t: the first 64 bits of the fractional parts of the square roots of 2, 3, 5 and 7, made odd. */
static const uint64_t bloom_factor[4] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b,
                                         0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1};

enum {
    PROBE_BITS = 9,      /* 2^9 bits in a line */
    PROBES_IN_WORD = 7,  /* of 9 bits each in 64 */
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

static inline uint64_t bloom_word(uint64_t hash, unsigned t)
{
    return mul_fold(hash, bloom_factor[t]);
}

/* Queries with one set of instructions: at most LAYER_BATCH hashes. */
struct bloom_variant {
    const char *name;
    void (*query)(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                  const uint64_t *hash, size_t n, uint64_t *present);
    bool (*usable)(void); /* NULL: everywhere */
};

extern const struct bloom_variant bloom_avx512;

#endif
