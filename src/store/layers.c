#include "store/layers.h"

#include <math.h>
#include <string.h>

#include "kind/layout.h"
#include "kind/table.h"

/* Prefetches what queries of all layers will read into the cache. With five layers of 78 MB in all,
 * this makes queries 10 % faster. */
static void prefetch(const struct layers *l, struct hashes keys, size_t n)
{
    for (unsigned i = 0; i < l->header->n_layers; i++) {
        const struct layer *layer = &l->header->layers[i];
        if (!layer->is_void && layer->kind->prefetch != NULL)
            layer->kind->prefetch(layer, l->data[i], keys, n);
    }
}

bool layers_query(const struct layers *l, struct hashes keys, size_t n, uint64_t *present,
                  layers_verify *verify, void *ctx, struct err *err)
{
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    if (l->header->n_layers > 1)
        prefetch(l, keys, n);
    for (unsigned i = 0; i < l->header->n_layers; i++) {
        const struct layer *layer = &l->header->layers[i];
        if (layer->is_void)
            continue;
        if (verify != NULL && !verify(ctx, i, keys, n, err))
            return false;
        layer->kind->query(layer, l->data[i], keys, n, present);
    }
    return true;
}

void layers_census(const struct layers *l, unsigned layer, unsigned threads, struct census *out)
{
    const struct layer *which = &l->header->layers[layer];
    memset(out, 0, sizeof *out);
    if (!which->is_void)
        which->kind->census(which, l->data[layer], threads, out);
}

void layers_census_each(const struct layers *l, unsigned threads, struct census *layer)
{
    for (unsigned i = 0; i < l->header->n_layers; i++)
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

/* Growing files of version 0.1.0 may begin with covered layers: all their keys are in the next
 * layer too, and their n_closed is 0. Returns their number. */
static unsigned n_covered(const struct header *h)
{
    unsigned n = 0;
    while (h->policy == POLICY_GROW && n + 1 < h->n_layers && h->layers[n].n_closed == 0)
        n++;
    return n;
}

/* The FPR of the covered layers together. A writer that queried them too dropped this share of
 * absent keys; a writer that did not query them added those keys. */
static double covered_fpr(const struct census *layer, unsigned covered)
{
    double absent = 1;
    for (unsigned i = 0; i < covered; i++)
        absent *= 1 - layer[i].fpr;
    return 1 - absent;
}

/* The layer that has the keys of the covered layers. If its writer was killed before it had them
 * all: the layer among it and the covered ones that has the most keys. */
static const struct census *covering(const struct census *layer, unsigned covered)
{
    const struct census *most = &layer[covered];
    for (unsigned i = 0; i < covered; i++)
        if (layer[i].n > most->n)
            most = &layer[i];
    return most;
}

static bool is_folded(const struct header *h)
{
    return h->policy == POLICY_GROW && (h->compat & COMPAT_FOLDED) != 0;
}

/* In a growing filter a key is in one layer, or in none if an older layer falsely reported it. So
 * of g keys given while a layer took keys, n were added to it. n is binomial with the probability
 * `passed` that no older layer reports a key. Hence g = n / passed, with a variance of
 * g (1 - passed) / passed in addition to that of n. Of a folded filter, `passed` was between its
 * value now and 1, so g is between n / passed and n; the middle is the estimate. */
static void sum_grown(const struct header *h, const struct census *layer, struct census *all)
{
    unsigned covered = n_covered(h);
    double n = 0, kept = 0, below = 0, above = 0, passed = 1;
    for (unsigned i = covered; i < h->n_layers; i++) {
        const struct census *c = i == covered ? covering(layer, covered) : &layer[i];
        double given = c->n / passed;
        double chance = CENSUS_Z95 * sqrt(given * (1 - passed) / passed);
        n += given;
        kept += c->n;
        below = hypot(below, hypot((c->n - c->n_low) / passed, chance));
        above = hypot(above, hypot((c->n_high - c->n) / passed, chance));
        passed *= 1 - layer[i].fpr;
    }
    double asked = covered_fpr(layer, covered);
    double least = is_folded(h) ? kept : n;
    set_n(all, (least + n) / 2, fmax(0, least - below),
          n + above + (asked < 1 ? n * asked / (1 - asked) : INFINITY));
}

/* For layers that share an unknown number of keys. Their union has at least the keys of the largest
 * one, and at most the sum of all, if they share none. Of one layer, its own number. */
static void bound(const struct census *layer, const bool *counts, unsigned n_layers,
                  struct census *all)
{
    double n = 0, low = 0, above = 0, last = NAN;
    unsigned counted = 0;
    for (unsigned i = 0; i < n_layers; i++)
        if (counts[i]) {
            double most = isnan(layer[i].n) ? layer[i].n_high : layer[i].n;
            n += most;
            low = fmax(low, layer[i].n_low);
            above = hypot(above, layer[i].n_high - most);
            last = layer[i].n;
            counted++;
        }
    set_n(all, counted == 1 ? last : NAN, low, n + above);
}

/* For layers that may share keys. The united bits of compatible layers are those of a filter with
 * the keys of all of them, so their number is estimated from these bits. If too many bits are set,
 * or layers are not compatible, the number is only bounded. */
static void unite(const struct layers *layers, unsigned threads, const struct census *layer,
                  struct census *all)
{
    const struct header *h = layers->header;
    const struct layer *in[FORMAT_MAX_LAYERS];
    const uint8_t *data[FORMAT_MAX_LAYERS];
    struct census group[FORMAT_MAX_LAYERS];
    bool counts[FORMAT_MAX_LAYERS], first[FORMAT_MAX_LAYERS] = {0};
    bool done[FORMAT_MAX_LAYERS] = {0};
    for (unsigned i = 0; i < h->n_layers; i++) {
        unsigned n = 0;
        if (done[i] || h->layers[i].is_void)
            continue;
        for (unsigned j = 0; j < h->n_layers; j++) {
            const struct layer *l = &h->layers[j];
            counts[j] =
                j == i || (j > i && !done[j] && !l->is_void && kind_is_table(l->kind) &&
                           l->kind == h->layers[i].kind && l->kind->table->alike(&h->layers[i], l));
            if (!counts[j])
                continue;
            done[j] = true;
            in[n] = l;
            data[n++] = layers->data[j];
        }
        first[i] = true;
        bound(layer, counts, h->n_layers, &group[i]);
        if (n == 1)
            continue;
        struct census united;
        table_census_union(in, data, n, threads, &united);
        if (united.n_high - united.n_low < group[i].n_high - group[i].n_low)
            group[i] = united;
        else if (!united.n_at_least)
            group[i].n = fmin(fmax(united.n, group[i].n_low), group[i].n_high);
    }
    bound(group, first, h->n_layers, all);
    /* A key that one layer reported when it was given was added to no other. In a ring it was. */
    if (h->policy == POLICY_FIXED)
        set_n(all, all->n, all->n_low, all->n_high / (1 - all->fpr));
}

/* Keys that are left after others were taken share fingerprints more often than their number tells
 * (combine.c), so it gives a lower bound. */
static void bound_difference(const struct header *h, struct census *all)
{
    if ((h->compat & COMPAT_SUBTRACTED) == 0)
        return;
    all->n_exact = false;
    set_n(all, all->n, all->n_low, INFINITY);
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

static void estimate_whole(const struct layers *layers, unsigned threads,
                           const struct census *layer, struct census *all)
{
    const struct header *h = layers->header;
    *all = layer[0];
    if (h->n_layers == 1) {
        bound_difference(h, all);
        bound_intersection(h, all);
        return;
    }
    for (unsigned i = 1; i < h->n_layers; i++) {
        add_bits(all, &layer[i]);
        all->n_exact = false;
    }
    if (h->policy == POLICY_GROW)
        sum_grown(h, layer, all);
    else
        unite(layers, threads, layer, all);
    bound_intersection(h, all);
}

void layers_census_whole(const struct layers *layers, unsigned threads, const struct census *layer,
                         struct census *all)
{
    estimate_whole(layers, threads, layer, all);
    /* Numbers of keys are whole, and with few keys so are their errors. Half a key more on either
     * side (the continuity correction, as in overlap.c) makes the normal distribution's interval
     * hold for them too: of 10 keys, 13 % of the intervals ended at 9.9 or below. */
    if (all->n_at_least)
        all->n = round(all->n_low);
    all->n_low = fmin(round(all->n_low), all->n);
    all->n_high = fmax(round(all->n_high), all->n);
}

void layers_sample_fpr(const struct layers *layers, unsigned threads, struct census *all)
{
    const struct layer *layer = &layers->header->layers[0];
    if (layers->header->n_layers == 1 && layer->kind->sampled_fpr != NULL)
        all->fpr = layer->kind->sampled_fpr(layer, layers->data[0], threads, all->bits_set);
}

void layers_census_all(const struct layers *layers, unsigned threads, struct census *out)
{
    struct census layer[FORMAT_MAX_LAYERS] = {0};
    layers_census_each(layers, threads, layer);
    layers_census_whole(layers, threads, layer, out);
}

/* The probability of a false alarm is one in a million, half of it for each of two parts: this many
 * standard deviations of a normal distribution, and ln(2 / probability) in Bernstein's inequality.
 */
static const double ALARM_SD = 5.03, ALARM_LOG = 15.2;

/* The largest relative error of bloom_fpr against the true expectation. */
static const double FORMULA_ERROR = 0.005;

/* With a higher FPR the counters tell too little: their error may have doubled. */
static const double MOST_FPR = 0.5;

double layers_dropped(const struct counters *c, const struct census *all, bool *at_least)
{
    *at_least = all->fpr > MOST_FPR;
    return *at_least ? fmin(c->dropped, fmax(0, all->n_low - (double)c->keys_added)) : c->dropped;
}

/*
 * The counters' n is a sum over the keys that set a bit. Each counts as 1 / (1 - F) keys, where F
 * is the FPR by the formula at the n when the key was added. The bits' n does not depend on F. The
 * two differ for three reasons:
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
bool layers_counters_agree(const struct header *h, const struct census *layer, double *n_bits)
{
    double n = 0, variance = 0, dropped = 0, passed = 1, factor = 1;
    *n_bits = NAN;
    /* Keys of parallel layers are not counted. If an assumption of the formula does not hold
     * (layout->caveat), it says little about the keys. */
    if (h->counters.unknown || layout_caveat(h->layers[0].kind) != NULL ||
        (h->policy == POLICY_FIXED && h->n_layers > 1))
        return true;
    /* A set's number of fingerprints is exact, and check_whole counts them. But any number of
     * deliberately chosen keys may share one fingerprint. */
    if (kind_counts(h->layers[0].kind)) {
        *n_bits = layer[0].n;
        return true;
    }
    if (n_covered(h) > 0 || is_folded(h)) /* which keys its writer dropped is unknown */
        return true;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct census *c = &layer[i];
        double negative = passed * (1 - c->fpr), given = c->n / passed;
        if (c->n_at_least || negative < 1 - MOST_FPR)
            return true;
        double sd = fmax(c->n_high - c->n, c->n - c->n_low) / CENSUS_Z95 / negative;
        n += given;
        variance += sd * sd;
        dropped += given * (1 - negative);
        factor = fmax(factor, 1 / negative);
        passed = format_grows(h) ? negative : 1; /* generations are counted separately */
    }
    *n_bits = n;
    dropped = fmin(dropped, h->counters.dropped);
    double chance = ALARM_LOG / 3 + sqrt(ALARM_LOG * (ALARM_LOG / 9 + 2 * dropped));
    chance += FORMULA_ERROR * dropped;
    return fabs(n - h->counters.n_keys) <= ALARM_SD * sqrt(variance) + factor * chance;
}
