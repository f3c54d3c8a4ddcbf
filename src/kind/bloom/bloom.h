/*
 * The page-blocked Bloom filter: the mutable layer kind. The functions below insert, query and fold
 * arrays of pages; size.h chooses a struct bloom.
 *
 * m = 4096 * 8 * pages bits. A key uses one page, and in it G lines of 512 bits, G = 1 or 2. Two
 * lines are always distinct. Each of its k probes is one of the 512 bits of a line. With G = 2, the
 * first k/2 probes are in line a and the others in line b. From the 64-bit hash h of the key:
 *
 *     page    = floor(h * pages / 2^64)
 *     line a  = h mod 64
 *     line b  = a xor (1 + floor((floor(h / 64) mod 2^16) * 63 / 2^16))       only for G = 2
 *     W_t     = both halves of h * C_t, xored; t = 0, 1, 2, 3
 *     probe i = floor(W_(i div 7) / 2^(9 (i mod 7))) mod 512
 *
 * The page comes from the top bits of h and the lines from the lowest 22. These do not overlap up
 * to 2^42 pages. Probes never use bits of h directly: bits that choose the line must not choose the
 * probe too (in an experiment, this doubled the FPR at 1e-6). The folded product mixes all of h
 * into each probe.
 *
 * The page is monotone in h. So a filter of P pages can be folded to P/q pages by or-ing each q
 * consecutive pages. The result equals, bit for bit, the filter built with P/q pages.
 *
 * Bit i of a line is bit i mod 8 of its byte i div 8.
 */
#ifndef KIND_BLOOM_BLOOM_H
#define KIND_BLOOM_BLOOM_H

#include "base/variant.h"
#include "kind/kind.h"

enum {
    BLOOM_PAGE = 4096, /* bytes */
    BLOOM_LINE = 64,   /* bytes */
    BLOOM_MAX_K = 22,  /* four words of seven probes hold 28; sizing uses at most 22 */
};

struct bloom {
    uint64_t pages;
    unsigned k;
    unsigned lines; /* G: 1 or 2 */
};

extern const struct kind kind_bloom;

/* Convert between a layer's stored geometry and struct bloom. */
struct bloom bloom_of(const struct layer *layer);
void bloom_to(const struct bloom *bloom, struct layer *layer);

/* Inserts hash[0..n). `data` (64-byte aligned) holds the pages from first_page on; every hash must
 * fall into them. */
void bloom_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                  const uint64_t *hash, size_t n);

/* Sets bit i of present if hash[i] is in the filter. Clears no bits. */
void bloom_query(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                 const uint64_t *hash, size_t n, uint64_t *present);

/* Inserts and queries in one step, in order. Sets bit i of present if all bits of hash[i] were
 * already set, by `data` or by an earlier hash of this call. Clears no bits. */
void bloom_test_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                       const uint64_t *hash, size_t n, uint64_t *present);

/* The same for data that is in the CPU's cache: does not prefetch. This takes 5.5 instead of 6.6 ns
 * per key in 76 KB, and 5.8 instead of 6.7 ns in 760 KB. */
void bloom_insert_cached(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                         const uint64_t *hash, size_t n, uint64_t *present);

/* Folds `from` to `to`: ors pages [first, first + n) of the result into `pages`. to->pages divides
 * from->pages; k and lines are equal. */
void bloom_fold(const struct bloom *from, const uint8_t *data, const struct bloom *to,
                uint64_t first, uint64_t n, uint8_t *pages);

extern struct variants bloom_variants;

#endif
