/* SPDX-License-Identifier: MIT */
#include "write/combine.h"

#include <math.h>

#include "file/header.h"

bool combine_counts(const struct header *h)
{
    return h->n_layers == 1 && kind_counts(h->layers[0].kind);
}

static const struct layer *narrowest(const struct layer *const *layer, unsigned n)
{
    const struct layer *best = layer[0];
    for (unsigned i = 1; i < n; i++)
        if (layer_fingerprint(layer[i]) < layer_fingerprint(best))
            best = layer[i];
    return best;
}

unsigned combine_bits(const struct layer *const *layer, unsigned n)
{
    return layer_fingerprint(narrowest(layer, n));
}

void combine_plan(struct assembly *a, enum counts_op op, const struct union_of *parts,
                  unsigned bits)
{
    const struct layer *like = narrowest(parts->layer, parts->n);
    struct header *h = &a->header;
    struct layer *layer = &h->layers[0];
    assembly_like(a);
    a->origin[0] = (struct origin){.how = FROM_COUNTS, .op = op, .parts = *parts};
    like->kind->counts->narrow(like, bits != 0 ? bits : layer_fingerprint(like), layer);
    h->n_design = layer->n_design = like->n_design;
    h->fpr_design = layer->fpr_design = like->fpr_design;
    h->n_layers = 1;
    /* Of two inputs, different keys may have one fingerprint. */
    if (op == COUNTS_INTERSECT && parts->n > 1 && layer_fingerprint(layer) < 64)
        h->compat |= COMPAT_INTERSECTED;
    if (op >= COUNTS_INTERSECT && a->n_in > 1)
        header_forget_profile(h);
}

/* With more of the interval's half than this in doubt, the number of keys is only bounded. */
static const double MOST_DOUBT = 0.1;

double combine_taken(const struct assembly *a)
{
    const struct union_of *parts = &a->origin[0].parts;
    double keys = 0, cells = ldexp(1, (int)layer_fingerprint(&a->header.layers[0]));
    for (unsigned i = 1; i < parts->n; i++) {
        struct census census;
        parts->layer[i]->kind->census(parts->layer[i], parts->data[i], 1, &census);
        keys += census.n;
    }
    return -expm1(-keys / cells);
}

/* Let the inputs that are taken away have the part q of all fingerprints. Then the n keys that are
 * left have fingerprints of the other part, so n^2 / (2 (1 - q) cells) pairs of them share one, q
 * times as many more than the census expects. --subtract also leaves fingerprints in the part q,
 * where two keys or more of the first input have them: about as many pairs. */
static bool is_doubtful(const struct assembly *a)
{
    const struct layer *made = &a->header.layers[0];
    const enum counts_op op = a->origin[0].op;
    struct census all;
    double q = combine_taken(a);
    if ((op != COUNTS_SUBTRACT && op != COUNTS_EXCEPT) || layer_fingerprint(made) == 64)
        return false;
    made->kind->census(made, NULL, 1, &all);
    double pairs = all.n * all.n / 2 / ldexp(1, (int)layer_fingerprint(made));
    return !(q < 1) || pairs * q / (1 - q) > MOST_DOUBT * (all.n_high - all.n);
}

bool combine_write(struct assembly *a, struct err *err)
{
    struct header *h = &a->header;
    if (!assembly_write(a, err))
        return false;
    if (is_doubtful(a))
        h->compat |= COMPAT_SUBTRACTED;
    h->counters = (struct counters){.records = a->seen.total_made, .keys_added = a->seen.made};
    h->made = a->seen.made;
    return true;
}

double combine_fpr(const struct assembly *a)
{
    return ldexp((double)a->seen.made, -(int)layer_fingerprint(&a->header.layers[0]));
}
