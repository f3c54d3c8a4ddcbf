/* SPDX-License-Identifier: MIT */
/* Estimates from the bits of a classic Bloom filter, and its table of bits. */
#include <math.h>

#include "base/bytes.h"
#include "foreign/classic.h"
#include "kind/overlap.h"

/* The number of bits that a position can reach. Bits beyond are never set. */
static double reach_of(const struct layer *layer)
{
    const struct layout *layout = layer->kind->layout;
    return (double)(layout->reach != NULL ? layout->reach(layer) : classic_of(layer).m);
}

double classic_fpr_at(const struct layer *layer, double n)
{
    struct classic c = classic_of(layer);
    double reach = reach_of(layer);
    /* With one bit the logarithm is infinite. */
    double clear = reach > 1 ? exp(n * c.k * log1p(-1 / reach)) : n > 0 ? 0 : 1;
    return classic_fpr(layer, 1 - clear);
}

void classic_census_of(const struct layer *layer, uint64_t set, struct census *out)
{
    double reach = reach_of(layer), in_reach = fmin((double)set, reach);
    *out = (struct census){.bits = (uint64_t)reach, .bits_set = in_reach / reach};
    overlap_census(reach, classic_of(layer).k, in_reach, out);
    out->fpr = classic_fpr(layer, out->bits_set);
}

static uint64_t len(const struct layer *layer)
{
    return classic_bytes(classic_of(layer).m);
}

/* The only sum is the number of set bits. */
static void tally(const struct layer *layer, const uint8_t *bits, uint64_t at, size_t n, void *sums)
{
    uint64_t m = classic_of(layer).m, set = 0;
    for (const uint8_t *end = bits + n; bits < end; bits += 8, at += 8) {
        uint64_t word = get_le64(bits);
        /* In a forged file, bits after the last one may be set. */
        if (at * 8 + 64 > m)
            word &= ((uint64_t)1 << m % 64) - 1;
        set += (unsigned)__builtin_popcountll(word);
    }
    *(uint64_t *)sums += set;
}

static void add(void *to, const void *from)
{
    *(uint64_t *)to += *(const uint64_t *)from;
}

static void result(const struct layer *layer, const void *sums, struct census *out)
{
    classic_census_of(layer, *(const uint64_t *)sums, out);
}

static double keys(const struct layer *layer, const void *sums)
{
    double reach = reach_of(layer);
    return overlap_keys(reach, classic_of(layer).k, fmin((double)*(const uint64_t *)sums, reach));
}

static double variance(const struct layer *layer, double n)
{
    return overlap_variance(reach_of(layer), classic_of(layer).k, n);
}

bool classic_alike(const struct layer *a, const struct layer *b)
{
    return a->kind == b->kind && a->geometry[0] == b->geometry[0] &&
           a->geometry[1] == b->geometry[1];
}

const struct kind_uniting classic_uniting = {0};

const struct table classic_table = {
    .unit = 8,
    .len = len,
    .alike = classic_alike,
    .tally = tally,
    .add = add,
    .result = result,
    .keys = keys,
    .variance = variance,
};
