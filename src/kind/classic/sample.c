/* The FPR of filters in which the positions of a key depend on each other. */
#include <math.h>
#include <stdatomic.h>

#include "base/parallel.h"
#include "kind/classic/classic.h"

/* The number of samples aims at a relative standard deviation of 0.5 %, 1 / sqrt(AIM). MOST and
 * MOST_BITS, the number of bits that are looked at, limit the time to some tenths of a second: with
 * an FPR of 1e-4, the deviation is 2.4 %. */
enum { BLOCK = 1 << 12, MOST = 1 << 24, MOST_BITS = 1 << 26, FEWEST_HITS = 400 };
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

/* A sample looks at bits until one is clear. These are 2 bits if half of all are set; if nearly all
 * are, it looks at nearly k bits, which may be thousands. */
static double most_samples(double expected, unsigned k)
{
    double set = pow(expected, 1.0 / k), bits = set < 1 ? (1 - expected) / (1 - set) : k;
    return fmin(MOST, MOST_BITS / bits);
}

double classic_sample(const struct layer *layer, const uint8_t *data, unsigned threads,
                      double expected, classic_value *value)
{
    struct sample s = {.c = classic_of(layer), .data = data, .value = value};
    double most = most_samples(expected, s.c.k);
    if (expected * most < FEWEST_HITS)
        return expected;
    uint64_t blocks = (uint64_t)ceil(fmin(AIM / expected, most) / BLOCK);
    s.by = modulus_of(s.c.m);
    parallel_for(threads, blocks, sample_block, &s);
    return (double)s.hits / (double)(blocks * BLOCK);
}

/* An absent key is present with a higher probability if its step is 0 modulo m or nearly so, or if
 * one of the n keys has its step and, nearly, its first position (Dillinger and Manolios, Bloom
 * Filters in Probabilistic Verification, 2004). Each has a probability of about 1/m: one of m steps
 * is 0, and n / m is about 0.7 / k. So the FPR exceeds the formula by about 1/m. In simulations
 * with a fraction f of the bits set, the excess was 0.5 to 2.2 times 2 f^2 / m (m = 2048 to 4608; k
 * = 7 to 20; f = 0.1, 0.3, 0.5 and 0.7). If m times the FPR is above 100 and half of the bits are
 * set, the excess is about 1 % of the FPR at most. */
double classic_fpr(const struct layer *layer, double set)
{
    struct classic c = classic_of(layer);
    double formula = pow(set, c.k), m = (double)c.m;
    if (!layer->kind->layout->dependent || m * formula > 100)
        return formula;
    return fmin(1, formula + 2 * set * set / m);
}

double classic_double_hashed(const struct layer *layer, const uint8_t *data, unsigned threads,
                             double bits_set, classic_value *value)
{
    struct classic c = classic_of(layer);
    double formula = pow(bits_set, c.k);
    if ((double)c.m * formula > 100)
        return formula;
    return classic_sample(layer, data, threads, classic_fpr(layer, bits_set), value);
}
