/* SPDX-License-Identifier: MIT */
/* Computes the number of keys and the FPR of a ribbon layer from its directory and thresholds. */
#include <math.h>

#include "kind/ribbon/key.h"

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

/* The FPR for absent keys that reach this entry, of all keys. */
static double entry_fpr(const struct ribbon_source *s, const struct ribbon_entry *e)
{
    const int bits = (int)s->ribbon.bits;
    double fpr = 0, reach = 1;
    uint64_t thresholds = e->at;
    for (unsigned t = 0; t < RIBBON_TABLES && e->segments[t] != 0; t++) {
        struct starts starts;
        if (!count_starts(s, thresholds, e->segments[t], &starts))
            return ldexp(fpr, -bits);
        double per_start = reach / (double)starts.all;
        fpr += per_start *
               ldexp((double)starts.narrow + (double)starts.wide / 2, -(int)s->ribbon.columns);
        reach -= per_start * (double)(starts.narrow + starts.wide);
        thresholds += ribbon_thresholds_len(e->segments[t]);
    }
    return ldexp(fpr + ldexp((double)e->listed, bits - 64), -bits);
}

double ribbon_block_fpr(const struct ribbon *ribbon, const struct ribbon_entry *entry,
                        const uint8_t *block)
{
    const struct ribbon_source s = {
        .ribbon = *ribbon, .data = block, .len = ribbon_block_len(ribbon, entry)};
    struct ribbon_entry e = *entry;
    e.at = 0;
    return entry_fpr(&s, &e);
}

static struct census census_of(const struct ribbon_source *s)
{
    double n = 0, fpr = 0;
    for (uint64_t i = 0; i < ribbon_directory_len(&s->ribbon) / RIBBON_ENTRY; i++) {
        struct ribbon_entry e;
        enum ribbon_verdict v;
        if (!ribbon_read_entry(s, i, &e, &v) || !ribbon_is_sane(s, &e))
            continue;
        n += e.keys;
        fpr += entry_fpr(s, &e);
    }
    return (struct census){.fpr = fmin(fpr, 1), .n = n, .n_low = n, .n_high = n, .n_exact = true};
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
    (void)threads;
    *out = census_of(&s);
}
