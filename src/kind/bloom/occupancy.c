#include "kind/bloom/occupancy.h"

#include <math.h>
#include <string.h>

enum {
    B = 8 * BLOOM_LINE, /* bits of a line */
    /* Adjacent numbers of set bits form a group with at least this many expected lines, as usual
     * for chi-square tests: counts of smaller groups are not normally distributed. */
    LEAST_EXPECTED = 5,
};

/* J is assumed to lie at most SPREAD deviations plus SPREAD_MORE above its mean. Less than 1e-20 of
 * all lines are beyond. */
static const double SPREAD = 10, SPREAD_MORE = 40;

/* Sets law[x] to the probability that a line has x set bits. `before` is the same for a line with
 * exactly j keys. */
static void line_law(unsigned probes, double mean, double law[B + 1])
{
    double before[B + 1] = {1}, spread = SPREAD * sqrt(mean) + SPREAD_MORE;
    unsigned last = (unsigned)(mean + spread);
    memset(law, 0, (B + 1) * sizeof *law);
    for (unsigned j = 0;; j++) {
        int sign;
        double weight = exp(j * log(mean) - mean - lgamma_r(j + 1.0, &sign));
        for (unsigned x = 0; x <= B; x++)
            law[x] += weight * before[x];
        if (j == last)
            return;
        for (unsigned p = 0; p < probes; p++) {
            for (unsigned x = B; x > 0; x--)
                before[x] = (before[x] * x + before[x - 1] * (B - x + 1)) / B;
            before[0] = 0;
        }
    }
}

static void compare(const struct bloom_census *c, const double law[B + 1], double lines,
                    struct occupancy *out)
{
    double expected = 0, found = 0, left = 1;
    unsigned groups = 0;
    for (unsigned x = 0; x <= B; x++) {
        expected += lines * law[x];
        found += (double)c->lines_with[x];
        left -= law[x];
        /* The last group takes all the rest. */
        if (expected < LEAST_EXPECTED || lines * left < LEAST_EXPECTED)
            continue;
        out->chi2 += (found - expected) * (found - expected) / expected;
        groups++;
        expected = found = 0;
    }
    if (expected > 0) {
        out->chi2 += (found - expected) * (found - expected) / expected;
        groups++;
    }
    /* Two degrees less: the number of lines and the mean are taken from the data. */
    out->freedom = groups > 2 ? groups - 2 : 0;
}

void bloom_occupancy(const struct bloom *bloom, const struct bloom_census *c, struct occupancy *out)
{
    struct census census;
    double law[B + 1], tail = 0;
    *out = (struct occupancy){.fullest = 1};
    bloom_census_result(bloom, c, &census);
    double lines = (double)census.lines, mean = census.n * bloom->lines / lines;
    /* The bits of an almost full filter carry too little information. */
    if (census.n <= 0 || (1 - census.bits_set) * B <= BLOOM_CLEAR_BITS)
        return;
    line_law(bloom->k / bloom->lines, mean, law);
    compare(c, law, lines, out);
    for (unsigned x = B + 1; x-- > census.line_max;)
        tail += law[x];
    out->fullest = -expm1(lines * log1p(-fmin(tail, 0.5)));
}
