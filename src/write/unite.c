/* SPDX-License-Identifier: MIT */
#include "write/unite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kind/table.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/layers.h"

/* With which layers of a union a layer is united: those that it fits, folded if need be, those of
 * its size, or none. */
enum meets { MEETS_FITTING, MEETS_EQUAL, MEETS_NONE };

/* A layer of an input that goes into layer `to` of the result. */
struct unite_source {
    const struct layer *layer;
    const uint8_t *data;
    unsigned to;
    enum meets meets; /* stays when the layers are placed again */
};

/* A layer of the result. */
struct unite_layer {
    double fpr_design; /* the sum of its sources' */
    unsigned n;        /* sources */
    enum meets meets;
};

struct unite {
    struct assembly *to;
    bool intersects;
    struct unite_source *source;
    size_t n_sources;
    struct unite_layer layer[FORMAT_MAX_LAYERS];
    /* The sources in the order of the layers that they go into. */
    const struct layer **part;
    const uint8_t **part_data;
};

/* Can a layer be united with layer `to` of the result, into `united`? */
static bool fits(const struct unite *u, unsigned to, const struct layer *layer, enum meets meets,
                 struct layer *united)
{
    const struct layer *with = &u->to->header.layers[to];
    return meets == u->layer[to].meets && meets != MEETS_NONE && with->kind == layer->kind &&
           kind_unites(layer->kind) && table_unite(with, layer, united) &&
           (meets == MEETS_FITTING || with->data_len == layer->data_len);
}

static bool fail_intersection(struct err *err)
{
    return fail(err, "only Bloom filters of the same size and number of probes, of one layer each, "
                     "can be intersected; make them with --like one of them");
}

/* A file can hold no more layers, and this one can be united with none of them. */
static bool fail_full(const struct unite *u, const struct layer *layer, struct err *err)
{
    bool joins = !kind_unites(layer->kind), full = u->source[u->n_sources].meets == MEETS_NONE;
    for (unsigned i = 0; i < u->to->header.n_layers; i++)
        joins |= !kind_unites(u->to->header.layers[i].kind);
    if (u->intersects)
        return fail_intersection(err);
    if (joins)
        return fail(
            err,
            "too many filters: a compact one stays a layer of its own, and a merged file has "
            "at most %d; make one filter of all keys with 'seen create --compact', or Bloom "
            "filters with the same --capacity, for all keys, to merge them bit by bit",
            UNITE_LAYERS);
    return fail(
        err,
        full ? "the filters have too many keys for one layer, and a merged file has at "
               "most %d layers; merge some of them first, or make them with --like one whose "
               "--capacity is for the keys of all"
             : "the filters are of more than %d different sizes, too many for one file; "
               "make them with --like one of them",
        UNITE_LAYERS);
}

/* Unites an input's layer with one of the result that it fits, or makes it a layer of its own. */
static bool place_layer(struct unite *u, const struct filter *f, unsigned which, struct err *err)
{
    struct header *h = &u->to->header;
    const struct layer *layer = &f->header.layers[which];
    enum meets meets = u->source[u->n_sources].meets;
    struct layer united = *layer;
    unsigned to = 0;
    while (to < h->n_layers && !fits(u, to, layer, meets, &united))
        to++;
    if (to == UNITE_LAYERS)
        return fail_full(u, layer, err);
    if (to == h->n_layers) {
        h->n_layers++;
        united = *layer;
        u->layer[to].meets = meets;
    }
    h->layers[to] = united;
    struct unite_source *s = &u->source[u->n_sources++];
    s->layer = layer;
    s->data = f->data[which];
    s->to = to;
    u->layer[to].n++;
    u->layer[to].fpr_design += layer->fpr_design;
    return true;
}

static bool is_of_one_size(const struct unite *u)
{
    const struct layer *first = &u->to->header.layers[0];
    bool same =
        u->to->header.n_layers == 1 && u->layer[0].n == u->to->n_in && kind_unites(first->kind);
    for (unsigned i = 0; same && i < u->to->n_in; i++)
        same =
            u->to->in[i].header.n_layers == 1 &&
            (!kind_folds(first->kind) || u->to->in[i].header.layers[0].data_len == first->data_len);
    return same;
}

/* Keys are added to the last layer, so layers that take no keys come first. */
static bool place_layers(struct unite *u, struct err *err)
{
    for (int takes_keys = 0; takes_keys < 2; takes_keys++)
        for (unsigned i = 0; i < u->to->n_in; i++)
            for (unsigned l = 0; l < u->to->in[i].header.n_layers; l++) {
                const struct layer *layer = &u->to->in[i].header.layers[l];
                if (!format_is_over(&u->to->in[i].header, l) &&
                    kind_takes_keys(layer->kind) == (takes_keys != 0) &&
                    !place_layer(u, &u->to->in[i], l, err))
                    return false;
            }
    if (u->to->header.n_layers == 0)
        return fail(err, "'%s' has forgotten all its keys", u->to->in[0].path);
    return !u->intersects || is_of_one_size(u) || fail_intersection(err);
}

/* Completes the header of the placed layers. */
static void union_header(struct unite *u)
{
    struct header *h = &u->to->header;
    double absent = 1;
    if (u->intersects && u->to->n_in > 1) {
        h->compat |= COMPAT_INTERSECTED;
        header_forget_profile(h);
    }
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i], from = *layer;
        *layer = (struct layer){.kind = from.kind,
                                .n_design = from.n_design,
                                .fpr_design = from.fpr_design,
                                .data_len = from.data_len};
        memcpy(layer->geometry, from.geometry, sizeof from.geometry);
        h->n_design += layer->n_design;
        absent *= 1 - layer->fpr_design;
    }
    h->fpr_design = h->n_layers == 1 ? h->layers[0].fpr_design : format_rate(1 - absent);
    h->compat &= ~(uint32_t)COMPAT_JOINED;
}

/* Does the result grow? It does unless every input is one to which no layer is added, as filters of
 * fixed size and compact ones. */
static bool grows(const struct assembly *m)
{
    bool any = false;
    for (unsigned i = 0; i < m->n_in; i++)
        any |= format_grows(&m->in[i].header) || format_forgets(&m->in[i].header);
    return any && !kind_is_foreign(m->header.layers[0].kind) && !format_is_immutable(&m->header);
}

/* Makes the result one that grows. It promises a rate that leaves a part for further layers: that
 * of the inputs together (`limit`), or less if fewer layers than theirs take the keys. */
static void let_grow(struct assembly *m, double limit)
{
    struct header *h = &m->header;
    double used = 0, promised = 0;
    for (unsigned i = 0; i < m->n_in; i++)
        promised = fmax(promised, m->in[i].header.fpr_design);
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        layer->generation = i + 1;
        layer->fpr_design = format_rate(fmax(layer->fpr_design, m->each[i].fpr));
        used += layer->fpr_design;
    }
    h->layers[h->n_layers - 1].since = h->created;
    h->policy = POLICY_GROW;
    h->n_design = 0;
    double wanted = used / chain_sized, most = limit / UNITE_FPR_SLACK;
    h->fpr_design = format_rate(fmax(promised, used < most ? fmin(wanted, most) : wanted));
    if (h->n_layers > 1)
        h->compat |= COMPAT_JOINED;
}

/* Plans the layers of the result: their sources united, or copied where the kind has no union. */
static void plan_layers(struct unite *u)
{
    struct assembly *a = u->to;
    size_t at = 0;
    for (unsigned i = 0; i < a->header.n_layers; i++) {
        const size_t first = at;
        for (size_t s = 0; s < u->n_sources; s++)
            if (u->source[s].to == i) {
                u->part[at] = u->source[s].layer;
                u->part_data[at++] = u->source[s].data;
            }
        assembly_take(a, i, FROM_COPY, u->part[first], u->part_data[first]);
        if (kind_unites(a->header.layers[i].kind))
            a->origin[i] = (struct origin){.how = FROM_TABLES,
                                           .parts = {.n = (unsigned)(at - first),
                                                     .layer = u->part + first,
                                                     .data = u->part_data + first,
                                                     .intersect = u->intersects}};
    }
}

static bool write_united(struct unite *u, struct err *err)
{
    struct assembly *a = u->to;
    assembly_like(a);
    if (!u->intersects)
        assembly_succeed(a);
    memset(u->layer, 0, sizeof u->layer);
    u->n_sources = 0;
    if (!place_layers(u, err))
        return false;
    union_header(u);
    plan_layers(u);
    if (!assembly_write(a, err))
        return false;
    for (unsigned i = 0; i < a->header.n_layers; i++) {
        const struct origin *o = &a->origin[i];
        if (o->how == FROM_COPY)
            o->layer->kind->census(o->layer, o->data, a->threads, &a->each[i]);
    }
    layers_census_whole(&a->header, a->each, &a->census);
    return true;
}

/* Takes apart the layers of the result that are fuller than `slack` times the design rates of their
 * sources: if these are of several sizes, those of one size stay together. False: there are none.
 */
static bool take_apart(struct unite *u, double slack)
{
    bool any = false;
    for (unsigned i = 0; i < u->to->header.n_layers; i++) {
        const struct layer *made = &u->to->header.layers[i];
        bool equal = true;
        if (u->layer[i].n < 2 || !kind_folds(made->kind) ||
            u->to->each[i].fpr <= slack * u->layer[i].fpr_design)
            continue;
        for (size_t s = 0; s < u->n_sources; s++)
            equal &= u->source[s].to != i || u->source[s].layer->data_len == made->data_len;
        for (size_t s = 0; s < u->n_sources; s++)
            if (u->source[s].to == i)
                u->source[s].meets = equal ? MEETS_NONE : MEETS_EQUAL;
        any = true;
    }
    return any;
}

/* A program that counts goes on with the sum of its counts. */
static void count_union(struct unite *u)
{
    struct assembly *a = u->to;
    const struct kind *kind = a->header.layers[0].kind;
    uint64_t n = 0;
    assembly_count(a, NULL);
    if (!kind_is_foreign(kind) || !kind->layout->counts || u->intersects ||
        chain_is_exact(&a->header))
        return;
    for (unsigned i = 0; i < a->n_in; i++)
        n += a->in[i].header.counters.keys_added;
    a->header.made = n;
    a->header.counters = (struct counters){.records = n, .keys_added = n};
}

static bool unite(struct unite *u, double limit, struct err *err)
{
    struct assembly *a = u->to;
    double design = 0;
    for (unsigned i = 0; i < a->n_in; i++)
        design += a->in[i].header.fpr_design;
    bool ok = write_united(u, err);
    /* What grows keeps a part of the limit for further layers. */
    while (ok && a->census.fpr > (grows(a) ? chain_sized : 1) * limit && !u->intersects &&
           take_apart(u, limit / design))
        ok = write_united(u, err);
    if (!ok)
        return false;
    count_union(u);
    if (grows(a))
        let_grow(a, limit);
    layers_census_whole(&a->header, a->each, &a->census);
    return true;
}

bool unite_inputs(struct assembly *a, bool intersect, double limit, struct err *err)
{
    const size_t room = (size_t)a->n_in * FORMAT_MAX_LAYERS;
    struct unite u = {.to = a, .intersects = intersect};
    u.source = calloc(room, sizeof *u.source);
    u.part = calloc(room, sizeof *u.part);
    u.part_data = calloc(room, sizeof *u.part_data);
    a->loses_keys = intersect;
    bool ok = u.source != NULL && u.part != NULL && u.part_data != NULL
                  ? unite(&u, limit, err)
                  : fail(err, "out of memory");
    free(u.source);
    free(u.part);
    free(u.part_data);
    return ok;
}
