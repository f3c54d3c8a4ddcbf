/* The FPR of filters in which the positions of a key depend on each other. */
#include <math.h>
#include <stdatomic.h>

#include "base/parallel.h"
#include "kind/classic/classic.h"

/* The number of samples aims at a relative standard deviation of 0.5 %, 1 / sqrt(AIM). MOST limits
 * the time to some tenths of a second: with an FPR of 1e-4, the deviation is 2.4 %. */
enum { BLOCK = 1 << 12, MOST = 1 << 24, FEWEST_HITS = 400 };
static const double AIM = 4e4;

struct sample {
    struct classic c;
    const uint8_t *data;
    struct modulus by;
    classic_value *value;
    _Atomic uint64_t hits;
};

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static bool is_set(const struct sample *s, uint64_t value)
{
    uint64_t position = modulo(value, s->by);
    return s->data[position / 8] >> position % 8 & 1;
}

static void sample_block(void *ctx, unsigned worker, uint64_t block)
{
    struct sample *s = ctx;
    uint64_t state = block * BLOCK * 0x9e3779b97f4a7c15, hits = 0;
    (void)worker;
    for (unsigned n = 0; n < BLOCK; n++) {
        uint64_t h1 = draw(&state), h2 = draw(&state);
        unsigned i = 0;
        while (i < s->c.k && is_set(s, s->value(h1, h2, i)))
            i++;
        hits += i == s->c.k;
    }
    s->hits += hits;
}

double classic_sample(const struct layer *layer, const uint8_t *data, unsigned threads,
                      double bits_set, classic_value *value)
{
    struct sample s = {.c = classic_of(layer), .data = data, .value = value};
    double formula = pow(bits_set, s.c.k);
    if (formula * MOST < FEWEST_HITS || bits_set >= 1)
        return formula;
    uint64_t blocks = (uint64_t)ceil(fmin(AIM / formula, MOST) / BLOCK);
    s.by = modulus_of(s.c.m);
    parallel_for(threads, blocks, sample_block, &s);
    return (double)s.hits / (double)(blocks * BLOCK);
}

/* An absent key is present with a higher probability if its step is 0 modulo m or nearly so, or if
 * one of the n keys has its step and, nearly, its first position. There is one such step in m, and
 * n / m is about 0.7 / k. So the FPR exceeds the formula by about 1/m: with half of the bits set,
 * by 0.2/m to 0.9/m in simulations for k = 4 to 30, by 2/m with 70 % of them. (Dillinger and
 * Manolios, Bloom Filters in Probabilistic Verification, 2004.) */
double classic_double_hashed(const struct layer *layer, const uint8_t *data, unsigned threads,
                             double bits_set, classic_value *value)
{
    struct classic c = classic_of(layer);
    double formula = pow(bits_set, c.k);
    return (double)c.m * formula > 100 ? formula
                                       : classic_sample(layer, data, threads, bits_set, value);
}
