#include "kind/overlap.h"

#include <math.h>

/* With fewer free cells than this, their number is not normally distributed. */
enum { FEWEST_FREE = 16 };

/* Up to this variance, the distribution of a number of cells is computed in TERMS terms; above, it
 * is close to normal. */
enum { FEW = 100, TERMS = 256 };

static const double LEVEL = 0.95;

/* Terms of a sum of probabilities below this are left out: together they are below 1e-13. */
static const double NOTHING = 1e-18;

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
    *out = (struct pair_census){n[0],        n[1],        n[2],
                                variance[0], variance[1], variance[2],
                                variance[3], k,           {occupied[0], occupied[1], occupied[2]}};
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

/* `value` is the estimate of part / of. With variance 0 it is exact. Otherwise, if the ends of
 * `part` are whole numbers, the result's interval contains every ratio of a number in the interval
 * of `part` to one in the interval of `of`. */
static struct figure ratio(double value, double variance, const struct figure *part,
                           const struct figure *of, const struct margins *part_margins,
                           const struct margins *of_margins)
{
    if (!(of->value > 0))
        return exact(NAN);
    double sd = sqrt(variance) / of->value;
    double low = value - fmax(CENSUS_Z95, fmax(part_margins->below, of_margins->above)) * sd;
    double high = value + fmax(CENSUS_Z95, fmax(part_margins->above, of_margins->below)) * sd;
    if (part_margins->whole && variance > 0) {
        low = fmin(low, part->low / of->high);
        high = fmax(high, part->high / of->low);
    }
    return (struct figure){clamp(value, 0, 1), clamp(low, 0, 1), clamp(high, 0, 1)};
}

static double variance_of_both(const struct pair_census *p)
{
    return fmax(0, p->var_any - p->var_a - p->var_b + 2 * p->var_both);
}

/* A difference of variances of about `size`, or 0 if only rounding makes it differ from 0. */
static double clear_of_rounding(double variance, double size)
{
    return variance > 1e-9 * size ? variance : 0;
}

struct all_margins {
    struct margins a, b, any, both;
};

/* `any` is the best estimate of the union. p->any differs: it equals p->a + p->b - both. */
static void estimate(const struct pair_census *p, double any, const struct all_margins *m,
                     struct overlap *out)
{
    double both = p->a + p->b - p->any, var = variance_of_both(p);
    out->a = number(p->a, sqrt(p->var_a), &m->a);
    out->b = number(p->b, sqrt(p->var_b), &m->b);
    out->any = number(any, sqrt(p->var_any), &m->any);
    out->both = number(both, sqrt(var), &m->both);
    double j = both / p->any, in_b = both / p->a, in_a = both / p->b;
    double var_j = var + j * j * p->var_any - 2 * j * (p->var_a + p->var_b - p->var_any);
    double var_b = var + in_b * in_b * p->var_a - 2 * in_b * p->var_both;
    double var_a = var + in_a * in_a * p->var_b - 2 * in_a * p->var_both;
    out->jaccard =
        ratio(j, clear_of_rounding(var_j, p->var_any), &out->both, &out->any, &m->both, &m->any);
    out->a_in_b =
        ratio(in_b, clear_of_rounding(var_b, p->var_any), &out->both, &out->a, &m->both, &m->a);
    out->b_in_a =
        ratio(in_a, clear_of_rounding(var_a, p->var_any), &out->both, &out->b, &m->both, &m->b);
}

/* A distribution of whole numbers: first + i has probability chance[i]. */
struct law {
    double first, chance[2 * TERMS];
};

/* A Poisson number of groups, each of a Poisson size with mean c: the distribution of the total
 * size. (J. Neyman, 1939: type A.) Its mean is variance / (1 + c). With c = 0, it is a Poisson
 * distribution. */
static void grouped(double variance, double c, double chance[TERMS])
{
    double mean = variance / (1 + c), none = c > 0 ? -expm1(-c) / c : 1;
    chance[0] = exp(-mean * none);
    for (int i = 1; i < TERMS; i++) {
        double sum = 0, weight = exp(-c);
        for (int j = 0; j < i && (j < c || weight > NOTHING); weight *= c / ++j)
            sum += weight * chance[i - 1 - j];
        chance[i] = mean / i * sum;
    }
}

/* The distribution of the difference of two such numbers, with variances `variance` and `less`. */
static void difference(double variance, double less, double c, struct law *law)
{
    double plus[TERMS], minus[TERMS];
    grouped(variance, c, plus);
    grouped(less, c, minus);
    *law = (struct law){.first = -TERMS};
    for (int i = 0; i < TERMS; i++)
        for (int j = 0; j < TERMS && plus[i] > NOTHING && (j == 0 || less > 0); j++)
            law->chance[TERMS + i - j] += plus[i] * minus[j];
}

/* `found` cells were counted, and each key has k cells. Converts the distribution of the number of
 * missing cells to that of the number of keys: found + missing must be a multiple of k. Returns the
 * total probability of these multiples. */
static double law_of_keys(struct law *law, double found, unsigned k)
{
    double keys = ceil((found + law->first) / k), sum = 0;
    double next = keys * k - (found + law->first);
    law->first = keys;
    for (unsigned i = 0; i < 2 * TERMS; i++, next += k) {
        law->chance[i] = next < 2 * TERMS ? law->chance[(unsigned)next] : 0;
        sum += law->chance[i];
    }
    return sum;
}

/* The shortest interval with a probability of at least LEVEL * all. */
static void shortest(const struct law *law, double all, double *low, double *high)
{
    unsigned first = 0, end;
    for (unsigned i = 1; i < 2 * TERMS; i++)
        if (law->chance[i] > law->chance[first])
            first = i;
    end = first + 1;
    double sum = law->chance[first];
    while (sum < LEVEL * all) {
        double below = first > 0 ? law->chance[first - 1] : 0;
        double above = end < 2 * TERMS ? law->chance[end] : 0;
        if (below == 0 && above == 0)
            break;
        sum += fmax(below, above);
        if (above >= below)
            end++;
        else
            first--;
    }
    *low = law->first + first;
    *high = law->first + end - 1;
}

/* Below this total probability, the distribution does not fit the counted cells: the keys are not
 * random. */
static const double LEAST_CHANCE = 1e-9;

/* Keys that share a line of a Bloom filter share several cells. Returns the average group size,
 * from the excess of the variance over the number of missing cells. */
static double group_mean(const struct pair_census *p)
{
    double missing = p->k * p->any - p->occupied[2];
    return missing > 0 ? fmax(0, (double)p->k * p->k * p->var_any / missing - 1) : 0;
}

/* `found` cells were counted. Cells shared by several keys make this number too small; cells
 * occupied by chance make it too large. The two errors have the variances `more` and `less` in
 * keys, k^2 times that in cells, with the distribution of grouped(). Returns the estimate; it is a
 * whole number if the distribution is computed. */
static double whole(const struct pair_census *p, double found, double estimate, double more,
                    double less, struct margins *m)
{
    struct law law;
    double low, high, square = (double)p->k * p->k;
    *m = NORMAL;
    if (square * fmax(more, less) > FEW || !(more + less > 0))
        return estimate;
    difference(square * more, square * less, group_mean(p), &law);
    double all = law_of_keys(&law, found, p->k);
    if (all < LEAST_CHANCE)
        return estimate;
    shortest(&law, all, &low, &high);
    double sd = sqrt(more + less), value = clamp(round(estimate), low, high);
    m->below = (value - low) / sd;
    m->above = (high - value) / sd;
    m->whole = true;
    return value;
}

void overlap_estimate(const struct pair_census *pair, struct overlap *out)
{
    struct pair_census p = *pair;
    struct all_margins m;
    /* Cells occupied in both tables belong to keys in both, or by chance to a key in a only and a
     * key in b only. The variance due to the latter is `chance`. */
    double both = p.a + p.b - p.any, chance = fmax(0, variance_of_both(&p) - p.var_both);
    double shared = p.occupied[0] + p.occupied[1] - p.occupied[2];
    double any = whole(pair, p.occupied[2], p.any, p.var_any, 0, &m.any);
    p.a = whole(pair, p.occupied[0], p.a, p.var_a, 0, &m.a);
    p.b = whole(pair, p.occupied[1], p.b, p.var_b, 0, &m.b);
    p.any = p.a + p.b - whole(pair, shared, both, p.var_both, chance, &m.both);
    estimate(&p, any, &m, out);
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
