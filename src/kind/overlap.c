#include "kind/overlap.h"

#include <math.h>

/* With fewer free cells than this, their number has no normal law. */
enum { FEWEST_FREE = 16 };

/* Up to such a mean, the law of a Poisson number is summed; then it is close to a normal one. */
enum { POISSON_MEAN = 100, POISSON_TERMS = 256 };

static const double LEVEL = 0.95;

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
        double keys = i < 3 ? n[i] = -cells / k * log1p(-occupied[i] / cells)
                            : fmax(0, n[0] + n[1] - n[2]);
        variance[i] = cells * exp_above_line(k * keys / cells) / k / k;
    }
    *out = (struct pair_census){n[0],        n[1],        n[2],       variance[0],
                                variance[1], variance[2], variance[3]};
    return true;
}

static struct figure exact(double value)
{
    return (struct figure){value, value, value};
}

void overlap_exact(uint64_t a, uint64_t b, uint64_t both, struct overlap *out)
{
    double any = (double)(a - both) + (double)b;
    *out = (struct overlap){exact((double)a),         exact((double)b),
                            exact(any),               exact((double)both),
                            exact((double)both / any), exact((double)both / (double)a),
                            exact((double)both / (double)b)};
}

/* An interval: value - below * sd to value + above * sd. `whole`: its ends are whole numbers. */
struct margins {
    double below, above;
    bool whole;
};

static const struct margins NORMAL = {CENSUS_Z95, CENSUS_Z95, false};

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static struct figure number(double value, double sd, const struct margins *m)
{
    value = fmax(0, value);
    return (struct figure){value, fmax(0, value - m->below * sd), value + m->above * sd};
}

/* Holds the ratios for both ends of `part`, too, if these are whole numbers. */
static struct figure ratio(const struct figure *part, double whole, double variance,
                           const struct margins *of_part, const struct margins *of_whole)
{
    if (!(whole > 0))
        return exact(NAN);
    double value = part->value / whole, sd = sqrt(fmax(0, variance)) / whole;
    double low = value - fmax(CENSUS_Z95, fmax(of_part->below, of_whole->above)) * sd;
    double high = value + fmax(CENSUS_Z95, fmax(of_part->above, of_whole->below)) * sd;
    if (of_part->whole) {
        low = fmin(low, part->low / whole);
        high = fmax(high, part->high / whole);
    }
    return (struct figure){clamp(value, 0, 1), clamp(low, 0, 1), clamp(high, 0, 1)};
}

static double variance_of_both(const struct pair_census *p)
{
    return fmax(0, p->var_any - p->var_a - p->var_b + 2 * p->var_both);
}

struct all_margins {
    struct margins a, b, any, both;
};

static void estimate(const struct pair_census *p, const struct all_margins *m, struct overlap *out)
{
    double both = p->a + p->b - p->any, var = variance_of_both(p);
    out->a = number(p->a, sqrt(p->var_a), &m->a);
    out->b = number(p->b, sqrt(p->var_b), &m->b);
    out->any = number(p->any, sqrt(p->var_any), &m->any);
    out->both = number(both, sqrt(var), &m->both);
    double j = both / p->any, in_b = both / p->a, in_a = both / p->b;
    out->jaccard = ratio(&out->both, p->any,
                         var + j * j * p->var_any - 2 * j * (p->var_a + p->var_b - p->var_any),
                         &m->both, &m->any);
    out->a_in_b = ratio(&out->both, p->a, var + in_b * in_b * p->var_a - 2 * in_b * p->var_both,
                        &m->both, &m->a);
    out->b_in_a = ratio(&out->both, p->b, var + in_a * in_a * p->var_b - 2 * in_a * p->var_both,
                        &m->both, &m->b);
}

void overlap_estimate(const struct pair_census *pair, struct overlap *out)
{
    struct all_margins m = {NORMAL, NORMAL, NORMAL, NORMAL};
    estimate(pair, &m, out);
}

/* A law of whole numbers: chance[i] that of i - POISSON_TERMS. */
struct law {
    double chance[2 * POISSON_TERMS];
};

static void poisson(double mean, double chance[POISSON_TERMS])
{
    chance[0] = exp(-mean);
    for (int i = 1; i < POISSON_TERMS; i++)
        chance[i] = chance[i - 1] * mean / i;
}

/* A Poisson number less another. */
static void difference(double mean, double less, struct law *law)
{
    double plus[POISSON_TERMS], minus[POISSON_TERMS];
    poisson(mean, plus);
    poisson(less, minus);
    *law = (struct law){{0}};
    for (int i = 0; i < POISSON_TERMS; i++)
        for (int j = 0; j < POISSON_TERMS && (j == 0 || less > 0); j++)
            law->chance[POISSON_TERMS + i - j] += plus[i] * minus[j];
}

/* The shortest interval that has the number with a chance of LEVEL at least. */
static void shortest(const struct law *law, int *low, int *high)
{
    int first = 0, end;
    for (int i = 1; i < 2 * POISSON_TERMS; i++)
        if (law->chance[i] > law->chance[first])
            first = i;
    end = first + 1;
    double sum = law->chance[first];
    while (sum < LEVEL) {
        double below = first > 0 ? law->chance[first - 1] : 0;
        double above = end < 2 * POISSON_TERMS ? law->chance[end] : 0;
        if (below == 0 && above == 0)
            break;
        sum += fmax(below, above);
        if (above >= below)
            end++;
        else
            first--;
    }
    *low = first - POISSON_TERMS;
    *high = end - 1 - POISSON_TERMS;
}

/* `found` is what was counted, and the number sought is that and a Poisson number of mean `more`,
 * less one of mean `less`. Returns the estimate, in whole numbers where the law is summed. */
static double whole(double found, double estimate, double more, double less, struct margins *m)
{
    struct law law;
    int low, high;
    *m = NORMAL;
    if (more > POISSON_MEAN || less > POISSON_MEAN || !(more + less > 0))
        return estimate;
    difference(more, less, &law);
    shortest(&law, &low, &high);
    double sd = sqrt(more + less), value = clamp(round(estimate), found + low, found + high);
    m->below = (value - (found + low)) / sd;
    m->above = (found + high - value) / sd;
    m->whole = true;
    return value;
}

bool overlap_fingerprints(uint64_t a, uint64_t b, uint64_t both, unsigned bits, struct overlap *out)
{
    struct pair_census p;
    struct all_margins m;
    double found[3] = {(double)a, (double)b, (double)(a - both) + (double)b};
    if (!overlap_cells(ldexp(1, (int)bits), 1, found, &p))
        return false;
    /* Fingerprints in both that have a key of each only, and keys in both that have the fingerprint
     * of another such. */
    double keys = p.a + p.b - p.any, chance = fmax(0, variance_of_both(&p) - p.var_both);
    double any = whole(found[2], p.any, p.var_any, 0, &m.any);
    p.a = whole(found[0], p.a, p.var_a, 0, &m.a);
    p.b = whole(found[1], p.b, p.var_b, 0, &m.b);
    double in_both = whole((double)both, keys, p.var_both, chance, &m.both);
    p.any = p.a + p.b - in_both;
    estimate(&p, &m, out);
    out->any = number(any, sqrt(p.var_any), &m.any);
    return true;
}
