/* SPDX-License-Identifier: MIT */
#include "write/shrink.h"

#include <math.h>
#include <stdatomic.h>

#include "base/num.h"
#include "kind/table.h"
#include "file/chain.h"
#include "file/layers.h"
#include "write/combine.h"

/* ---- Folding. */

static bool can_fold(const struct header *h)
{
    bool any = false;
    for (unsigned i = 0; i < h->n_layers; i++)
        any |= kind_folds(h->layers[i].kind);
    return any;
}

static const struct layer *from_layer(const struct assembly *a, unsigned i)
{
    return &a->in[0].header.layers[i];
}

/* The part of the rate p that a layer gets. Layers keep the proportion of their rates. */
static double share(const struct assembly *a, unsigned i, double p)
{
    return format_rate(from_layer(a, i)->fpr_design * p / a->in[0].header.fpr_design);
}

/* Makes `out` the smallest layer into which layer i folds and whose bits keep its part of the rate
 * p; layer i itself if there is none. The last of several layers of a growing filter keeps its
 * room: else each growth after a shrink would use up one of the layers that a file can have. The
 * bits differ from the design's formula by a few per cent at most, so sizes are tried from the one
 * that may do. */
static void fold_layer(const struct assembly *a, unsigned i, double p, struct layer *out)
{
    const struct layer *layer = from_layer(a, i);
    const uint8_t *data = a->in[0].data[i];
    const struct header *from = &a->in[0].header;
    struct census now, folded;
    layers_census(filter_layers(&a->in[0]), i, a->threads, &now);
    if (format_grows(from) && from->n_layers > 1 && i == chain_newest(from))
        now.n = fmax(now.n, (double)layer->n_design);
    out->data_len = 0;
    do {
        layer->kind->uniting->fold(layer, now.n, 1.05 * share(a, i, p), out->data_len, out);
        if (out->data_len == layer->data_len)
            return;
        table_census_folded(layer, data, out, a->threads, &folded);
    } while (folded.fpr > share(a, i, p));
}

/* Makes the header, with the layers folded. */
static void fold_header(struct assembly *a, double p)
{
    const struct header *from = &a->in[0].header;
    struct header *h = &a->header;
    assembly_like(a);
    assembly_succeed(a);
    h->policy = from->policy;
    h->fpr_design = p;
    h->counters = from->counters;
    h->made = from->made;
    h->n_layers = from->n_layers;
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        *layer = from->layers[i];
        assembly_take(a, i, kind_unites(layer->kind) ? FROM_TABLES : FROM_COPY, from_layer(a, i),
                      a->in[0].data[i]);
        if (kind_folds(layer->kind)) {
            fold_layer(a, i, p, layer);
            layer->fpr_design = share(a, i, p);
            if (layer->data_len < from->layers[i].data_len || layer->n_design == 0)
                layer->n_design = (uint64_t)fmax(1, layer_n_at(layer, layer->fpr_design));
        }
        if (a->reproducible)
            layer->since = 0;
        if (from->n_design != 0)
            h->n_design += layer->n_design;
    }
}

/* Has a folded layer a higher rate than it was folded for? Then keys came meanwhile. */
static bool is_outgrown(const struct assembly *a, double p)
{
    bool outgrown = false;
    for (unsigned i = 0; i < a->header.n_layers; i++)
        outgrown |= a->header.layers[i].data_len < from_layer(a, i)->data_len &&
                    a->each[i].fpr > share(a, i, p);
    return outgrown;
}

static bool fold(struct assembly *a, double p, struct err *err)
{
    char had[NUM_TEXT], wanted[NUM_TEXT];
    struct header *h = &a->header;
    fold_header(a, p);
    if (!assembly_write(a, err))
        return false;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (a->origin[i].how == FROM_COPY)
            layers_census(filter_layers(&a->in[0]), i, a->threads, &a->each[i]);
    layers_census_whole(h, a->each, &a->census);
    for (unsigned i = 0; i < h->n_layers; i++)
        if (h->layers[i].fpr_closed > 0 && h->layers[i].data_len < from_layer(a, i)->data_len)
            h->layers[i].fpr_closed = a->each[i].fpr;
    if (a->census.fpr > p && is_outgrown(a, p))
        return fail(err, "'%s' was changed while it was read: run this again", a->in[0].path);
    if (a->census.fpr > p)
        return fail(err, "'%s' has a false-positive rate of %s already, more than %s",
                    a->in[0].path, num_show_fpr(had, a->census.fpr), num_show_fpr(wanted, p));
    /* The counters match the bits that were read if the file was clean and no writer has come
     * since: a writer writes a header before it changes a bit. How many keys older layers took for
     * known before they were folded is unknown. */
    atomic_thread_fence(memory_order_acquire);
    bool match = a->in[0].header.state == STATE_CLEAN && !filter_changed(&a->in[0]);
    bool given_at_once = h->made == h->counters.keys_added && match;
    if (!given_at_once)
        assembly_count(a, NULL);
    return true;
}

/* ---- Dropping bits of fingerprints. */

static bool can_drop(const struct header *h)
{
    bool all = true;
    for (unsigned i = 0; i < h->n_layers; i++)
        all &= h->layers[i].kind->dropping != NULL;
    return all;
}

static bool drop_bits(struct assembly *a, double p, struct err *err)
{
    const struct header *from = &a->in[0].header;
    struct header *h = &a->header;
    char had[NUM_TEXT], wanted[NUM_TEXT];
    if (p < from->fpr_design)
        return fail(err, "'%s' was made for an FPR of %s; lowering it to %s needs the keys",
                    a->in[0].path, num_show_fpr(had, from->fpr_design), num_show_fpr(wanted, p));
    if (!kind_check_fpr(from->layers[0].kind, p, err))
        return false;
    assembly_like(a);
    assembly_succeed(a);
    h->counters = from->counters;
    h->made = from->made;
    h->n_layers = from->n_layers;
    h->n_design = from->n_design;
    h->fpr_design = p;
    for (unsigned i = 0; i < h->n_layers; i++) {
        assembly_take(a, i, FROM_LONGER, from_layer(a, i), a->in[0].data[i]);
        layers_census(filter_layers(&a->in[0]), i, a->threads, &a->each[i]);
        from->layers[i].kind->dropping->drop(&from->layers[i], share(a, i, p), &h->layers[i]);
        h->layers[i].fpr_design = share(a, i, p);
    }
    if (!assembly_write(a, err))
        return false;
    layers_census_whole(h, a->each, &a->census);
    return true;
}

/* The same for a counted set. */
static bool narrow(struct assembly *a, double p, struct err *err)
{
    char fpr[NUM_TEXT], wanted[NUM_TEXT];
    const struct filter *f = &a->in[0];
    const struct layer *layer = &f->header.layers[0];
    const uint8_t *data = f->data[0];
    struct census census;
    layers_census(filter_layers(f), 0, a->threads, &census);
    if (census.fpr > p)
        return fail(err, "'%s' has a false-positive rate of %s already, more than %s", f->path,
                    num_show_fpr(fpr, census.fpr), num_show_fpr(wanted, p));
    unsigned bits = layer_fingerprint(layer); /* the fewest for which n / 2^bits is at most p */
    while (bits > 1 && ldexp(fmax(1, census.n), 1 - (int)bits) <= p)
        bits--;
    combine_plan(a, COUNTS_ADD, &(struct union_of){.n = 1, .layer = &layer, .data = &data}, bits);
    struct layer *made = &a->header.layers[0];
    a->header.fpr_design = made->fpr_design = p;
    if (bits < layer_fingerprint(layer))
        a->header.n_design = made->n_design = (uint64_t)fmax(1, layer_n_at(made, p));
    if (!combine_write(a, err))
        return false;
    layers_census_whole(&a->header, &census, &a->census);
    a->census.fpr = combine_fpr(a);
    return true;
}

static bool check_shrinks(const struct assembly *a, double p, struct err *err)
{
    const struct header *h = &a->in[0].header;
    if (!can_fold(h) && !can_drop(h) && !combine_counts(h))
        return fail(err, "'%s' is of kind %s, which cannot be folded", a->in[0].path,
                    format_kind_name(h));
    if (can_drop(h) && p == 0)
        return fail(err,
                    "'%s' is a compact filter, which gets smaller only at a higher FPR: give it "
                    "with --fpr P",
                    a->in[0].path);
    return !format_forgets(h) ||
           fail(err, "'%s' has generations, which cannot be folded", a->in[0].path);
}

bool shrink_input(struct assembly *a, double p, struct err *err)
{
    const struct header *h = &a->in[0].header;
    if (!check_shrinks(a, p, err) || !assembly_check_sound(a, err))
        return false;
    if (p == 0)
        p = h->fpr_design;
    if (combine_counts(h))
        return narrow(a, p, err);
    if (can_drop(h))
        return drop_bits(a, p, err);
    return fold(a, p, err);
}
