#include "kind/bloom/census.h"

#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "base/mul.h"
#include "kind/bloom/size.h"

enum {
    B = 8 * BLOOM_LINE,                   /* bits of a line */
    PAGE_LINES = BLOOM_PAGE / BLOOM_LINE, /* lines of a page */
    ORDERED_PAIRS = PAGE_LINES * (PAGE_LINES - 1),
    /* Fraction bits of the probability that k/2 probes hit. With 36, the sum over pages, at most
     * 2^42 * 64 * 63 * 2^72, stays below 2^126. The rounding error is negligible beside n / 2^64,
     * the part of the FPR that comes from equal hashes. */
    HIT_BITS = 36,
};

/* 95 % of a normal distribution lie within 1.96 sigma. */
static const double Z95 = 1.959964;

/* A full line does not tell how many keys it holds. Above this share of full lines the estimate is
 * too low. */
static const double FULL_SHARE = 0.01;

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

static void count_portable(const struct bloom *bloom, const uint8_t *data, uint64_t pages,
                           const uint64_t *hit, struct bloom_census *c)
{
    count(bloom, data, pages, hit, c);
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

void bloom_census_add(const struct bloom *bloom, const uint8_t *data, uint64_t pages,
                      struct bloom_census *c)
{
    uint64_t hit[B + 1];
    for (unsigned x = 0; x <= B; x++)
        hit[x] = (uint64_t)(fill_power(x, bloom->k / 2) * (double)((uint64_t)1 << HIT_BITS) + 0.5);
#ifdef __x86_64__
    if (__builtin_cpu_supports("popcnt")) {
        count_popcnt(bloom, data, pages, hit, c);
        return;
    }
#endif
    count_portable(bloom, data, pages, hit, c);
}

void bloom_census_sum(struct bloom_census *to, const struct bloom_census *from)
{
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

/* What x set bits of a line say about the number of throws (bits set by keys, repeats included): an
 * estimate, unbiased to second order, and its variance. With the load t = -ln(1 - x/B), in throws a
 * bit:
 *
 *     throws = B (1 - 1/2B) t - phi(t) / 2,     variance = B phi(t),     phi(t) = e^t - 1 - t */
struct throws {
    double load; /* t */
    double phi;
    double n;
};

static struct throws throws_of(unsigned x)
{
    double clear = x < B ? B - (double)x : 0.5; /* a full line counts as if half a bit were clear */
    struct throws throws;
    throws.load = -exact_log(clear / B);
    throws.phi = B / clear - 1 - throws.load;
    throws.n = (B - 0.5) * throws.load - throws.phi / 2;
    return throws;
}

void bloom_census_result(const struct bloom *bloom, const struct bloom_census *c,
                         struct census *out)
{
    double throws = 0, variance = 0, bits = 0;
    memset(out, 0, sizeof *out);
    out->line_min = B;
    for (unsigned x = 0; x <= B; x++) {
        uint64_t lines = c->lines_with[x];
        if (lines == 0)
            continue;
        struct throws line = throws_of(x);
        throws += (double)lines * line.n;
        variance += (double)lines * B * line.phi;
        bits += (double)lines * x;
        out->lines += lines;
        out->line_max = x;
        if (x < out->line_min)
            out->line_min = x;
    }
    double lines = (double)out->lines, k = bloom->k;
    double margin = Z95 * sqrt(variance) / k;
    out->lines_full = c->lines_with[B];
    out->bits_set = bits / (lines * B);
    out->fpr = fpr_of(bloom, c, lines);
    out->n = throws / k;
    out->n_low = out->n > margin ? out->n - margin : 0;
    out->n_high = out->n + margin;
    out->n_at_least = (double)out->lines_full > FULL_SHARE * lines;
    if (out->n_at_least) {
        out->n = out->n_low;
        out->n_high = HUGE_VAL;
    }
}

/* |A and B| = |A| + |B| - |A or B|; the last comes from the union of the bits. The variance follows
 * by the delta method from the covariances of the three occupancies; with A = B it becomes that of
 * |A|. */
void bloom_intersection(const struct bloom *bloom, const uint8_t *a, const uint8_t *b, double *n,
                        double *sd)
{
    struct throws of[B + 1];
    for (unsigned x = 0; x <= B; x++)
        of[x] = throws_of(x);
    double throws = 0, variance = 0;
    for (uint64_t at = 0; at < bloom->pages * BLOOM_PAGE; at += BLOOM_LINE) {
        uint8_t both[BLOOM_LINE];
        for (unsigned i = 0; i < BLOOM_LINE; i++)
            both[i] = a[at + i] | b[at + i];
        const struct throws *ta = &of[line_bits(a + at)], *tb = &of[line_bits(b + at)],
                            *tu = &of[line_bits(both)];
        throws += ta->n + tb->n - tu->n;
        double shared = ta->load + tb->load - tu->load;
        /* e^shared, from e^load = phi + 1 + load of each */
        double growth =
            (ta->phi + 1 + ta->load) * (tb->phi + 1 + tb->load) / (tu->phi + 1 + tu->load);
        double phi = shared > 0 ? growth - 1 - shared : 0;
        variance += B * (tu->phi - ta->phi - tb->phi + 2 * phi);
    }
    *n = throws / bloom->k;
    *sd = variance > 0 ? sqrt(variance) / bloom->k : 0;
}
