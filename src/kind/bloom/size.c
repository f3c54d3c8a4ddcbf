/* SPDX-License-Identifier: MIT */
#include "kind/bloom/bloom.h"

#include <math.h>
#include <string.h>

#include "base/exact.h"

enum {
    B = 8 * BLOOM_LINE,                   /* bits of a line */
    PAGE_LINES = BLOOM_PAGE / BLOOM_LINE, /* lines of a page */
    PAGE_PAIR_ODDS = PAGE_LINES / 2,      /* a key with two lines uses a given one: 1 in 32 */
    PAGE_BITS = 8 * BLOOM_PAGE,
};

/* For p of at least this, a key has one line. For smaller p, a second line saves more than it
 * costs. (One line takes 8 % more bits than a classic filter at 1e-3 and 35 % more at 1e-6; two
 * lines take 2 % and 8 % more.) The first layer of a filter for p = 1e-3 has 0.9 of it, and still
 * one line. */
static const double ONE_LINE_FPR = 0.89e-3;

/* Terms below this part of a sum are left out: 9 sigma of a normal distribution. */
static const double NEGLIGIBLE = 0x1p-57;

/* The probability that k probes of a line hit only set bits after j keys have thrown k bits each
 * into it: E[(X/B)^k]. X is the number of bits set by t = jk throws; its mean and variance are
 * known exactly. Computed by three-point Gauss-Hermite quadrature, within 0.01 % of the exact
 * occupancy distribution for the loads that sizing meets. */
static double line_fpr_of(double j, unsigned k)
{
    double t = j * k;
    double q1 = exact_power(1 - 1.0 / B, t), q2 = exact_power(1 - 2.0 / B, t);
    double mean = 1 - q1;
    double var = (q1 + (B - 1) * q2 - B * q1 * q1) / B;
    double s = var > 0 ? sqrt(3 * var) : 0;
    double low = mean - s > 0 ? mean - s : 0;
    double high = mean + s < 1 ? mean + s : 1;
    return 2.0 / 3 * exact_power(mean, k) + 1.0 / 6 * (exact_power(low, k) + exact_power(high, k));
}

/* The same for a whole number j. Caches results for one k: sums over j repeat the same calls. */
static double line_fpr(double j, unsigned k)
{
    enum { KEPT = 512 };
    static _Thread_local struct {
        unsigned k;
        bool known[KEPT];
        double fpr[KEPT];
    } kept;
    if (j >= KEPT)
        return line_fpr_of(j, k);
    size_t i = (size_t)j;
    if (kept.k != k) {
        memset(kept.known, 0, sizeof kept.known);
        kept.k = k;
    }
    if (!kept.known[i]) {
        kept.fpr[i] = line_fpr_of(j, k);
        kept.known[i] = true;
    }
    return kept.fpr[i];
}

/* The distribution of a number of keys: Poisson, or binomial; `trials` need not be an integer. */
struct law {
    double mean;
    double trials; /* each with probability mean / trials; 0: Poisson */
};

/* P(i + 1) / P(i) */
static double law_step(const struct law *law, double i)
{
    if (law->trials == 0)
        return law->mean / (i + 1);
    double left = law->trials - i;
    return left > 0 ? left / (i + 1) * (law->mean / (law->trials - law->mean)) : 0;
}

/* E[f(i)] for i of that distribution; f rises from f(0) >= 0 to at most 1. Computes weights from
 * their ratios, from the mode outwards, and divides by their sum at the end. So no exponential and
 * no gamma function is needed. */
static double law_expect(const struct law *law, double (*f)(double i, unsigned k), unsigned k)
{
    double mode = floor(law->mean);
    double weight = 1, weights = 0, sum = 0;
    for (double i = mode;; i++) {
        weights += weight;
        sum += weight * f(i, k);
        weight *= law_step(law, i);
        if (weight <= NEGLIGIBLE * sum)
            break;
    }
    weight = 1;
    for (double i = mode - 1; i >= 0; i--) {
        weight /= law_step(law, i);
        weights += weight;
        sum += weight * f(i, k);
        if (weight < NEGLIGIBLE * weights)
            break;
    }
    return sum / weights;
}

/* G = 2: the FPR in a page of j keys. Each of the two lines gets k/2 probes; their loads are nearly
 * independent given j. */
static double page_fpr(double j, unsigned k)
{
    if (j <= 0)
        return 0;
    struct law line = {j / PAGE_PAIR_ODDS, j};
    double one = law_expect(&line, line_fpr, k / 2);
    return one * one;
}

/* The FPR over pages whose number of keys is Poisson. Above 100 keys, the square of a line's FPR is
 * smooth enough for a quadrature with three points. */
static double pages_fpr(double mean, unsigned k)
{
    if (mean < 100) {
        struct law page = {mean, 0};
        return law_expect(&page, page_fpr, k);
    }
    double s = sqrt(3 * mean);
    return 2.0 / 3 * page_fpr(mean, k) + 1.0 / 6 * (page_fpr(mean - s, k) + page_fpr(mean + s, k));
}

double bloom_fpr(const struct bloom *bloom, double n)
{
    if (!(n > 0))
        return 0;
    double page_keys = n / (double)bloom->pages;
    /* More than 60 throws per bit leave a fraction of less than e^-60 of the bits clear, which is
     * below the precision of a double. */
    if (page_keys * bloom->k > 60.0 * PAGE_BITS)
        return 1;
    if (bloom->lines == 2)
        return pages_fpr(page_keys, bloom->k);
    struct law line = {page_keys / PAGE_LINES, 0};
    return law_expect(&line, line_fpr, bloom->k);
}

/* A whole number of at most log2(1/p), the least bits per key of any filter design. */
static double floor_bits(double p)
{
    int e;
    frexp(p, &e);
    return -e;
}

static unsigned lines_for(double p)
{
    return p >= ONE_LINE_FPR ? 1 : 2;
}

/* The smallest number of pages in [low, high] with FPR at most p; `high` satisfies this. */
static uint64_t fewest_pages(struct bloom bloom, uint64_t n, double p, uint64_t low, uint64_t high)
{
    while (low < high) {
        bloom.pages = low + (high - low) / 2;
        if (bloom_fpr(&bloom, (double)n) <= p)
            high = bloom.pages;
        else
            low = bloom.pages + 1;
    }
    return low;
}

bool bloom_size(uint64_t n, double p, struct bloom *out)
{
    double floor_pages = (double)n * floor_bits(p) / PAGE_BITS;
    uint64_t low = floor_pages > 1 ? (uint64_t)floor_pages : 1;

    struct bloom best = {0, 0, lines_for(p)};
    for (unsigned k = best.lines; k <= BLOOM_MAX_K; k += best.lines) {
        /* Is this k better than the previous ones? */
        struct bloom bloom = {best.pages ? best.pages - 1 : BLOOM_MAX_PAGES, k, best.lines};
        if (bloom.pages < low || bloom_fpr(&bloom, (double)n) > p)
            continue;
        best.pages = fewest_pages(bloom, n, p, low, bloom.pages);
        best.k = k;
    }
    *out = best;
    return best.pages > 0;
}

static struct bloom best_k(uint64_t n, uint64_t pages, unsigned lines, double *fpr)
{
    struct bloom best = {pages, lines, lines};
    *fpr = bloom_fpr(&best, (double)n);
    for (unsigned k = 2 * lines; k <= BLOOM_MAX_K; k += lines) {
        struct bloom bloom = {pages, k, lines};
        double p = bloom_fpr(&bloom, (double)n);
        if (p < *fpr) {
            *fpr = p;
            best = bloom;
        }
    }
    return best;
}

void bloom_best(uint64_t n, uint64_t pages, struct bloom *out)
{
    double fpr;
    *out = best_k(n, pages, 2, &fpr);
    if (lines_for(fpr) == 1)
        *out = best_k(n, pages, 1, &fpr);
}

/* The largest n in [low, high] with FPR at most p; `low` satisfies this. */
static uint64_t most_keys(const struct bloom *bloom, double p, uint64_t low, uint64_t high)
{
    while (low < high) {
        uint64_t n = high - (high - low) / 2;
        if (bloom_fpr(bloom, (double)n) <= p)
            low = n;
        else
            high = n - 1;
    }
    return low;
}

uint64_t bloom_capacity(uint64_t pages, double p, struct bloom *out)
{
    unsigned lines = lines_for(p);
    double most = floor_bits(p) > 0 ? PAGE_BITS * (double)pages / floor_bits(p) : HUGE_VAL;
    uint64_t best = 0;
    for (unsigned k = lines; k <= BLOOM_MAX_K; k += lines) {
        struct bloom bloom = {pages, k, lines};
        if (bloom_fpr(&bloom, (double)best + 1) > p)
            continue;
        /* As many keys set every bit, within the precision of a double. */
        double full = 60.0 * PAGE_BITS * (double)pages / k;
        best = most_keys(&bloom, p, best + 1, (uint64_t)fmin(most, full));
        *out = bloom;
    }
    return best;
}
