/* SPDX-License-Identifier: MIT */
#include "file/layers.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "kind/foreign.h"
#include "file/chain.h"

void layers_take(struct layers_keys *to, unsigned lanes, struct hashes keys, size_t n)
{
    to->n = n;
    for (unsigned l = 0; l < lanes; l++)
        memcpy(to->lane[l], hashes_lane(keys, l), n * sizeof *to->lane[l]);
    for (size_t i = 0; i < n; i++)
        to->place[i] = (uint16_t)i;
}

void layers_leave_out(struct layers_keys *keys, unsigned lanes, const uint64_t *found)
{
    size_t n = 0;
    if (bits_count(found, keys->n) == 0)
        return;
    for (size_t i = 0; i < keys->n; i++) {
        for (unsigned l = 0; l < lanes; l++)
            keys->lane[l][n] = keys->lane[l][i];
        keys->place[n] = keys->place[i];
        n += !bit_of(found, i);
    }
    keys->n = n;
}

void layers_query(struct layers l, unsigned except, struct hashes keys, size_t n, uint64_t *present)
{
    const struct layer *layer[FORMAT_MAX_LAYERS];
    const uint8_t *data[FORMAT_MAX_LAYERS];
    unsigned n_layers = 0;
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    for (unsigned i = l.header->n_layers; i-- > 0;) {
        if (i == except || format_is_over(l.header, i))
            continue;
        layer[n_layers] = &l.header->layers[i];
        data[n_layers++] = l.data[i];
    }
    for (unsigned i = 0, end; i < n_layers; i = end) {
        const struct kind *kind = layer[i]->kind;
        bool together = kind->query_layers != NULL;
        for (end = i + 1; together && end < n_layers && layer[end]->kind == kind; end++)
            continue;
        if (together)
            kind->query_layers(layer + i, data + i, end - i, keys, n, present);
        else
            kind->query(layer[i], data[i], keys, n, present);
    }
}

void layers_census(struct layers l, unsigned layer, unsigned threads, struct census *out)
{
    const struct layer *which = &l.header->layers[layer];
    memset(out, 0, sizeof *out);
    if (!format_is_over(l.header, layer))
        which->kind->census(which, l.data[layer], threads, out);
}

void layers_census_each(struct layers l, unsigned threads, struct census *layer)
{
    for (unsigned i = 0; i < l.header->n_layers; i++)
        layers_census(l, i, threads, &layer[i]);
}

/* Adds a layer's census to `all`, except the number of keys. */
static void add_bits(struct census *all, const struct census *layer)
{
    uint64_t lines = all->lines + layer->lines, bits = all->bits + layer->bits;
    if (bits > 0)
        all->bits_set =
            (all->bits_set * (double)all->bits + layer->bits_set * (double)layer->bits) /
            (double)bits;
    all->bits = bits;
    if (all->lines == 0 || (layer->lines != 0 && layer->line_min < all->line_min))
        all->line_min = layer->line_min;
    if (layer->line_max > all->line_max)
        all->line_max = layer->line_max;
    all->lines = lines;
    all->lines_full += layer->lines_full;
    /* 1 - (1 - a)(1 - b), without loss of precision for small rates. */
    all->fpr += layer->fpr * (1 - all->fpr);
}

static void set_n(struct census *all, double n, double low, double high)
{
    all->n_at_least = isinf(high);
    all->n = all->n_at_least ? low : n;
    all->n_low = low;
    all->n_high = high;
}

/* The number of keys of several layers. In a growing filter each key is in one layer, so the
 * numbers add up. Elsewhere layers may share keys: there are at least those of the largest layer
 * and at most the sum, and no estimate. A key that an earlier layer falsely reported is in no
 * layer, except in a ring: of g keys given while a layer took keys, n were added to it, where n is
 * binomial with the probability `passed`. The ends are added up as if all layers erred in one
 * direction. */
static void sum_keys(const struct header *h, const struct census *layer, struct census *all)
{
    double n = 0, low = 0, high = 0, passed = 1;
    bool apart = !format_shares_keys(h);
    unsigned in_use = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct census *c = &layer[i];
        double given = c->n / passed;
        n += given;
        low = apart ? low + c->n_low : fmax(low, c->n_low);
        high += c->n_high / passed + CENSUS_Z95 * sqrt(given * (1 - passed) / passed);
        in_use += c->n_high > 0;
        passed *= format_forgets(h) ? 1 : 1 - c->fpr;
    }
    set_n(all, apart || in_use == 1 ? n : NAN, low, high);
}

/* The bits that filters have in common are those of the common keys, and chance ones of others. So
 * they only give an upper bound of the number of keys. */
static void bound_intersection(const struct header *h, struct census *all)
{
    if ((h->compat & COMPAT_INTERSECTED) == 0)
        return;
    all->n = NAN;
    all->n_low = 0;
    all->n_exact = all->n_at_least = false;
}

static void estimate_whole(const struct header *h, const struct census *layer, struct census *all)
{
    *all = layer[0];
    if (h->n_layers == 1) {
        /* The keys of a difference share fingerprints more often than random keys do (combine.c),
         * so the estimate for random keys is only a lower bound. */
        if ((h->compat & COMPAT_SUBTRACTED) != 0) {
            all->n_exact = false;
            set_n(all, all->n, all->n_low, INFINITY);
        }
        bound_intersection(h, all);
        return;
    }
    for (unsigned i = 1; i < h->n_layers; i++) {
        add_bits(all, &layer[i]);
        all->n_exact = false;
    }
    sum_keys(h, layer, all);
    bound_intersection(h, all);
}

void layers_census_whole(const struct header *h, const struct census *layer, struct census *all)
{
    estimate_whole(h, layer, all);
    /* Numbers of keys are whole, and with few keys so are their errors. Half a key more on either
     * side (the continuity correction, as in overlap.c) makes the normal distribution's interval
     * hold for them too: of 10 keys, 13 % of the intervals ended at 9.9 or below. */
    if (all->n_at_least)
        all->n = round(all->n_low);
    all->n_low = fmin(round(all->n_low), all->n);
    all->n_high = fmax(round(all->n_high), all->n);
}

double layers_design_fpr(const struct header *h)
{
    const struct layer *layer = &h->layers[0];
    if (h->n_layers > 1 || !kind_is_foreign(layer->kind))
        return h->fpr_design;
    return fmax(h->fpr_design, layer->kind->fpr_at(layer, (double)layer->n_design));
}

double layers_shown_fpr(const struct header *h)
{
    double reached = layers_design_fpr(h);
    return reached > 2 * h->fpr_design ? reached : h->fpr_design;
}

/* The part of random hashes that some layer has. All layers take their positions from the same
 * hashes, so those that one reports are more often reported by the others. Samples until there are
 * ENOUGH hits: a standard deviation of 0.5 %. 0: too few hits. */
static double sample_layers(struct layers l)
{
    enum { ENOUGH = 40000, FEWEST = 400, MOST = 1 << 22 };
    uint64_t state = 0, hits = 0, n = 0;
    uint64_t hash[HASH_LANES][LAYER_BATCH], present[LAYER_BATCH / 64];
    for (; n < MOST && hits < ENOUGH; n += LAYER_BATCH) {
        for (unsigned lane = 0; lane < l.header->hash->lanes; lane++)
            for (unsigned i = 0; i < LAYER_BATCH; i++)
                hash[lane][i] = bits_draw(&state);
        layers_query(l, LAYERS_ALL, (struct hashes){hash[0], LAYER_BATCH, NULL}, LAYER_BATCH,
                     present);
        hits += bits_count(present, LAYER_BATCH);
    }
    return hits < FEWEST ? 0 : (double)hits / (double)n;
}

/* Layers of other programs share rates of about 1 / m, where m is the number of bits of the
 * smallest.
 */
static const double LARGE = 1000;

static void sample_fpr(struct layers layers, unsigned threads, struct census *all)
{
    const struct layer *layer = &layers.header->layers[0];
    if (layer->kind->sampled_fpr == NULL)
        return;
    if (layers.header->n_layers == 1) {
        all->fpr = layer->kind->sampled_fpr(layer, layers.data[0], threads, all->bits_set);
        return;
    }
    uint64_t m = UINT64_MAX;
    for (unsigned i = 0; i < layers.header->n_layers; i++) {
        struct shape shape = layers.header->layers[i].kind->shape(&layers.header->layers[i]);
        m = shape.m < m ? shape.m : m;
    }
    if ((double)m * all->fpr > LARGE) /* what they share is a small part */
        return;
    double sampled = sample_layers(layers);
    if (sampled > 0)
        all->fpr = sampled;
}

void layers_measure(struct layers l, unsigned threads, struct census *layer, struct census *all)
{
    layers_census_each(l, threads, layer);
    layers_census_whole(l.header, layer, all);
    sample_fpr(l, threads, all);
}

void layers_census_all(struct layers layers, unsigned threads, struct census *out)
{
    struct census layer[FORMAT_MAX_LAYERS] = {0};
    layers_census_each(layers, threads, layer);
    layers_census_whole(layers.header, layer, out);
}

/* The probability of a false alarm is one in a million, half of it for each of two parts: this many
 * standard deviations of a normal distribution, and ln(2 / probability) in Bernstein's inequality.
 */
static const double ALARM_SD = 5.03, ALARM_LOG = 15.2;

/* The largest relative error of bloom_fpr against the true expectation. */
static const double FORMULA_ERROR = 0.005;

/* With a higher FPR the counters tell too little: their error may have doubled. */
static const double MOST_FPR = 0.5;

double layers_dropped(double dropped, uint64_t added, const struct census *all, bool *at_least)
{
    *at_least = all->fpr > MOST_FPR;
    return *at_least ? fmax(0, all->n_low - (double)added) : dropped;
}

/*
 * By the counters, a layer was given the keys that set a bit, and those that were dropped. The
 * number of these follows from the FPR by the formula, at the n when each key was added. The bits'
 * n does not depend on that. The two differ for three reasons:
 *
 * - The bits' own error, with standard deviation sd. It acts twice: if by chance more bits are set
 *   than n keys set on average, more keys are also falsely reported present. This changes A, the
 *   number of keys that set a bit, by the integral of F' sd, at most F sd since sd only grows.
 * - The number of keys falsely reported present is a sum of independent events, with a mean and a
 *   variance of at most `dropped`. By Bernstein's inequality it differs from the mean by more than
 *   l/3 + sqrt(l^2/9 + 2 l dropped) with a probability of at most 2 e^-l.
 * - The formula's error.
 *
 * An error of e in A becomes e / (1 - F) in the counters' n, because dn/dA = 1 / (1 - F(n)). The
 * first error is then sd + F sd / (1 - F) = sd / (1 - F) in all.
 */
bool layers_counters_agree(const struct header *h, const struct counters *counters,
                           const struct census *layer, double *n_bits, double *n_counted)
{
    double variance = 0, factor = 1, ignored, dropped;
    *n_bits = *n_counted = NAN;
    /* Layers of a ring or a merged filter may share keys. If an assumption of the formula does not
     * hold (layout->caveat), it says little about the keys. */
    if (layout_caveat(h->layers[0].kind) != NULL || (h->compat & COMPAT_INTERSECTED) != 0 ||
        format_shares_keys(h))
        return true;
    double n = 0, counted = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct census *c = &layer[i];
        double negative = 1 - c->fpr;
        if (c->n_at_least || negative < 1 - MOST_FPR)
            return true;
        double sd = fmax(c->n_high - c->n, c->n - c->n_low) / CENSUS_Z95 / negative;
        n += c->n;
        counted += chain_distinct(h, counters, i);
        variance += sd * sd;
        factor = fmax(factor, 1 / negative);
    }
    *n_bits = n;
    *n_counted = counted;
    /* A set's number of fingerprints is exact, and check_whole counts them. But any number of
     * deliberately chosen keys may share one fingerprint. */
    if (kind_counts(h->layers[0].kind))
        return true;
    chain_given(h, counters, &ignored, &dropped);
    double chance = ALARM_LOG / 3 + sqrt(ALARM_LOG * (ALARM_LOG / 9 + 2 * dropped));
    chance += FORMULA_ERROR * dropped;
    return fabs(n - counted) <= ALARM_SD * sqrt(variance) + factor * chance;
}
