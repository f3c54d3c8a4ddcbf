/* SPDX-License-Identifier: MIT */
/* The FPR of filters in which the positions of a key depend on each other. */
#include <math.h>
#include <stdatomic.h>

#include "base/bits.h"
#include "base/parallel.h"
#include "foreign/classic.h"

/* The number of samples aims at a relative standard deviation of 0.5 %, 1 / sqrt(AIM). MOST and
 * MOST_BITS, the number of bits that are looked at, limit the time to some tenths of a second: with
 * an FPR of 1e-4, the deviation is 2.4 %. */
enum { BLOCK = 1 << 12, MOST = 1 << 24, MOST_BITS = 1 << 26, FEWEST_HITS = 400 };
static const double AIM = 4e4;

struct sample {
    const struct layer *layer;
    struct classic c;
    const uint8_t *data;
    struct modulus by;
    _Atomic uint64_t hits;
};

static void sample_block(void *ctx, unsigned worker, uint64_t block)
{
    struct sample *s = ctx;
    const struct layout *layout = s->layer->kind->layout;
    uint64_t state = block * BLOCK * 0x9e3779b97f4a7c15, hits = 0;
    (void)worker;
    for (unsigned n = 0; n < BLOCK; n++) {
        uint64_t h1 = bits_draw(&state), h2 = bits_draw(&state);
        bool set = true;
        for (unsigned i = 0; set && i < s->c.k; i++) {
            uint64_t position = modulo(layout->value(s->c.variant, h1, h2, i), s->by);
            set = s->data[position / 8] >> position % 8 & 1;
        }
        hits += set;
    }
    s->hits += hits;
}

double classic_sample(const struct layer *layer, const uint8_t *data, unsigned threads,
                      double bits_set)
{
    struct sample s = {.layer = layer, .c = classic_of(layer), .data = data};
    double expected = classic_fpr(layer, bits_set);
    /* A sample looks at bits until one is clear. These are 2 bits if half of all are set; if nearly
     * all are, it looks at nearly k bits, which may be thousands. */
    double set = pow(expected, 1.0 / s.c.k);
    double looks = set < 1 ? (1 - expected) / (1 - set) : s.c.k;
    double most = fmin(MOST, MOST_BITS / looks);
    if (expected * most < FEWEST_HITS)
        return expected;
    uint64_t blocks = (uint64_t)ceil(fmin(AIM / expected, most) / BLOCK);
    s.by = modulus_of(s.c.m);
    parallel_for(threads, blocks, sample_block, &s);
    return (double)s.hits / (double)(blocks * BLOCK);
}

double classic_fpr(const struct layer *layer, double set)
{
    const struct layout *layout = layer->kind->layout;
    double formula = pow(set, classic_of(layer).k);
    return layout->excess == NULL ? formula : fmin(1, formula + layout->excess(layer, set));
}

double classic_double_hashed(const struct layer *layer, const uint8_t *data, unsigned threads,
                             double bits_set)
{
    struct classic c = classic_of(layer);
    if ((double)c.m * pow(bits_set, c.k) > 100)
        return classic_fpr(layer, bits_set);
    return classic_sample(layer, data, threads, bits_set);
}
