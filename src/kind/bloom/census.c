/* SPDX-License-Identifier: MIT */
/* Estimates from the bits of a Bloom layer, and its table of bits. */
#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "base/variant.h"
#include "kind/bloom/bloom.h"

enum {
    B = 8 * BLOOM_LINE,                   /* bits of a line */
    PAGE_LINES = BLOOM_PAGE / BLOOM_LINE, /* lines of a page */
    ORDERED_PAIRS = PAGE_LINES * (PAGE_LINES - 1),
    /* Fraction bits of the probability that k/2 probes hit. With 36, the sum over pages, at most
     * 2^42 * 64 * 63 * 2^72, stays below 2^126. The rounding error is negligible beside n / 2^64,
     * the part of the FPR that comes from equal hashes. */
    HIT_BITS = 36,
};

/* (x / B)^n */
static double fill_power(unsigned x, unsigned n)
{
    double fill = (double)x / B, result = 1;
    for (unsigned i = 0; i < n; i++)
        result *= fill;
    return result;
}

static void add_wide(uint64_t *high, uint64_t *low, uint64_t add_high, uint64_t add_low)
{
    *low += add_low;
    *high += add_high + (*low < add_low);
}

static inline unsigned line_bits(const uint8_t *line)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < BLOOM_LINE; i += 8) {
        uint64_t word;
        memcpy(&word, line + i, sizeof word);
        bits += (unsigned)__builtin_popcountll(word);
    }
    return bits;
}

/* The probability that an absent key of a page hits both of its lines is the mean of f_a f_b over
 * the ordered pairs a != b, with f = (x / B)^(k/2). Computed as the sum of f_a (all - f_a). */
static void add_pairs(const uint64_t *hit, const uint16_t *bits, struct bloom_census *c)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < PAGE_LINES; i++)
        all += hit[bits[i]];
    for (unsigned i = 0; i < PAGE_LINES; i++) {
        uint64_t low, high = mul_wide(hit[bits[i]], all - hit[bits[i]], &low);
        add_wide(&c->pair_hits_high, &c->pair_hits_low, high, low);
    }
}

__attribute__((always_inline)) static inline void count(const struct bloom *bloom,
                                                        const uint8_t *data, uint64_t pages,
                                                        const uint64_t *hit, struct bloom_census *c)
{
    for (uint64_t page = 0; page < pages; page++) {
        uint16_t bits[PAGE_LINES];
        for (unsigned i = 0; i < PAGE_LINES; i++) {
            bits[i] = (uint16_t)line_bits(data + page * BLOOM_PAGE + i * BLOOM_LINE);
            c->lines_with[bits[i]]++;
        }
        if (bloom->lines == 2)
            add_pairs(hit, bits, c);
    }
}

#ifdef __x86_64__
/* Baseline x86-64 has no popcnt instruction. */
__attribute__((target("popcnt"))) static void count_popcnt(const struct bloom *bloom,
                                                           const uint8_t *data, uint64_t pages,
                                                           const uint64_t *hit,
                                                           struct bloom_census *c)
{
    count(bloom, data, pages, hit, c);
}
#endif

static void tally(const struct layer *layer, const uint8_t *bits, uint64_t at, size_t len,
                  void *sums)
{
    struct bloom bloom = bloom_of(layer);
    uint64_t hit[B + 1];
    (void)at;
    for (unsigned x = 0; x <= B && bloom.lines == 2; x++)
        hit[x] = (uint64_t)(fill_power(x, bloom.k / 2) * (double)((uint64_t)1 << HIT_BITS) + 0.5);
#ifdef __x86_64__
    if (cpu_has_popcnt()) {
        count_popcnt(&bloom, bits, len / BLOOM_PAGE, hit, sums);
        return;
    }
#endif
    count(&bloom, bits, len / BLOOM_PAGE, hit, sums);
}

static void add(void *sums, const void *more)
{
    struct bloom_census *to = sums;
    const struct bloom_census *from = more;
    for (unsigned x = 0; x <= B; x++)
        to->lines_with[x] += from->lines_with[x];
    add_wide(&to->pair_hits_high, &to->pair_hits_low, from->pair_hits_high, from->pair_hits_low);
}

static double fpr_of(const struct bloom *bloom, const struct bloom_census *c, double lines)
{
    if (bloom->lines == 2) {
        double sum = (double)c->pair_hits_high * 0x1p64 + (double)c->pair_hits_low;
        double unit = (double)((uint64_t)1 << HIT_BITS);
        return sum / (unit * unit) / (lines / PAGE_LINES * ORDERED_PAIRS);
    }
    double sum = 0;
    for (unsigned x = 0; x <= B; x++)
        sum += (double)c->lines_with[x] * fill_power(x, bloom->k);
    return sum / lines;
}

/* Estimates the number of keys as a sum over all lines, from the number of bits thrown into each. A
 * throw hits one of c clear bits with probability c / B. So B / c throws are expected to get from
 * x - 1 = B - c set bits to x, with the variance B / c (B / c - 1). Summed from the empty line up
 * to x, these are unbiased estimates of the number of throws and of that estimate's variance, as
 * long as the line does not fill up. Of a full line, they give no more than a lower bound. */
static void count_by_lines(const struct bloom *bloom, const struct bloom_census *c,
                           struct census *out)
{
    double throws = 0, of_throws = 0, n = 0, variance = 0;
    for (unsigned x = 1; x <= B; x++) {
        double wait = B / (B - x + 1.0);
        throws += wait;
        of_throws += wait * (wait - 1);
        n += (double)c->lines_with[x] * throws;
        variance += (double)c->lines_with[x] * of_throws;
    }
    double margin = CENSUS_Z95 * sqrt(variance) / bloom->k;
    out->n = n / bloom->k;
    out->n_low = fmax(0, out->n - margin);
    out->n_high = out->n + margin;
}

static void result(const struct layer *layer, const void *sums, struct census *out)
{
    const struct bloom bloom = bloom_of(layer);
    const struct bloom_census *c = sums;
    uint64_t clear = 0;
    memset(out, 0, sizeof *out);
    out->line_min = B;
    for (unsigned x = 0; x <= B; x++) {
        if (c->lines_with[x] == 0)
            continue;
        clear += c->lines_with[x] * (B - x);
        out->lines += c->lines_with[x];
        out->line_max = x;
        if (x < out->line_min)
            out->line_min = x;
    }
    double lines = (double)out->lines;
    out->lines_full = c->lines_with[B];
    out->bits = (uint64_t)lines * B;
    out->bits_set = 1 - (double)clear / (lines * B);
    out->fpr = fpr_of(&bloom, c, lines);
    count_by_lines(&bloom, c, out);
    out->n_at_least = (double)clear <= BLOOM_CLEAR_BITS * lines;
    if (out->n_at_least) {
        out->n = out->n_low;
        out->n_high = HUGE_VAL;
    }
}

static bool alike(const struct layer *a, const struct layer *b)
{
    struct bloom x = bloom_of(a), y = bloom_of(b);
    return x.k == y.k && x.lines == y.lines;
}

static void resize(struct layer *layer, uint64_t pages)
{
    struct bloom bloom = bloom_of(layer);
    bloom.pages = pages;
    bloom_to(&bloom, layer);
}

static double keys(const struct layer *layer, const void *sums)
{
    struct census c;
    result(layer, sums, &c);
    return c.n_at_least ? NAN : c.n;
}

/* For a line with t B bits thrown into it, the variance in throws is B (e^t - 1 - t). The number of
 * keys of a line is Poisson, with the mean n / lines, or twice that if a key has two lines. For it,
 * the mean of e^(s keys) is e^(mean (e^s - 1)). */
static double variance(const struct layer *layer, double n)
{
    struct bloom bloom = bloom_of(layer);
    unsigned probes = bloom.k / bloom.lines;
    double lines = PAGE_LINES * (double)bloom.pages;
    double of_line = n * bloom.lines / lines, s = (double)probes / B;
    return lines * B * (expm1(of_line * expm1(s)) - of_line * s) / bloom.k / bloom.k;
}

_Static_assert(sizeof(struct bloom_census) <= TABLE_SUMS * sizeof(uint64_t), "TABLE_SUMS");

const struct table bloom_table = {
    .unit = BLOOM_PAGE,
    .alike = alike,
    .resize = resize,
    .tally = tally,
    .add = add,
    .result = result,
    .keys = keys,
    .variance = variance,
};
