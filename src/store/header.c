#include "store/header.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/num.h"
#include "store/chain.h"
#include "store/foreign.h"

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

bool design_is_sized(const struct design *d)
{
    if (d->like != NULL || d->empty)
        return true;
    if (d->layout != NULL)
        return d->n != 0 || layout_is_sized(d->layout, d->p);
    /* The first layer of a growing filter must hold all keys of the input. */
    return !d->grow && (d->n != 0 || (d->size != 0 && d->p != 0));
}

/* Other programs round m and k. An FPR of up to this factor times p counts as rounding. */
static const double DESIGN_SLACK = 1.01;

bool design_layout(const struct design *d, uint64_t n, struct layout_filter *filter,
                   struct err *err)
{
    struct layout_spec spec = *d->layout;
    spec.n = design_is_sized(d) ? d->n : n;
    spec.p = d->p;
    if (!spec.kind->layout->design(&spec, spec.n, spec.p, filter, err))
        return false;
    if (d->p <= 0 || filter->fpr_design <= DESIGN_SLACK * d->p)
        return true;
    char keys[NUM_TEXT], best[NUM_TEXT], asked[NUM_TEXT];
    return fail(err, "the largest filter of layout %s has an FPR of %s for %s keys, more than %s",
                spec.kind->name, num_show_fpr(best, filter->fpr_design),
                num_show_count(keys, (double)spec.n), num_show_fpr(asked, d->p));
}

/* The rule is the same for any number of keys, but not every number can be designed for. */
bool design_rule(const struct design *d, struct key_rule *rule, struct err *err)
{
    struct layout_filter filter;
    struct err ignored;
    if (!design_layout(d, CHAIN_FIRST, &filter, err) && !design_layout(d, 1, &filter, &ignored))
        return false;
    return foreign_rule(&filter, rule, err);
}

bool design_plan(const struct design *d, uint64_t n, struct plan *plan, struct err *err)
{
    *plan = (struct plan){
        .kind = design_kind(d), .n = design_is_sized(d) ? d->n : n, .p = d->p, .size = d->size};
    if (d->exact)
        plan->p = plan_least_fpr(plan->n);
    if (d->like != NULL) {
        const struct layer *like = &d->like->layers[0];
        plan->n = d->like->n_design;
        plan->p = d->like->fpr_design;
        plan->layer = (struct layer){.kind = like->kind, .data_len = like->data_len};
        memcpy(plan->layer.geometry, like->geometry, sizeof like->geometry);
        if (like->kind->layout != NULL && like->kind->layout->strip != NULL)
            like->kind->layout->strip(&plan->layer);
        return true;
    }
    if (d->batch_for != NULL) {
        const struct kind_counts *counts = plan->kind->counts;
        const struct layer *layer = &d->batch_for->layers[0];
        plan->p = d->batch_for->fpr_design;
        counts->narrow(layer, counts->bits(layer), &plan->layer);
        return true;
    }
    if (!plan_solve(plan, err))
        return false;
    if (d->foldable)
        plan->kind->round_to_fold(&plan->layer, 0);
    return true;
}

static void stamp(struct header *h, bool reproducible)
{
    memset(h->id, 0, sizeof h->id);
    h->created = h->changed = 0;
    if (reproducible)
        return;
    h->created = h->changed = format_now();
    if (getrandom(h->id, sizeof h->id, 0) != (ssize_t)sizeof h->id)
        memcpy(h->id, &h->created, sizeof h->created);
}

void header_begin(struct header *h, const struct key_rule *rule, bool reproducible)
{
    *h = (struct header){.compat = (uint32_t)rule->key_len << COMPAT_KEY_LEN_SHIFT,
                         .epoch = 1,
                         .state = STATE_CLEAN,
                         .hash = key_rule_hash(rule),
                         .seed = rule->seed.number,
                         .prep = rule->prep,
                         .reading = rule->reading};
    stamp(h, reproducible);
    if (!h->hash->keyed)
        return;
    h->incompat |= INCOMPAT_SECRET;
    h->secret = rule->mark;
}

void header_begin_like(struct header *h, const struct header *other, bool reproducible)
{
    *h = (struct header){.compat = other->compat & COMPAT_KNOWN,
                         .incompat = other->incompat & INCOMPAT_SECRET,
                         .epoch = 1,
                         .state = STATE_CLEAN,
                         .hash = other->hash,
                         .seed = other->seed,
                         .secret = other->secret,
                         .prep = other->prep,
                         .reading = other->reading};
    stamp(h, reproducible);
}

void header_join_keys(struct header *h, const struct header *other)
{
    if (format_key_len(h) != format_key_len(other))
        h->compat &= ~(uint32_t)COMPAT_KEY_LEN;
    h->compat |= other->compat & (COMPAT_INTERSECTED | COMPAT_SUBTRACTED);
    if (memcmp(&h->reading, &other->reading, sizeof h->reading) != 0)
        h->reading = (struct reading){0};
}

static bool design_chain(struct header *h, const struct design *d, uint64_t n, struct err *err)
{
    uint64_t first = d->n;
    if (d->grow && n > (d->n != 0 ? d->n : CHAIN_FIRST))
        first = n;
    struct plan whole = {.kind = design_kind(d),
                         .n = first != 0 ? first : CHAIN_FIRST,
                         .p = d->p != 0 ? d->p : LAYER_FPR};
    if (!plan_solve(&whole, err))
        return false;
    if (d->grow && d->generations > 0)
        return chain_start_growing_ring(h, whole.kind, d->generations, first, whole.p, err);
    return d->grow ? chain_start_growing(h, whole.kind, first, whole.p, err)
                   : chain_start_ring(h, whole.kind, d->generations, first, whole.p, err);
}

bool header_design(struct header *h, const struct design *d, uint64_t n, struct err *err)
{
    struct plan plan;
    if (d->layout != NULL) {
        struct layout_filter filter;
        if (!design_layout(d, n, &filter, err))
            return false;
        foreign_layers(&filter, h);
        return true;
    }
    if (d->grow || d->generations > 0) {
        if (!design_chain(h, d, n, err))
            return false;
    } else {
        if (!design_plan(d, n, &plan, err))
            return false;
        h->n_layers = 1;
        h->layers[0] = plan.layer;
        h->layers[0].id = 1;
        h->n_design = h->layers[0].n_design = plan.n;
        h->fpr_design = h->layers[0].fpr_design = plan.p;
        if (d->like != NULL)
            h->compat |= d->like->compat & COMPAT_ASSUMED;
    }
    format_place(h);
    return true;
}

static void name_difference(char *list, size_t room, bool differs, const char *name)
{
    size_t len = strlen(list);
    if (differs)
        snprintf(list + len, room - len, "%s%s", len > 0 ? ", " : "", name);
}

bool header_same_keys(const struct header *a, const struct header *b, struct err *err)
{
    char list[200] = "";
    uint32_t prep = a->prep ^ b->prep;
    name_difference(list, sizeof list, a->hash != b->hash, "hash function");
    name_difference(list, sizeof list, a->seed != b->seed, "hash seed");
    name_difference(list, sizeof list, memcmp(&a->secret, &b->secret, sizeof a->secret) != 0,
                    "secret");
    name_difference(list, sizeof list, (prep & PREP_TRIM) != 0, "--trim");
    name_difference(list, sizeof list, (prep & PREP_FOLD) != 0, "--ignore-case");
    name_difference(list, sizeof list, (prep & PREP_HEX) != 0, "--hex");
    name_difference(list, sizeof list, (prep & PREP_DIGEST) != 0, "--digest");
    name_difference(list, sizeof list, (prep & PREP_ENCODING) != 0, "key encoding");
    return list[0] == '\0' || fail(err, "%s", list);
}

bool header_same_questions(const struct header *a, const char *a_path, const struct header *b,
                           const char *b_path, struct err *err)
{
    struct err what;
    return header_same_keys(a, b, &what) ||
           fail(err, "'%s' and '%s' cannot be queried together: they differ in %s", a_path, b_path,
                what.text);
}

struct target header_target(struct header *h, unsigned i, int fd, const char *name,
                            unsigned threads)
{
    return (struct target){.layer = &h->layers[i],
                           .seed = format_layer_seed(h, &h->layers[i]),
                           .header = h,
                           .place = format_place,
                           .fd = fd,
                           .name = name,
                           .threads = threads};
}

bool header_reserve(const struct header *h, struct newfile *file, struct err *err)
{
    const struct layer *first = &h->layers[0];
    bool holes = h->n_layers == 1 && layout_is_sparse(first);
    return newfile_reserve_first(file, holes ? first->data_off : h->file_len, h->file_len, err);
}

bool header_write(const struct header *h, int fd, const char *name, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    size_t len = format_encode(h, slot);
    if (!disk_write(fd, slot, len, FORMAT_SLOT_A, name, err))
        return false;
    if (!format_is_immutable(h) && !disk_write(fd, slot, len, FORMAT_SLOT_B, name, err))
        return false;
    return ftruncate(fd, (off_t)h->file_len) == 0 ||
           fail_errno(err, "cannot set the length of '%s'", name);
}
