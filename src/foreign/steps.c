/* SPDX-License-Identifier: MIT */
/* How often the positions of a key coincide where they follow from two hashes, or from four. */
#include <math.h>
#include <string.h>

#include "foreign/classic.h"

enum {
    FEW = 10,     /* more distinct positions than this add nothing */
    POINTS = 512, /* of the unit square */
    PLACES = 256, /* positions of a key that are looked at; of more, the result is too high */
    MOST_STEPS = FEW * (FEW + 1) * (FEW + 2) / 3, /* find: the sum of r (r + 1) for r <= FEW */
};

/* share[d]: m times the probability that a key has d distinct positions, d < k. */
struct steps {
    uint64_t m, wrap, n_found;
    unsigned k;
    struct classic_steps law;
    double share[FEW + 1];
    uint64_t found[MOST_STEPS];
};

/* The distinct positions of a key with the step `step` mod m; more than FEW are not counted. The
 * first value is at `start` and the step is `slope` of the range in which values wrap. Positions
 * counted down from its end differ from those counted up. */
static unsigned distinct(const struct steps *s, uint64_t step, double start, double slope)
{
    uint64_t seen[FEW];
    unsigned n = 0;
    for (unsigned i = 0; i < s->k && i < PLACES; i++) {
        double value = start + i * slope;
        uint64_t wraps = (uint64_t)value, j = 0;
        uint64_t position = (i * step + wraps * (s->m - s->wrap)) % s->m;
        if (s->law.turns && value - (double)wraps >= 0.5)
            position += s->m;
        while (j < n && seen[j] != position)
            j++;
        if (j < n)
            continue;
        if (n == FEW)
            return FEW + 1;
        seen[n++] = position;
    }
    return n;
}

/* The points are those of Kronecker's sequence with the golden ratio. One is enough where wraps
 * change no position. */
static void add_step(struct steps *s, uint64_t step)
{
    static const double GOLDEN = 0.6180339887498949;
    for (uint64_t i = 0; i < s->n_found; i++)
        if (s->found[i] == step)
            return;
    s->found[s->n_found++] = step;
    unsigned points = s->wrap == 0 && !s->law.turns ? 1 : POINTS;
    for (unsigned i = 0; i < points; i++) {
        double slope = (i + 0.5) / points, start = fmod((i + 0.5) * GOLDEN, 1);
        unsigned n = distinct(s, step, start, slope);
        if (n <= FEW && n < s->k)
            s->share[n] += 1.0 / points;
    }
}

/* Positions i and i + r are equal if r steps and w wraps between them cancel modulo m. */
static void find(struct steps *s)
{
    for (uint64_t r = 1; r < s->k && r <= FEW; r++)
        for (uint64_t w = 0; w <= r; w++)
            for (uint64_t t = 0; t < r; t++)
                if ((w * s->wrap + t * s->m) % r == 0)
                    add_step(s, (w * s->wrap + t * s->m) / r % s->m);
}

/* The steps of a layer are computed once. */
static const struct steps *steps_of(const struct classic *c, struct classic_steps law)
{
    static _Thread_local struct steps kept;
    if (kept.m == c->m && kept.k == c->k && kept.law.bits == law.bits &&
        kept.law.turns == law.turns)
        return &kept;
    memset(&kept, 0, sizeof kept);
    kept.m = c->m;
    kept.k = c->k;
    kept.law = law;
    kept.wrap = law.bits == 0 ? 0 : ((UINT64_MAX >> (64 - law.bits)) % c->m + 1) % c->m;
    find(&kept);
    return &kept;
}

/* An absent key is present with a higher probability if few of its positions are distinct, or if
 * one of the n keys has its step, up or down, and nearly its first position: they share k - d
 * positions if they are d steps apart (Dillinger and Manolios, Bloom Filters in Probabilistic
 * Verification, 2004). The latter need to wrap alike, too, modulo the number of different effects
 * of wraps. In simulations of filters with 3008 to 4096 bits, the result was within the error of 5
 * to 10 % (k = 12 and 20; a fifth to half of the bits set). If m times the formula's FPR is above
 * 100, it is 1 % at most. */
double classic_excess(const struct layer *layer, double set, struct classic_steps steps)
{
    struct classic c = classic_of(layer);
    double m = (double)c.m, own = 0;
    if (set >= 1 || m * pow(set, c.k) > 100)
        return 0;
    const struct steps *s = steps_of(&c, steps);
    for (unsigned d = 1; d <= FEW; d++)
        own += s->share[d] * pow(set, d);
    if (steps.turns)
        return own / m;
    double wraps = m / (double)table_divisor(c.m, s->wrap), keys = -log1p(-set) / c.k;
    return (own + 2 * keys * (1 + set) / (1 - set) / wraps) / m;
}

/* The expected set^d of the d distinct positions among `most` and `least` that go by the same step
 * from two starts: t from each if 4 t steps are 0 modulo m, which gcd(4 t, m) of m steps fulfil. */
static double by_one_step(uint64_t m, double set, unsigned most, unsigned least)
{
    enum { ORDERS = 32 };
    double of_order[ORDERS], sum = 0, any = 0;
    for (unsigned t = 1; t < most && t < ORDERS; t++) {
        of_order[t] = (double)table_divisor(4 * t, m) / (double)m;
        for (unsigned s = 1; s < t; s++)
            of_order[t] -= t % s == 0 ? of_order[s] : 0;
        any += of_order[t];
        sum += of_order[t] * pow(set, t + (t < least ? t : least));
    }
    return sum + (1 - any) * pow(set, most + least);
}

/* In simulations with m = 192 to 2876 and k = 14 to 21 this was off by a factor of 0.8 to 2; with m
 * a power of 2, by up to 3. If m times the formula's FPR is above 100, it is 1 % at most. */
double classic_excess_four(const struct layer *layer, double set)
{
    struct classic c = classic_of(layer);
    if (set >= 1 || (double)c.m * pow(set, c.k) > 100)
        return 0;
    double both = by_one_step(c.m, set, (c.k + 3) / 4, c.k / 4) *
                  by_one_step(c.m, set, (c.k + 2) / 4, (c.k + 1) / 4);
    return fmax(0, both - pow(set, c.k));
}
