/* SPDX-License-Identifier: MIT */
/* Computes the number of keys and the FPR of a ribbon layer from its directory and thresholds. */
#include <math.h>

#include "kind/ribbon/key.h"

/* Sums over the entries and thresholds of a filter. */
struct ribbon_census {
    const struct ribbon_source *source;
    double fpr, n;
    uint64_t visited; /* entries; limited, since entries of a forged file may repeat */
};

/* Starts in a table: all, and those not bumped in narrow and in wide segments. */
struct starts {
    uint64_t all, narrow, wide;
};

static void count_bucket(struct starts *starts, uint64_t first, uint64_t last, uint64_t wide_from)
{
    if (first >= last)
        return;
    uint64_t in_narrow = wide_from <= first ? 0 : (wide_from < last ? wide_from : last) - first;
    starts->narrow += in_narrow;
    starts->wide += last - first - in_narrow;
}

static bool count_starts(const struct ribbon_source *s, uint64_t thresholds, uint64_t segments,
                         struct starts *starts)
{
    uint64_t narrow = ribbon_narrow(&s->ribbon, segments);
    enum ribbon_verdict v;
    *starts = (struct starts){.all = RIBBON_WIDTH * segments - (RIBBON_WIDTH - 1)};
    if (!ribbon_may_read(s, thresholds, ribbon_thresholds_len(segments), &v))
        return false;
    for (uint64_t first = 0; first < starts->all; first += RIBBON_BUCKET) {
        uint64_t last = first + RIBBON_BUCKET;
        uint8_t byte = s->data[thresholds + ribbon_threshold_byte(first)];
        uint64_t begin = first + ribbon_limit[ribbon_threshold(byte, first)];
        count_bucket(starts, begin, last < starts->all ? last : starts->all, narrow * RIBBON_WIDTH);
    }
    return true;
}

/* The FPR for absent keys that reach this entry. */
static double entry_fpr(const struct ribbon_source *s, const struct ribbon_entry *e, unsigned depth)
{
    double fpr = 0, reach = 1;
    uint64_t thresholds = e->at;
    for (unsigned t = 0; t < RIBBON_TABLES && e->segments[t] != 0; t++) {
        struct starts starts;
        if (!count_starts(s, thresholds, e->segments[t], &starts))
            return fpr;
        double per_start = reach / (double)starts.all;
        fpr += per_start *
               ldexp((double)starts.narrow + (double)starts.wide / 2, -(int)s->ribbon.columns);
        reach -= per_start * (double)(starts.narrow + starts.wide);
        thresholds += ribbon_thresholds_len(e->segments[t]);
    }
    return fpr + ldexp((double)e->listed, (int)depth - 64);
}

double ribbon_block_fpr(const struct ribbon *ribbon, const struct ribbon_entry *entry,
                        const uint8_t *block, unsigned depth)
{
    const struct ribbon_source s = {
        .ribbon = *ribbon, .data = block, .len = ribbon_block_len(ribbon, entry)};
    struct ribbon_entry e = *entry;
    e.at = 0;
    return ldexp(entry_fpr(&s, &e, depth), -(int)depth);
}

static void census_entry(struct ribbon_census *c, uint64_t number, unsigned depth)
{
    struct ribbon_entry e;
    enum ribbon_verdict v;
    if (depth > 64 || c->visited++ > c->source->ribbon.entries ||
        number >= c->source->ribbon.entries || !ribbon_read_entry(c->source, number, &e, &v))
        return;
    if (!e.split) {
        if (!ribbon_is_sane(c->source, &e))
            return;
        c->n += e.keys;
        c->fpr += ldexp(entry_fpr(c->source, &e, depth), -(int)depth);
        return;
    }
    if (e.at <= number)
        return;
    census_entry(c, e.at, depth + 1);
    census_entry(c, e.at + 1, depth + 1);
}

static struct ribbon_census census_of(const struct ribbon_source *s)
{
    struct ribbon_census c = {.source = s};
    uint64_t prefixes = (uint64_t)1 << (s->ribbon.bits & 63);
    for (uint64_t i = 0; i < prefixes; i++)
        census_entry(&c, i, s->ribbon.bits);
    return c;
}

double ribbon_layer_fpr(const struct ribbon *columns, const struct layer *layer,
                        const uint8_t *data)
{
    struct ribbon_source s = {.ribbon = ribbon_of(layer), .data = data, .len = layer->data_len};
    s.ribbon.columns = columns->columns;
    s.ribbon.wide = columns->wide;
    return census_of(&s).fpr;
}

void ribbon_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                   struct census *out)
{
    const struct ribbon_source s = {
        .ribbon = ribbon_of(layer), .data = data, .len = layer->data_len};
    struct ribbon_census c = census_of(&s);
    (void)threads;
    *out = (struct census){
        .fpr = fmin(c.fpr, 1), .n = c.n, .n_low = c.n, .n_high = c.n, .n_exact = true};
}
