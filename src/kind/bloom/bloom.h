/* SPDX-License-Identifier: MIT
 * The page-blocked Bloom filter: the mutable layer kind. The functions below insert, query and fold
 * arrays of pages; bloom_size chooses a struct bloom.
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
#include "keys/keyset.h"
#include "kind/kind.h"
#include "kind/table.h"
#include "kind/target.h"

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

extern struct variants bloom_variants;

/* ---- Size, FPR and capacity. Every function gives the same result to the last bit on every
 * machine (base/exact.h). */

/* The smallest supported FPR. There a key takes 52 bits with two lines, 43 bits in a classic filter
 * and 30 bits in a compact one. The gap widens for smaller FPRs. */
#define BLOOM_MIN_FPR 1e-9

/* Up to this many pages, the page and the line come from different bits of a hash. */
#define BLOOM_MAX_PAGES ((uint64_t)1 << 42)

/* Expected FPR after n distinct keys. */
double bloom_fpr(const struct bloom *bloom, double n);

/* The smallest filter with FPR at most p for n keys: G = 1 for p >= 1e-3, else G = 2; ties go to
 * the smaller k. Needs n >= 1 and BLOOM_MIN_FPR <= p < 1. False if it needs more than 2^42 pages.
 */
bool bloom_size(uint64_t n, double p, struct bloom *out);

/* The filter of exactly `pages` pages with the smallest FPR for n keys: G = 2 if that gives an FPR
 * below 1e-3, else G = 1. bloom_size(n, that FPR) gives a filter of the same size. */
void bloom_best(uint64_t n, uint64_t pages, struct bloom *out);

/* Returns the largest n that a filter of `pages` pages holds at FPR p, and sets *out to that
 * filter. Returns 0 if it cannot hold one key; *out is then unchanged. */
uint64_t bloom_capacity(uint64_t pages, double p, struct bloom *out);

/*
 * ---- Census of a page-blocked Bloom filter: the exact current FPR, and an estimate of the number
 * of distinct keys with its error.
 */

/* Up to this average number of clear bits per line, some lines may be full, so the number of keys
 * has no upper bound. With an average of 16, a line is full with probability e^-16; where 8 are
 * expected, with e^-8. */
enum { BLOOM_CLEAR_BITS = 16 };

/* The sums of bloom_table. */
struct bloom_census {
    uint64_t lines_with[513];               /* lines by their number of set bits */
    uint64_t pair_hits_high, pair_hits_low; /* G = 2: sum over pages, 128-bit fixed point */
};

extern const struct table bloom_table;

/*
 * ---- Writes the Bloom layer of a new file: data and checksums. Takes the census at the same time,
 * while each page is in the cache. Each thread makes the pages of one partition of the keyset after
 * the other, so it has a 256th of the filter in memory.
 */

/* `build` of kind.h. If the keys are presumed distinct, the census tells whether they are. */
bool bloom_build(const struct target *target, struct keyset *keys, struct census *census,
                 struct err *err);

#endif
