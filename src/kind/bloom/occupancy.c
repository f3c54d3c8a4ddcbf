#include "kind/bloom/occupancy.h"

#include <math.h>
#include <string.h>

enum {
    B = 8 * BLOOM_LINE, /* bits of a line */
    /* Numbers of set bits are taken together until so many lines are expected to have one of them,
     * as is customary with chi-square: fewer follow no normal law. */
    LEAST_EXPECTED = 5,
};

/* J is taken to lie so many deviations around its mean, and some. Beyond that are less than 1e-20
 * of all lines. */
static const double SPREAD = 10, SPREAD_MORE = 40;

/* law[x]: the chance that a line has x set bits. `before` is that after each number of keys. */
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
        /* The last group has all the rest. */
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
    /* The number of lines and the mean are taken from the data. */
    out->freedom = groups > 2 ? groups - 2 : 0;
}

void bloom_occupancy(const struct bloom *bloom, const struct bloom_census *c,
                     struct occupancy *out)
{
    struct census census;
    double law[B + 1], tail = 0;
    *out = (struct occupancy){.fullest = 1};
    bloom_census_result(bloom, c, &census);
    double lines = (double)census.lines, mean = census.n * bloom->lines / lines;
    /* Of a filter that is as good as full, bits tell too little. */
    if (census.n <= 0 || (1 - census.bits_set) * B <= BLOOM_CLEAR_BITS)
        return;
    line_law(bloom->k / bloom->lines, mean, law);
    compare(c, law, lines, out);
    for (unsigned x = B + 1; x-- > census.line_max;)
        tail += law[x];
    out->fullest = -expm1(lines * log1p(-fmin(tail, 0.5)));
}
