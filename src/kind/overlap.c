/* SPDX-License-Identifier: MIT */
#include "kind/overlap.h"

#include <math.h>

/* With fewer free cells than this, their number is not normally distributed. */
enum { FEWEST_FREE = 16 };

/* e^t - 1 - t for t >= 0, without loss of digits where t is small. */
static double exp_above_line(double t)
{
    if (t > 0.1)
        return expm1(t) - t;
    double sum = 1;
    for (int i = 12; i >= 3; i--)
        sum = 1 + sum * t / i;
    return t * t / 2 * sum;
}

double overlap_keys(double cells, unsigned k, double occupied)
{
    return cells - occupied < FEWEST_FREE ? NAN : -cells / k * log1p(-occupied / cells);
}

double overlap_variance(double cells, unsigned k, double n)
{
    return cells * exp_above_line(k * n / cells) / k / k;
}

/* The 95 % interval of the mean E of a number of free cells whose variance is E + spread E^2: the
 * means from which `clear` is CENSUS_Z95 deviations away (as in Wilson's score interval, 1927):
 * (clear - E)^2 = z2 (E + spread E^2). */
static void clear_interval(double clear, double spread, double *low, double *high)
{
    double z2 = CENSUS_Z95 * CENSUS_Z95, a = 1 - z2 * spread, b = clear + z2 / 2;
    double root = sqrt(fmax(0, b * b - a * clear * clear));
    *high = (b + root) / a;
    *low = clear * clear / (b + root);
}

/* With fewer free cells than this, there is no upper bound for the number of keys: below 5, the
 * interval's upper end would fail up to 9 % of the time. */
enum { FEWEST_CLEAR = 5 };

/* After n keys, the number of free cells has the mean cells q, q = e^(-kn/cells), and the variance
 * cells q (1 - (1 + kn/cells) q), like the number of empty cells (Feller, Introduction to
 * Probability I, II.11). Where few cells are occupied, that variance may be less than 1, and
 * clear_interval would be too wide. */
void overlap_census(double cells, unsigned k, double occupied, struct census *out)
{
    double clear = cells - occupied, least = ceil(occupied / k), fewest, most;
    if (clear > cells / 2) {
        double n = -cells / k * log1p(-occupied / cells);
        double margin = CENSUS_Z95 * sqrt(overlap_variance(cells, k, n));
        out->n = fmax(least, n);
        out->n_low = fmax(least, out->n - margin);
        out->n_high = out->n + margin;
        return;
    }
    double load = log(cells / fmax(clear, 1));
    clear_interval(clear, -(1 + load) / cells, &fewest, &most);
    out->n_at_least = clear < FEWEST_CLEAR;
    out->n_low = fmax(least, cells / k * log(cells / most));
    out->n = out->n_at_least ? out->n_low : fmax(least, cells / k * load);
    out->n_high = out->n_at_least ? INFINITY : fmax(least, cells / k * log(cells / fewest));
}

bool overlap_cells(double cells, unsigned k, const double occupied[3], struct pair_census *out)
{
    double n[4], variance[4];
    for (unsigned i = 0; i < 3; i++)
        n[i] = overlap_keys(cells, k, occupied[i]);
    n[3] = fmax(0, n[0] + n[1] - n[2]);
    for (unsigned i = 0; i < 4; i++)
        variance[i] = overlap_variance(cells, k, n[i]);
    *out =
        (struct pair_census){n[0], n[1], n[2], variance[0], variance[1], variance[2], variance[3]};
    return !isnan(n[2]);
}

static struct figure exact(double value)
{
    return (struct figure){value, value, value};
}

void overlap_exact(uint64_t a, uint64_t b, uint64_t both, struct overlap *out)
{
    *out = (struct overlap){exact((double)a), exact((double)b),
                            exact((double)(a - both) + (double)b), exact((double)both)};
}

/* The distance d from an estimate to an end of its interval. The variance changes by `slope` where
 * the true value is greater, or at the lower end less, by 1. The interval has the true values from
 * which the estimate is at most CENSUS_Z95 deviations away, with the deviation that belongs to the
 * true value, after a correction by half a key: (d - half)^2 = z^2 (variance + slope d). */
static double distance(double variance, double slope)
{
    double z2 = CENSUS_Z95 * CENSUS_Z95, half = 0.5, middle = half + z2 * slope / 2;
    double root = middle * middle - half * half + z2 * variance;
    return fmax(0, middle + sqrt(fmax(0, root)));
}

/* Numbers of keys are whole. So the interval of the normal distribution is made wider by half a key
 * on either side (the continuity correction), and its ends are then moved inwards to whole numbers.
 */
static struct figure number(double value, double variance, double slope)
{
    double low = fmax(0, ceil(value - distance(variance, -slope)));
    double high = fmax(low, floor(value + distance(variance, slope)));
    return (struct figure){fmin(fmax(round(value), low), high), low, high};
}

/* By how much V(n) grows with n. It is n^2 times a function that grows slowly. */
static double growth(double variance, double n)
{
    return n > 0 ? 2 * variance / n : 0;
}

void overlap_estimate(const struct pair_census *p, struct overlap *out)
{
    double both = p->a + p->b - p->any, more_any = growth(p->var_any, p->any);
    double variance = fmax(0, p->var_any - p->var_a - p->var_b + 2 * p->var_both);
    out->a = number(p->a, p->var_a, growth(p->var_a, p->a));
    out->b = number(p->b, p->var_b, growth(p->var_b, p->b));
    out->any = number(p->any, p->var_any, more_any);
    /* With A and B fixed, U = A + B - D falls where D rises. */
    out->both = number(both, variance, 2 * growth(p->var_both, both) - more_any);
}

bool overlap_fingerprints(uint64_t a, uint64_t b, uint64_t both, unsigned bits, struct overlap *out)
{
    struct pair_census p;
    double found[3] = {(double)a, (double)b, (double)(a - both) + (double)b};
    if (!overlap_cells(ldexp(1, (int)bits), 1, found, &p))
        return false;
    overlap_estimate(&p, out);
    return true;
}
