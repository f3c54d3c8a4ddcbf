/* SPDX-License-Identifier: MIT */
#include "write/combine.h"

#include <math.h>
#include <string.h>

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

void combine_header(struct combine *c)
{
    const struct layer *like = narrowest(c->layer, c->n);
    struct header *h = &c->header;
    struct layer *layer = &h->layers[0];
    header_begin_like(h, c->keys, c->reproducible);
    like->kind->counts->narrow(like, c->bits != 0 ? c->bits : layer_fingerprint(like), layer);
    h->n_design = layer->n_design = like->n_design;
    h->fpr_design = layer->fpr_design = like->fpr_design;
    h->n_layers = 1;
    /* Of two inputs, different keys may have one fingerprint. */
    if (c->op == COUNTS_INTERSECT && c->n > 1 && layer_fingerprint(layer) < 64)
        h->compat |= COMPAT_INTERSECTED;
    format_place(h);
}

void combine_keep_batches(struct combine *c, const struct header *replaced)
{
    c->header.n_batches = replaced->n_batches;
    memcpy(c->header.batch, replaced->batch, sizeof replaced->batch);
    format_place(&c->header);
}

/* With more of the interval's half than this in doubt, the number of keys is only bounded. */
static const double MOST_DOUBT = 0.1;

double combine_taken(const struct combine *c)
{
    double keys = 0, cells = ldexp(1, (int)layer_fingerprint(&c->header.layers[0]));
    for (unsigned i = 1; i < c->n; i++) {
        struct census census;
        c->layer[i]->kind->census(c->layer[i], c->data[i], 1, &census);
        keys += census.n;
    }
    return -expm1(-keys / cells);
}

/* Let the inputs that are taken away have the part q of all fingerprints. Then the n keys that are
 * left have fingerprints of the other part, so n^2 / (2 (1 - q) cells) pairs of them share one, q
 * times as many more than the census expects. --subtract also leaves fingerprints in the part q,
 * where two keys or more of the first input have them: about as many pairs. */
static bool is_doubtful(const struct combine *c)
{
    const struct layer *made = &c->header.layers[0];
    struct census all;
    double q = combine_taken(c);
    if ((c->op != COUNTS_SUBTRACT && c->op != COUNTS_EXCEPT) || layer_fingerprint(made) == 64)
        return false;
    made->kind->census(made, NULL, 1, &all);
    double pairs = all.n * all.n / 2 / ldexp(1, (int)layer_fingerprint(made));
    return !(q < 1) || pairs * q / (1 - q) > MOST_DOUBT * (all.n_high - all.n);
}

bool combine_write(struct combine *c, struct newfile *file, const char *name, struct err *err)
{
    struct header *h = &c->header;
    struct target target = header_target(h, 0, file->fd, name, c->threads);
    if (!h->layers[0].kind->counts->combine(c->op, c->layer, c->data, c->n, &target, c->threads,
                                            &c->seen, err))
        return false;
    if (is_doubtful(c))
        h->compat |= COMPAT_SUBTRACTED;
    h->counters = (struct counters){.records = c->seen.total_made, .keys_added = c->seen.made};
    h->made = c->seen.made;
    return true;
}

double combine_fpr(const struct combine *c)
{
    return ldexp((double)c->seen.made, -(int)layer_fingerprint(&c->header.layers[0]));
}
