/* SPDX-License-Identifier: MIT */
#include "write/assembly.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/output.h"
#include "kind/foreign.h"
#include "kind/table.h"
#include "file/chain.h"
#include "write/combine.h"
#include "file/header.h"

/* A layer of an input that goes into layer `to` of the result. */
struct make_source {
    const struct layer *layer;
    const uint8_t *data;
    unsigned to;
    enum make_meets meets; /* stays when the layers are placed again */
};

/* ---- The frame. */

static bool open_input(struct assembly *m, const char *path, const char *done, struct err *err)
{
    struct filter *f = &m->in[m->n_in];
    if (!filter_open(f, path, FILTER_READ, err))
        return false;
    m->n_in++;
    return header_check_same(&m->in[0].header, m->in[0].path, &f->header, path, done, err);
}

static bool open_output(struct assembly *m, bool hold, struct err *err)
{
    return newfile_open(&m->file, m->out, m->replace, err) &&
           (!m->prints || output_is_apart(m->file.old_fd, m->out, err)) &&
           (!hold || newfile_hold(&m->file, err));
}

static bool open_all(struct assembly *m, const char *const *paths, unsigned n, const char *done,
                     struct err *err)
{
    if (m->out != NULL && !open_output(m, n > 0, err))
        return false;
    if (n == 0)
        return true;
    m->in = calloc(n, sizeof *m->in);
    m->source = calloc((size_t)n * FORMAT_MAX_LAYERS, sizeof *m->source);
    if (m->in == NULL || m->source == NULL)
        return fail(err, "out of memory");
    for (unsigned i = 0; i < n; i++) {
        if (!open_input(m, paths[i], done, err))
            return false;
        m->replaces_input |= m->out != NULL && newfile_replaces(&m->file, m->in[i].fd);
    }
    if (m->out != NULL && !m->replaces_input)
        newfile_let_go(&m->file);
    return true;
}

bool assembly_open(struct assembly *m, char *const *paths, unsigned n, const char *done,
                   struct err *err)
{
    return open_all(m, (const char *const *)paths, n, done, err);
}

bool assembly_open_one(struct assembly *m, const char *path, struct err *err)
{
    return open_all(m, &path, path != NULL, "", err);
}

bool assembly_check_sound(const struct assembly *m, struct err *err)
{
    for (unsigned i = 0; i < m->n_in; i++)
        if (!filter_check_sound(&m->in[i], m->threads, err))
            return false;
    return true;
}

bool assembly_check_intact(const struct assembly *m, struct err *err)
{
    for (unsigned i = 0; i < m->n_in; i++)
        if (!filter_check_intact(&m->in[i], err))
            return false;
    return true;
}

bool assembly_commit(struct assembly *m, struct err *err)
{
    bool ok = assembly_check_intact(m, err) && header_commit(&m->header, &m->file, m->out, err);
    if (m->replaces_input && !m->intersects)
        m->file.attached = false; /* the new file has the writers' keys */
    /* Writers of a replaced file need not wait for what the command prints. */
    newfile_close(&m->file);
    return ok;
}

void assembly_close(struct assembly *m)
{
    for (unsigned i = 0; i < m->n_in; i++)
        filter_close(&m->in[i]);
    newfile_close(&m->file);
    free(m->in);
    free(m->source);
}

/* Begins the header of a result that has the keys of all inputs. If it replaces an input, writers
 * of that file go on with it. */
static void begin_header(struct assembly *m)
{
    header_begin_like(&m->header, &m->in[0].header, m->reproducible);
    for (unsigned i = 0; i < m->n_in && !m->intersects && !m->reproducible; i++)
        if (newfile_replaces(&m->file, m->in[i].fd))
            filter_successor_id(&m->in[i], m->header.id);
}

static void add_source(struct assembly *m, const struct filter *f, unsigned i, unsigned to)
{
    struct make_source *s = &m->source[m->n_sources++];
    s->layer = &f->header.layers[i];
    s->data = f->data[i];
    s->to = to;
    m->layer[to].n++;
    m->layer[to].fpr_design += s->layer->fpr_design;
}

/* Writes layer `to`: its sources united; copied where the kind has no union; or, with `drop`, its
 * one source with shorter fingerprints. `layer` and `data` have room for all sources. */
static bool write_layer(struct assembly *m, unsigned to, bool drop, const struct layer **layer,
                        const uint8_t **data, struct err *err)
{
    struct target t = header_target(&m->header, to, m->file.fd, m->out, m->threads);
    struct union_of parts = {.layer = layer, .data = data, .intersect = m->intersects};
    for (size_t s = 0; s < m->n_sources; s++)
        if (m->source[s].to == to) {
            layer[parts.n] = m->source[s].layer;
            data[parts.n++] = m->source[s].data;
        }
    const struct kind *kind = t.layer->kind;
    struct census *census = &m->each[to];
    if (kind_unites(kind))
        return table_write_union(&t, &parts, census, err);
    *census = (struct census){0};
    kind->census(layer[0], data[0], m->threads, census);
    return drop ? kind->dropping->write(&t, layer[0], data[0], &census->fpr, err)
                : target_copy(&t, data[0], err);
}

/* Writes all layers of m->header. In order: the offset of a layer depends on the lengths of those
 * before it, which `drop` changes. */
static bool write_layers(struct assembly *m, bool drop, struct err *err)
{
    const struct layer **layer = calloc(m->n_sources, sizeof *layer);
    const uint8_t **data = calloc(m->n_sources, sizeof *data);
    bool room = layer != NULL && data != NULL;
    bool ok = room ? header_reserve(&m->header, &m->file, err) : fail(err, "out of memory");
    for (unsigned i = 0; ok && i < m->header.n_layers; i++)
        ok = write_layer(m, i, drop, layer, data, err);
    free(layer);
    free(data);
    layers_census_whole(&m->header, m->each, &m->census);
    return ok;
}

/* ---- Union and intersection. */

/* Can a layer be united with layer `to` of the result, into `united`? */
static bool fits(const struct assembly *m, unsigned to, const struct layer *layer,
                 enum make_meets meets, struct layer *united)
{
    const struct layer *with = &m->header.layers[to];
    return meets == m->layer[to].meets && meets != MEETS_NONE && with->kind == layer->kind &&
           kind_unites(layer->kind) && table_unite(with, layer, united) &&
           (meets == MEETS_FITTING || with->data_len == layer->data_len);
}

static bool fail_intersection(struct err *err)
{
    return fail(err, "only Bloom filters of the same size and number of probes, of one layer each, "
                     "can be intersected; make them with --like one of them");
}

/* A file can hold no more layers, and this one can be united with none of them. */
static bool fail_full(const struct assembly *m, const struct layer *layer, struct err *err)
{
    bool joins = !kind_unites(layer->kind), full = m->source[m->n_sources].meets == MEETS_NONE;
    for (unsigned i = 0; i < m->header.n_layers; i++)
        joins |= !kind_unites(m->header.layers[i].kind);
    if (m->intersects)
        return fail_intersection(err);
    if (joins)
        return fail(err,
                    "too many filters: a compact one stays a layer of its own, and a file has at "
                    "most %d; make one filter of all keys with 'seen create --compact', or Bloom "
                    "filters with the same --capacity, for all keys, to merge them bit by bit",
                    FORMAT_MAX_LAYERS);
    return fail(err,
                full ? "the filters have too many keys for one layer, and a file has at most %d "
                       "layers; merge some of them first, or make them with --like one whose "
                       "--capacity is for the keys of all"
                     : "the filters are of more than %d different sizes, too many for one file; "
                       "make them with --like one of them",
                FORMAT_MAX_LAYERS);
}

/* Unites an input's layer with one of the result that it fits, or makes it a layer of its own. */
static bool place_layer(struct assembly *m, const struct filter *f, unsigned which, struct err *err)
{
    struct header *h = &m->header;
    const struct layer *layer = &f->header.layers[which];
    enum make_meets meets = m->source[m->n_sources].meets;
    struct layer united = *layer;
    unsigned to = 0;
    while (to < h->n_layers && !fits(m, to, layer, meets, &united))
        to++;
    if (to == FORMAT_MAX_LAYERS)
        return fail_full(m, layer, err);
    if (to == h->n_layers) {
        h->n_layers++;
        united = *layer;
        m->layer[to].meets = meets;
    }
    h->layers[to] = united;
    add_source(m, f, which, to);
    return true;
}

static bool is_of_one_size(const struct assembly *m)
{
    const struct layer *first = &m->header.layers[0];
    bool same = m->header.n_layers == 1 && m->layer[0].n == m->n_in && kind_unites(first->kind);
    for (unsigned i = 0; same && i < m->n_in; i++)
        same = m->in[i].header.n_layers == 1 &&
               (!kind_folds(first->kind) || m->in[i].header.layers[0].data_len == first->data_len);
    return same;
}

/* Keys are added to the last layer, so layers that take no keys come first. */
static bool place_layers(struct assembly *m, struct err *err)
{
    for (int takes_keys = 0; takes_keys < 2; takes_keys++)
        for (unsigned i = 0; i < m->n_in; i++)
            for (unsigned l = 0; l < m->in[i].header.n_layers; l++) {
                const struct layer *layer = &m->in[i].header.layers[l];
                if (!format_is_void(&m->in[i].header, l) &&
                    kind_takes_keys(layer->kind) == (takes_keys != 0) &&
                    !place_layer(m, &m->in[i], l, err))
                    return false;
            }
    return !m->intersects || is_of_one_size(m) || fail_intersection(err);
}

/* Completes the header of the placed layers. */
static void union_header(struct assembly *m)
{
    struct header *h = &m->header;
    double absent = 1;
    for (unsigned i = 1; i < m->n_in; i++)
        header_join_keys(h, &m->in[i].header);
    if (m->intersects && m->n_in > 1)
        h->compat |= COMPAT_INTERSECTED;
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
    format_place(h);
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
static void make_growing(struct assembly *m, double limit)
{
    struct header *h = &m->header;
    unsigned newest = h->n_layers - 1;
    double used = 0, promised = 0;
    for (unsigned i = 0; i < m->n_in; i++)
        promised = fmax(promised, m->in[i].header.fpr_design);
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        double fpr = m->each[i].fpr;
        layer->generation = i + 1;
        used += i == newest ? fmax(layer->fpr_design, fpr) : fpr;
    }
    h->layers[newest].since = h->created;
    h->policy = POLICY_GROW;
    h->n_design = 0;
    double wanted = used / chain_sized, most = limit / MAKE_FPR_SLACK;
    h->fpr_design = format_rate(fmax(promised, used < most ? fmin(wanted, most) : wanted));
    if (h->n_layers > 1)
        h->compat |= COMPAT_JOINED;
}

/* Counts the keys that the bits of each layer show, as if each had been given once, in this order.
 */
static void count_keys(struct assembly *m)
{
    struct header *h = &m->header;
    uint64_t n = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        h->layers[i].n_before = n;
        n += (uint64_t)round(m->each[i].n);
        if (i + 1 < h->n_layers)
            h->layers[i].fpr_closed = m->each[i].fpr;
    }
    /* A program that counts goes on with the sum of its counts. */
    const struct kind *kind = h->layers[0].kind;
    if (kind_is_foreign(kind) && kind->layout->counts && !m->intersects && !chain_is_exact(h)) {
        n = 0;
        for (unsigned i = 0; i < m->n_in; i++)
            n += m->in[i].header.counters.keys_added;
    }
    h->made = n;
    h->counters = (struct counters){.records = n, .keys_added = n};
    h->compat |= COMPAT_ESTIMATED;
}

static bool unite(struct assembly *m, struct err *err)
{
    begin_header(m);
    memset(m->layer, 0, sizeof m->layer);
    m->n_sources = 0;
    if (!place_layers(m, err))
        return false;
    union_header(m);
    return write_layers(m, false, err);
}

/* Takes apart the layers of the result that are fuller than `slack` times the design rates of their
 * sources: if these are of several sizes, those of one size stay together. False: there are none.
 */
static bool take_apart(struct assembly *m, double slack)
{
    bool any = false;
    for (unsigned i = 0; i < m->header.n_layers; i++) {
        const struct layer *made = &m->header.layers[i];
        bool equal = true;
        if (m->layer[i].n < 2 || !kind_folds(made->kind) ||
            m->each[i].fpr <= slack * m->layer[i].fpr_design)
            continue;
        for (size_t s = 0; s < m->n_sources; s++)
            equal &= m->source[s].to != i || m->source[s].layer->data_len == made->data_len;
        for (size_t s = 0; s < m->n_sources; s++)
            if (m->source[s].to == i)
                m->source[s].meets = equal ? MEETS_NONE : MEETS_EQUAL;
        any = true;
    }
    return any;
}

bool assembly_union(struct assembly *m, bool intersect, double limit, struct err *err)
{
    double design = 0;
    m->intersects = intersect;
    for (unsigned i = 0; i < m->n_in; i++)
        design += m->in[i].header.fpr_design;
    bool ok = unite(m, err);
    /* What grows keeps a part of the limit for further layers. */
    while (ok && m->census.fpr > (grows(m) ? chain_sized : 1) * limit && !intersect &&
           take_apart(m, limit / design))
        ok = unite(m, err);
    if (!ok)
        return false;
    count_keys(m);
    if (grows(m))
        make_growing(m, limit);
    layers_census_whole(&m->header, m->each, &m->census);
    return true;
}

/* ---- Folding. */

static bool can_fold(const struct header *h)
{
    bool any = false;
    for (unsigned i = 0; i < h->n_layers; i++)
        any |= kind_folds(h->layers[i].kind);
    return any;
}

static const struct layer *from_layer(const struct assembly *m, unsigned i)
{
    return &m->in[0].header.layers[i];
}

/* The part of the rate p that a layer gets. Layers keep the proportion of their rates. */
static double share(const struct assembly *m, unsigned i, double p)
{
    return format_rate(from_layer(m, i)->fpr_design * p / m->in[0].header.fpr_design);
}

/* Makes `out` the smallest layer into which layer i folds and whose bits keep its part of the rate
 * p; layer i itself if there is none. The bits differ from the design's formula by a few per cent
 * at most, so sizes are tried from the one that may do. */
static void fold_layer(const struct assembly *m, unsigned i, double p, struct layer *out)
{
    const struct layer *layer = from_layer(m, i);
    const uint8_t *data = m->in[0].data[i];
    struct census now, folded;
    layers_census(filter_layers(&m->in[0]), i, m->threads, &now);
    out->data_len = 0;
    do {
        layer->kind->uniting->fold(layer, now.n, 1.05 * share(m, i, p), out->data_len, out);
        if (out->data_len == layer->data_len)
            return;
        table_census_folded(layer, data, out, m->threads, &folded);
    } while (folded.fpr > share(m, i, p));
}

/* Makes the header, with the layers folded. */
static void fold_header(struct assembly *m, double p)
{
    const struct header *from = &m->in[0].header;
    struct header *h = &m->header;
    begin_header(m);
    h->policy = from->policy;
    h->fpr_design = p;
    h->counters = from->counters;
    h->made = from->made;
    h->n_layers = from->n_layers;
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        *layer = from->layers[i];
        add_source(m, &m->in[0], i, i);
        if (kind_folds(layer->kind)) {
            fold_layer(m, i, p, layer);
            layer->fpr_design = share(m, i, p);
            if (layer->data_len < from->layers[i].data_len || layer->n_design == 0)
                layer->n_design = (uint64_t)fmax(1, layer_n_at(layer, layer->fpr_design));
        }
        if (m->reproducible)
            layer->since = 0;
        if (from->n_design != 0)
            h->n_design += layer->n_design;
    }
    format_place(h);
}

/* The counters match the bits that were read if the file was clean and no writer has come since. A
 * writer writes a header before it changes a bit. */
static bool counters_hold(const struct filter *f)
{
    atomic_thread_fence(memory_order_acquire);
    return f->header.state == STATE_CLEAN && !filter_changed(f);
}

static bool fold(struct assembly *m, double p, struct err *err)
{
    char had[NUM_TEXT], wanted[NUM_TEXT];
    struct header *h = &m->header;
    fold_header(m, p);
    if (!write_layers(m, false, err))
        return false;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (h->layers[i].fpr_closed > 0 && h->layers[i].data_len < from_layer(m, i)->data_len)
            h->layers[i].fpr_closed = m->each[i].fpr;
    if (m->census.fpr > p)
        return fail(err, "'%s' has a false-positive rate of %s already, more than %s",
                    m->in[0].path, num_show_fpr(had, m->census.fpr), num_show_fpr(wanted, p));
    /* How many keys older layers took for known before they were folded is unknown. */
    bool given_at_once = h->made == h->counters.keys_added && counters_hold(&m->in[0]);
    if (!given_at_once && !format_forgets(h))
        count_keys(m);
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

static bool drop(struct assembly *m, double p, struct err *err)
{
    const struct header *from = &m->in[0].header;
    struct header *h = &m->header;
    char had[NUM_TEXT], wanted[NUM_TEXT];
    if (p < from->fpr_design)
        return fail(err, "'%s' was made for an FPR of %s; lowering it to %s needs the keys",
                    m->in[0].path, num_show_fpr(had, from->fpr_design), num_show_fpr(wanted, p));
    if (!kind_check_fpr(from->layers[0].kind, p, err))
        return false;
    begin_header(m);
    h->counters = from->counters;
    h->made = from->made;
    h->n_layers = from->n_layers;
    h->n_design = from->n_design;
    h->fpr_design = p;
    for (unsigned i = 0; i < h->n_layers; i++) {
        add_source(m, &m->in[0], i, i);
        from->layers[i].kind->dropping->drop(&from->layers[i], share(m, i, p), &h->layers[i]);
        h->layers[i].fpr_design = share(m, i, p);
    }
    format_place(h);
    return write_layers(m, true, err);
}

/* The fewest bits, up to `bits`, for which n / 2^bits is at most p. */
static unsigned bits_for(double n, double p, unsigned bits)
{
    while (bits > 1 && ldexp(fmax(1, n), 1 - (int)bits) <= p)
        bits--;
    return bits;
}

/* The same for a counted set. */
static bool narrow(struct assembly *m, double p, struct err *err)
{
    char fpr[NUM_TEXT], wanted[NUM_TEXT];
    const struct filter *f = &m->in[0];
    const struct layer *layer = &f->header.layers[0];
    const uint8_t *data = f->data[0];
    struct census census;
    layers_census(filter_layers(f), 0, m->threads, &census);
    if (census.fpr > p)
        return fail(err, "'%s' has a false-positive rate of %s already, more than %s", f->path,
                    num_show_fpr(fpr, census.fpr), num_show_fpr(wanted, p));
    unsigned bits = layer_fingerprint(layer);
    struct combine c = {.op = COUNTS_ADD,
                        .layer = &layer,
                        .data = &data,
                        .n = 1,
                        .keys = &f->header,
                        .bits = bits_for(census.n, p, bits),
                        .threads = m->threads,
                        .reproducible = m->reproducible};
    combine_header(&c);
    struct layer *made = &c.header.layers[0];
    c.header.fpr_design = made->fpr_design = p;
    if (c.bits < bits)
        c.header.n_design = made->n_design = (uint64_t)fmax(1, layer_n_at(made, p));
    /* Batches applied to FILTER must not be applied again to the file that replaces it. */
    if (m->replaces_input)
        combine_keep_batches(&c, &f->header);
    if (!combine_write(&c, &m->file, m->out, err))
        return false;
    m->header = c.header;
    layers_census_whole(&m->header, &census, &m->census);
    m->census.fpr = combine_fpr(&c);
    return true;
}

static bool check_shrinks(const struct assembly *m, double p, struct err *err)
{
    const struct header *h = &m->in[0].header;
    if (!can_fold(h) && !can_drop(h) && !combine_counts(h))
        return fail(err, "'%s' is of kind %s, which cannot be folded", m->in[0].path,
                    format_kind_name(h));
    if (can_drop(h) && p == 0)
        return fail(err,
                    "'%s' is a compact filter, which gets smaller only at a higher FPR: give it "
                    "with --fpr P",
                    m->in[0].path);
    return !format_forgets(h) ||
           fail(err, "'%s' has generations, which cannot be folded", m->in[0].path);
}

bool assembly_shrink(struct assembly *m, double p, struct err *err)
{
    const struct header *h = &m->in[0].header;
    if (!check_shrinks(m, p, err) || !assembly_check_sound(m, err))
        return false;
    if (p == 0)
        p = h->fpr_design;
    if (combine_counts(h))
        return narrow(m, p, err) && assembly_commit(m, err);
    if (can_drop(h))
        return drop(m, p, err) && assembly_commit(m, err);
    return fold(m, p, err) && assembly_commit(m, err);
}
