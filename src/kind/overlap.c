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

bool overlap_cells(double cells, unsigned k, const double occupied[3], struct pair_census *out)
{
    double n[3], variance[4];
    if (cells - occupied[2] < FEWEST_FREE)
        return false;
    for (unsigned i = 0; i < 4; i++) {
        double keys =
            i < 3 ? n[i] = -cells / k * log1p(-occupied[i] / cells) : fmax(0, n[0] + n[1] - n[2]);
        variance[i] = cells * exp_above_line(k * keys / cells) / k / k;
    }
    *out = (struct pair_census){n[0],
                                n[1],
                                n[2],
                                variance[0],
                                variance[1],
                                variance[2],
                                variance[3],
                                pow(occupied[0] / cells, k),
                                pow(occupied[1] / cells, k)};
    return true;
}

static struct figure exact(double value)
{
    return (struct figure){value, value, value};
}

void overlap_exact(uint64_t a, uint64_t b, uint64_t both, struct overlap *out)
{
    double any = (double)(a - both) + (double)b;
    *out = (struct overlap){exact((double)a),
                            exact((double)b),
                            exact(any),
                            exact((double)both),
                            exact((double)both / any),
                            exact((double)both / (double)a),
                            exact((double)both / (double)b)};
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* Numbers of keys are whole, and with few keys so are their errors. Half a key more on either side
 * (the continuity correction) makes the normal distribution's interval hold for them, too. Its ends
 * are then moved inwards to whole numbers. */
static struct figure number(double value, double variance)
{
    double margin = CENSUS_Z95 * sqrt(variance) + 0.5;
    double low = fmax(0, ceil(value - margin)), high = fmax(low, floor(value + margin));
    return (struct figure){clamp(round(value), low, high), low, high};
}

/* Half a key of a number that is not certain. */
static double half_key(const struct figure *n)
{
    return n->low < n->high ? 0.5 : 0;
}

/* A difference of variances of about `size`, or 0 if only rounding makes it differ from 0. */
static double clear_of_rounding(double variance, double size)
{
    return variance > 1e-9 * size ? variance : 0;
}

/* The largest number of keys of one set alone of which, with a probability of 5 %, the other set
 * reports every one present: they leave no trace. `fpr` is the other set's. */
static double hidden(double fpr)
{
    return fpr > 0 ? floor(log(0.05) / log(fpr)) : 0;
}

/* The ratio part / of, estimated as `value`; n is the estimate of `of`, and the variance that of
 * value * n. With variance 0 and no keys hidden, the ratio is exact. */
static struct figure ratio(double value, double variance, const struct figure *part,
                           const struct figure *of, double n, double fpr)
{
    if (!(of->value > 0))
        return exact(NAN);
    double margin = 0;
    if (variance > 0)
        margin = CENSUS_Z95 * sqrt(variance) + half_key(part) + value * half_key(of);
    double below = fmax(margin, hidden(fpr));
    return (struct figure){clamp(value, 0, 1), clamp(value - below / n, 0, 1),
                           clamp(value + margin / n, 0, 1)};
}

void overlap_estimate(const struct pair_census *p, struct overlap *out)
{
    double both = p->a + p->b - p->any;
    double var = fmax(0, p->var_any - p->var_a - p->var_b + 2 * p->var_both);
    double j = both / p->any, in_b = both / p->a, in_a = both / p->b;
    double var_j = var + j * j * p->var_any - 2 * j * (p->var_a + p->var_b - p->var_any);
    double var_b = var + in_b * in_b * p->var_a - 2 * in_b * p->var_both;
    double var_a = var + in_a * in_a * p->var_b - 2 * in_a * p->var_both;
    out->a = number(p->a, p->var_a);
    out->b = number(p->b, p->var_b);
    out->any = number(p->any, p->var_any);
    out->both = number(both, var);
    out->jaccard = ratio(j, clear_of_rounding(var_j, p->var_any), &out->both, &out->any, p->any,
                         fmax(p->fpr_a, p->fpr_b));
    out->a_in_b =
        ratio(in_b, clear_of_rounding(var_b, p->var_any), &out->both, &out->a, p->a, p->fpr_b);
    out->b_in_a =
        ratio(in_a, clear_of_rounding(var_a, p->var_any), &out->both, &out->b, p->b, p->fpr_a);
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
