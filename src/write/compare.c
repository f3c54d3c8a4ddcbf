/* SPDX-License-Identifier: MIT */
#include "write/compare.h"

#include "kind/table.h"
#include "write/combine.h"

static bool too_full(const struct filter *in, struct err *err)
{
    return fail(err, "'%s' and '%s' are too full to be compared", in[0].path, in[1].path);
}

/* Can this filter be compared with any other filter? */
static bool check_filter(const struct filter *f, struct err *err)
{
    const struct header *h = &f->header;
    if (h->n_layers != 1)
        return fail(err, "'%s' cannot be compared: it has %u layers; make it again from its keys",
                    f->path, h->n_layers);
    if ((h->compat & COMPAT_INTERSECTED) != 0)
        return fail(err,
                    "'%s' is an intersection, whose bits do not tell how many keys two filters "
                    "share; compare the filters that it was made of",
                    f->path);
    if ((h->compat & COMPAT_SUBTRACTED) != 0)
        return fail(err,
                    "'%s' is a difference, whose fingerprints do not tell how many keys two sets "
                    "share; compare the sets that it was made of",
                    f->path);
    return kind_counts(h->layers[0].kind) || h->layers[0].kind->table != NULL ||
           fail(err,
                "'%s' is of kind %s, whose bits do not tell how many keys two filters share; "
                "counted sets do: 'seen create --counted'",
                f->path, format_kind_name(h));
}

static bool check_both(const struct filter *in, struct err *err)
{
    const struct layer *a = &in[0].header.layers[0], *b = &in[1].header.layers[0];
    if (!check_filter(&in[0], err) || !check_filter(&in[1], err))
        return false;
    if (a->kind != b->kind)
        return fail(err,
                    "'%s' is of kind %s and '%s' of kind %s; filters of two kinds cannot be "
                    "compared",
                    in[0].path, a->kind->name, in[1].path, b->kind->name);
    return kind_counts(a->kind) || a->kind->table->alike(a, b) ||
           fail(err,
                "'%s' and '%s' differ in size or number of probes, so they cannot be "
                "compared; make them with --like one of them",
                in[0].path, in[1].path);
}

static bool compare_counted(const struct assembly *m, const struct layer *const *layer,
                            const uint8_t *const *data, struct compared *c, struct err *err)
{
    const struct counts_seen *seen = &c->seen;
    c->bits = combine_bits(layer, 2);
    c->exact = c->bits == 64;
    if (!c->kind->counts->combine(COUNTS_INTERSECT, layer, data, 2, NULL, m->threads, &c->seen,
                                  err))
        return false;
    if (!c->exact)
        return overlap_fingerprints(seen->a, seen->b, seen->both, c->bits, &c->overlap) ||
               too_full(m->in, err);
    overlap_exact(seen->a, seen->b, seen->both, &c->overlap);
    return true;
}

bool compare_inputs(const struct assembly *m, struct compared *c, struct err *err)
{
    const struct filter *in = m->in;
    const struct layer *layer[2] = {&in[0].header.layers[0], &in[1].header.layers[0]};
    const uint8_t *data[2] = {in[0].data[0], in[1].data[0]};
    struct pair_census pair;
    if (!check_both(in, err))
        return false;
    *c = (struct compared){.kind = layer[0]->kind};
    if (kind_counts(c->kind)) {
        if (!compare_counted(m, layer, data, c, err))
            return false;
    } else if (table_pair(layer, data, m->threads, &pair)) {
        overlap_estimate(&pair, &c->overlap);
    } else {
        return too_full(in, err);
    }
    return assembly_check_intact(m, err);
}
