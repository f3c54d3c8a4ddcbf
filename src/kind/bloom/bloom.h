/*
 * The page-blocked Bloom filter: the mutable layer kind.
 *
 * m = 4096 * 8 * pages bits. A key touches one page, and in it G lines of 512 bits: one, or two
 * distinct ones. Each of its k probes is one of the 512 bits of its line; with G = 2 the first k/2
 * probes go to the first line and the others to the second. From the 64-bit hash h of the key:
 *
 *     page    = floor(h * pages / 2^64)
 *     line a  = h mod 64
 *     line b  = a xor (1 + floor((floor(h / 64) mod 2^16) * 63 / 2^16))       only for G = 2
 *     W_t     = both halves of h * C_t, xored; t = 0, 1, 2, 3
 *     probe i = floor(W_(i div 7) / 2^(9 (i mod 7))) mod 512
 *
 * The page comes from the top bits of h and the lines from the lowest 22, which do not overlap up
 * to 2^42 pages. A probe never takes its bits from h itself: bits that chose the line must not
 * choose the probe too (that doubled the FPR at 1e-6 in an experiment), and a folded product mixes
 * all of h into each probe. Because page is monotone in h, a filter of P pages folds to one of P/q
 * by or-ing each q consecutive pages, bit for bit what building it with P/q pages gives.
 *
 * Bit i of a line is bit i mod 8 of byte i div 8 of it.
 */
#ifndef KIND_BLOOM_BLOOM_H
#define KIND_BLOOM_BLOOM_H

#include "base/variant.h"
#include "kind/kind.h"

enum {
    BLOOM_PAGE = 4096,  /* bytes */
    BLOOM_LINE = 64,    /* bytes */
    BLOOM_MAX_K = 22,   /* four words of seven probes hold 28; sizing asks for no more than 22 */
};

struct bloom {
    uint64_t pages;
    unsigned k;
    unsigned lines; /* G: 1 or 2 */
};

extern const struct kind kind_bloom;

/* Between a layer's stored geometry and ours. */
struct bloom bloom_of(const struct layer *layer);
void bloom_to(const struct bloom *bloom, struct layer *layer);

/* Inserts hash[0..n) into data (64-byte aligned), of pages [first_page, ...) of the filter; the
 * caller sees to it that no hash falls outside. */
void bloom_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                  const uint64_t *hash, size_t n);

/* Sets bit i of present when hash[i] is in; clears none. */
void bloom_query(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                 const uint64_t *hash, size_t n, uint64_t *present);

/* Inserts and answers in one step, in order: bit i of present is set when every bit of hash[i] was
 * set before hash[i] came, by data or by an earlier hash of this call; none is cleared. */
void bloom_test_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                       const uint64_t *hash, size_t n, uint64_t *present);

/* Ors into `pages` what pages [first, first + n) of filter `to` are when `from` is folded to it:
 * to->pages divides from->pages, all else is equal. */
void bloom_fold(const struct bloom *from, const uint8_t *data, const struct bloom *to,
                uint64_t first, uint64_t n, uint8_t *pages);

extern struct variants bloom_variants;

#endif
