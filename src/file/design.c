/* SPDX-License-Identifier: MIT */
#include "file/design.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "keys/digest.h"
#include "keys/encoding.h"
#include "keys/prep.h"
#include "keys/rule.h"
#include "file/chain.h"
#include "file/format.h"

_Static_assert((int)LAYOUT_LAYERS == (int)FORMAT_MAX_LAYERS, "a filter file holds them all");

/* ---- Plans. */

/* With a given n and size, a filter with a higher FPR than this would be useless. */
static const double WORST_FPR = 0.5;

double plan_least_fpr(uint64_t n)
{
    return (n > 0 ? (double)n : 1) * 0x1p-64;
}

/* The smallest p for n keys. Hash collisions alone give an FPR of n / 2^64, which must not exceed
 * the kind's share of p. */
static double hash_floor(const struct plan *plan)
{
    return (double)plan->n * 0x1p-64 / plan->kind->sizing->hash_share;
}

/* The most bytes of data, in whole pages, that a file of at most `size` bytes can hold; 0 if not
 * even one page fits. */
static uint64_t data_within(const struct kind *kind, uint64_t size)
{
    uint64_t low = 0, high = size / LAYER_PAGE;
    while (low < high) {
        uint64_t pages = high - (high - low) / 2;
        struct layer layer = {.kind = kind, .data_len = pages * LAYER_PAGE};
        if (format_file_len(&layer) <= size)
            low = pages;
        else
            high = pages - 1;
    }
    return low * LAYER_PAGE;
}

static bool check_fpr(const struct plan *plan, struct err *err)
{
    char p[NUM_TEXT], n[NUM_TEXT], least[NUM_TEXT];
    num_show_fpr(p, plan->p);
    if (!kind_check_fpr(plan->kind, plan->p, err))
        return false;
    num_show_count(n, (double)plan->n);
    if (hash_floor(plan) > WORST_FPR)
        return fail(err, "%s keys are more than 64-bit hashes can tell apart", n);
    return plan->p >= hash_floor(plan) ||
           fail(err, "an FPR of %s is too small for %s keys: 64-bit hashes allow %s or more", p, n,
                num_show_least_fpr(least, hash_floor(plan)));
}

/* Sizes the layer for n and p. */
static bool solve_layer(struct plan *plan, struct err *err)
{
    char n[NUM_TEXT], p[NUM_TEXT], limit[NUM_TEXT];
    if (!check_fpr(plan, err))
        return false;
    double rate = plan->grows ? chain_sized * plan->p : plan->p;
    uint64_t room = plan->grows ? chain_room(plan->kind, plan->n, rate) : plan->n;
    return plan->kind->sizing->size(room, rate, &plan->layer) ||
           fail(err, "%s keys at an FPR of %s need a file larger than %s",
                num_show_count(n, (double)plan->n), num_show_fpr(p, plan->p),
                num_show_bytes(limit, plan->kind->sizing->len_max));
}

static bool length_varies(const struct kind *kind)
{
    return kind->sizing->best == NULL;
}

/* Lengths that depend on the keys are estimates, so 1 % of a given size is reserved. */
static uint64_t kept_back(const struct kind *kind, uint64_t size)
{
    return length_varies(kind) ? size - size / 100 : size;
}

static bool too_small(const struct plan *plan, struct err *err)
{
    char n[NUM_TEXT], size[NUM_TEXT], need[NUM_TEXT], worst[NUM_TEXT];
    struct layer enough = {0};
    num_show_count(n, (double)plan->n);
    num_show_bytes(size, plan->size);
    if (!plan->kind->sizing->size(plan->n, WORST_FPR, &enough))
        return fail(err, "%s is too small for %s keys", size, n);
    uint64_t len = format_file_len(&enough); /* kept_back of the size that is shown */
    num_show_least_bytes(need, length_varies(plan->kind) ? len + len / 99 : len);
    return fail(err, "%s is too small for %s keys: for an FPR of %s it takes %s", size, n,
                num_show_fpr(worst, WORST_FPR), need);
}

/* Searches the smallest FPR, at least `least`, of a file of that size; 1 if there is none. */
static double search_fpr(const struct plan *plan, uint64_t size, double least)
{
    double low = least, high = plan->kind->sizing->fpr_max;
    struct layer layer = {0};
    if (!plan->kind->sizing->size(plan->n, high, &layer) || format_file_len(&layer) > size)
        return 1;
    while (high / low > 1.0001) {
        double middle = sqrt(low * high);
        if (plan->kind->sizing->size(plan->n, middle, &layer) && format_file_len(&layer) <= size)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static bool solve_fpr(struct plan *plan, uint64_t data_len, struct err *err)
{
    /* Promise no smaller FPR than 64-bit hashes allow. */
    double least = fmax(plan->kind->sizing->fpr_min, hash_floor(plan));
    if (length_varies(plan->kind)) {
        plan->p = search_fpr(plan, kept_back(plan->kind, plan->size), least);
        return plan->p < 1 ? solve_layer(plan, err) : too_small(plan, err);
    }
    double fpr = plan->kind->sizing->best(plan->n, data_len, &plan->layer);
    plan->p = fmax(fpr, least);
    return fpr <= WORST_FPR || too_small(plan, err);
}

static bool solve_n(struct plan *plan, uint64_t data_len, struct err *err)
{
    if (plan->p == 0)
        plan->p = LAYER_FPR;
    if (!check_fpr(plan, err))
        return false;
    plan->n = plan->kind->sizing->capacity(data_len, plan->p, &plan->layer);
    /* Promise no more keys than 64-bit hashes allow at this FPR. */
    double most = plan->p * plan->kind->sizing->hash_share * 0x1p64;
    if ((double)plan->n > most)
        plan->n = (uint64_t)most;
    return true;
}

static bool solve_size(struct plan *plan, struct err *err)
{
    uint64_t data_len = data_within(plan->kind, plan->size);
    bool n_is_open = plan->n == 0 && !length_varies(plan->kind);
    if (data_len == 0 && !length_varies(plan->kind)) {
        struct layer least = {.kind = plan->kind, .data_len = LAYER_PAGE};
        return fail(err, "a size of %llu bytes is too small: the smallest filter takes %llu",
                    (unsigned long long)plan->size, (unsigned long long)format_file_len(&least));
    }
    return n_is_open ? solve_n(plan, data_len, err) : solve_fpr(plan, data_len, err);
}

static bool too_many_wishes(const struct plan *wishes, struct err *err)
{
    struct plan plan = {.kind = wishes->kind, .n = wishes->n, .p = wishes->p};
    char n[NUM_TEXT], p[NUM_TEXT], size[NUM_TEXT];
    if (!plan_solve(&plan, err))
        return false;
    return fail(err, "--capacity, --fpr and --size cannot all be given: %s keys at %s take %s",
                num_show_count(n, (double)plan.n), num_show_fpr(p, plan.p),
                num_show_bytes(size, format_file_len(&plan.layer)));
}

bool plan_solve(struct plan *plan, struct err *err)
{
    plan->layer = (struct layer){.kind = plan->kind};
    if (plan->n != 0 && plan->p != 0 && plan->size != 0)
        return too_many_wishes(plan, err);
    if (plan->size != 0)
        return solve_size(plan, err);
    if (plan->n == 0 && kind_takes_keys(plan->kind))
        return fail(err, "a filter must have capacity for at least one key");
    if (plan->p == 0)
        plan->p = LAYER_FPR;
    return solve_layer(plan, err);
}

/* ---- Headers of new filters. */

const struct kind *design_kind(const struct design *d)
{
    if (d->like != NULL)
        return d->like->layers[0].kind;
    if (d->batch_for != NULL)
        return d->batch_for->layers[0].kind;
    if (d->layout != NULL)
        return d->layout->kind;
    return d->kind != NULL ? d->kind : kind_usual();
}

bool design_fixes_size(const struct layout_spec *spec, double p)
{
    struct layout_filter few, many;
    struct err err;
    if (!spec->kind->layout->design(spec, 1, p, &few, &err) ||
        !spec->kind->layout->design(spec, 1 << 20, p, &many, &err))
        return false;
    return few.layer[0].data_len == many.layer[0].data_len &&
           memcmp(few.layer[0].geometry, many.layer[0].geometry, sizeof few.layer[0].geometry) == 0;
}

bool design_is_sized(const struct design *d)
{
    if (d->like != NULL || d->empty)
        return true;
    if (d->layout != NULL)
        return d->n != 0 || design_fixes_size(d->layout, d->p);
    /* The first layer of a growing filter must hold all keys of the input. */
    return !d->grow && (d->n != 0 || (d->size != 0 && d->p != 0));
}

bool design_layout(const struct design *d, uint64_t n, struct layout_filter *filter,
                   struct err *err)
{
    struct layout_spec spec = *d->layout;
    spec.n = d->n;
    spec.p = d->p;
    return spec.kind->layout->design(&spec, design_is_sized(d) ? d->n : n, d->p, filter, err);
}

/* The rule is the same for any number of keys, but not every number can be designed for. */
bool design_rule(const struct design *d, struct key_rule *rule, struct err *err)
{
    struct layout_filter filter;
    struct err ignored;
    if (!design_layout(d, CHAIN_FIRST, &filter, err) && !design_layout(d, 1, &filter, &ignored))
        return false;
    return header_take_rule(&filter, rule, err);
}

bool design_plan(const struct design *d, uint64_t n, struct plan *plan, struct err *err)
{
    *plan = (struct plan){.kind = design_kind(d),
                          .n = design_is_sized(d) || d->n > n ? d->n : n,
                          .p = d->p,
                          .size = d->size,
                          .grows = d->grow};
    if (d->exact)
        plan->p = plan_least_fpr(plan->n);
    if (d->like != NULL) {
        const struct layer *like = &d->like->layers[0];
        plan->n = format_grows(d->like) ? like->n_design : d->like->n_design;
        plan->p = d->like->fpr_design;
        plan->grows = format_grows(d->like);
        plan->layer = (struct layer){.kind = like->kind, .data_len = like->data_len};
        memcpy(plan->layer.geometry, like->geometry, sizeof like->geometry);
        if (kind_is_foreign(like->kind) && like->kind->layout->strip != NULL)
            like->kind->layout->strip(&plan->layer);
        return true;
    }
    if (d->batch_for != NULL) {
        const struct layer *layer = &d->batch_for->layers[0];
        plan->p = d->batch_for->fpr_design;
        plan->kind->counts->narrow(layer, layer_fingerprint(layer), &plan->layer);
        return true;
    }
    if (!plan_solve(plan, err))
        return false;
    if (d->foldable)
        plan->kind->uniting->round_to_fold(&plan->layer, 0);
    return true;
}

static bool design_chain(struct header *h, const struct design *d, uint64_t n, struct err *err)
{
    uint64_t first = d->grow && n > d->n ? n : d->n;
    struct plan whole = {.kind = design_kind(d),
                         .n = first != 0 ? first : CHAIN_FIRST,
                         .p = d->p != 0 ? d->p : LAYER_FPR};
    if (!plan_solve(&whole, err))
        return false;
    h->period = d->period;
    if (!d->grow)
        return chain_start_ring(h, whole.kind, d->generations, first, whole.p, err);
    if (!chain_start_growing(h, whole.kind, first, whole.p, d->more, err))
        return false;
    if (d->foldable)
        whole.kind->uniting->round_to_fold(&h->layers[0], 0);
    return true;
}

static bool design_single(struct header *h, const struct design *d, uint64_t n, struct err *err)
{
    struct plan plan;
    if (!design_plan(d, n, &plan, err))
        return false;
    struct layer *layer = &h->layers[0];
    h->n_layers = 1;
    *layer = plan.layer;
    h->n_design = layer->n_design = plan.n;
    h->fpr_design = layer->fpr_design = plan.p;
    if (d->like != NULL)
        h->compat |= d->like->compat & COMPAT_ASSUMED;
    if (d->like != NULL && format_grows(d->like)) {
        h->policy = POLICY_GROW;
        h->n_design = 0;
        layer->fpr_design = d->like->layers[0].fpr_design;
        layer->generation = 1;
        layer->since = h->created;
    }
    return true;
}

/* ---- Growing filters for an unknown number of keys. */

/* The least capacity of a first layer: 94 KB at an FPR of 1e-6. */
static const uint64_t LEAST_FIRST = 1 << 14;

/* A file that stays takes at most 1.35 times the bits of a filter that does not grow: the layer of
 * design_anew takes about 1.12 times these. */
static const double TOO_LARGE = 1.2;

void design_expect(struct design *d, uint64_t records, uint64_t keys)
{
    uint64_t n = records <= CHAIN_FIRST ? records : keys > CHAIN_FIRST ? keys : 0;
    n += n / 20; /* the sampled records may be longer than the rest */
    d->n = n == 0 || n > LEAST_FIRST ? n : LEAST_FIRST;
    d->more = true;
}

struct design design_anew(const struct header *h)
{
    return (struct design){.kind = h->layers[0].kind,
                           .n = LEAST_FIRST,
                           .p = h->fpr_design,
                           .grow = true,
                           .more = true};
}

bool design_usual(struct header *h)
{
    struct err ignored;
    struct design usual = design_anew(h);
    usual.n = 0;
    return format_grows(h) && h->layers[0].n_design > CHAIN_FIRST &&
           header_design(h, &usual, 0, &ignored);
}

bool design_fits(const struct header *h, uint64_t n)
{
    struct err ignored;
    struct header fresh = *h;
    const struct design d = design_anew(h);
    return !header_design(&fresh, &d, n, &ignored) ||
           (double)h->file_len <= TOO_LARGE * (double)fresh.file_len;
}

/* ---- Layouts of other programs. */

static void take_hash(const struct layout_filter *filter, struct key_rule *rule)
{
    rule->hash = filter->hash;
    rule->seed.number = filter->seed;
    rule->prep &= ~(uint32_t)PREP_ENCODING;
    rule->prep |= filter->encoding << PREP_ENCODING_SHIFT;
}

bool header_take_rule(const struct layout_filter *filter, struct key_rule *rule, struct err *err)
{
    const struct encoding *e = encoding_by_id(filter->encoding);
    take_hash(filter, rule);
    return e == NULL || prep_digest(rule->prep) == DIGEST_NONE ||
           fail(err, "--digest: the layout takes keys of encoding %s, which digests cannot be",
                e->name);
}

void header_take_layers(struct header *h, const struct layout_filter *filter)
{
    h->policy = filter->n_design == 0 ? POLICY_GROW : POLICY_FIXED;
    h->n_design = filter->n_design;
    h->fpr_design = filter->fpr_design;
    if (filter->assumed)
        h->compat |= COMPAT_ASSUMED;
    h->n_layers = filter->n_layers;
    for (unsigned i = 0; i < h->n_layers; i++) {
        h->layers[i] = filter->layer[i];
        if (format_grows(h))
            h->layers[i].generation = i + 1;
    }
    if (format_grows(h))
        h->layers[h->n_layers - 1].since = h->created;
    format_place(h);
}

void header_begin_foreign(struct header *h, const struct layout_filter *filter,
                          const struct key_rule *rule, bool reproducible)
{
    struct key_rule own = *rule;
    take_hash(filter, &own);
    header_begin(h, &own, reproducible);
    header_take_layers(h, filter);
}

bool header_design(struct header *h, const struct design *d, uint64_t n, struct err *err)
{
    if (d->layout != NULL) {
        struct layout_filter filter;
        if (!design_layout(d, n, &filter, err))
            return false;
        header_take_layers(h, &filter);
        return true;
    }
    bool chain = d->like == NULL && (d->grow || d->generations > 0);
    if (!(chain ? design_chain : design_single)(h, d, n, err))
        return false;
    format_place(h);
    return true;
}
