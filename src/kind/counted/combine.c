/* SPDX-License-Identifier: MIT */
/* Makes a counted set from others. */
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "kind/counted/layer.h"
#include "kind/counted/parts.h"
#include "kind/target.h"

/* Inputs are halved until one is left: at most 32 times, and once more for the first of a
 * difference. */
enum { LEVELS = 34 };

/* What a thread works with. */
struct combiner {
    struct counted_entries level[LEVELS]; /* of combine_inputs */
    struct counted_entries room, made;
    struct counted_sums *read; /* of each set */
    struct counted_seen seen;
    bool copied; /* blocks of the first set were copied without reading their entries */
};

struct combination {
    enum counts_op op;
    const struct counted_set *set;
    unsigned n;
    struct counted design;       /* of the result; a part is a stretch of it */
    struct counted_layer *layer; /* NULL: only counts */
    struct combiner *combiner;   /* one for each thread */
    uint64_t slice;              /* fingerprints of the result that are combined at once, less 1 */
    struct counts_seen seen;     /* by all threads */
    struct counted_sums *read;   /* of each set, by all threads */
};

/* Combines sets [from, to), restricted to fingerprints [first, last] of the result, into *out, in a
 * balanced tree: an entry passes log2 of them. Uses the arrays behind `out`. */
static bool combine_inputs(const struct combination *c, struct combiner *w, enum counts_op op,
                           unsigned from, unsigned to, uint64_t first, uint64_t last,
                           struct counted_entries *out, struct counted_seen *seen, struct err *err)
{
    if (to - from == 1) {
        const unsigned drop = c->set[from].counted.bits - c->design.bits;
        out->n = 0;
        return counted_read_range(&c->set[from], first << drop, last << drop | counted_mask(drop),
                                  drop, out, &w->read[from], err);
    }
    /* The order is free, but for the first less all others. */
    const bool less = op == COUNTS_SUBTRACT || op == COUNTS_EXCEPT;
    const unsigned middle = less ? from + 1 : from + (to - from) / 2;
    const enum counts_op others = less ? COUNTS_ADD : op;
    struct counted_seen inner = {0};
    if (!combine_inputs(c, w, op, from, middle, first, last, out, &inner, err) ||
        !combine_inputs(c, w, others, middle, to, first, last, out + 1, &inner, err) ||
        !counted_merge(op, out, out + 1, &w->room, seen, err))
        return false;
    seen->too_many |= inner.too_many && !less; /* a sum that is taken away may be any */
    return true;
}

static bool too_many(struct err *err)
{
    return fail(err, "the sum of the counts would be 2^64 or more");
}

/* Appends a slice of the result to what was made of the part, if it is to be encoded. */
static bool make_slice(const struct combination *c, struct combiner *w, uint64_t first,
                       uint64_t last, struct err *err)
{
    struct counted_entries *all = &w->level[0];
    if (!combine_inputs(c, w, c->op, 0, c->n, first, last, all, &w->seen, err))
        return false;
    if (c->n == 1)
        counted_alone(c->op, all, &w->seen);
    if (w->seen.too_many)
        return too_many(err);
    if (c->layer == NULL)
        return true;
    if (w->made.n == 0) {
        counted_swap(&w->made, all);
        return true;
    }
    if (all->n > COUNTED_CROWD - w->made.n)
        return kind_crowded(COUNTED_CROWD, err);
    if (!counted_room(&w->made, all->n, err))
        return false;
    if (all->n > 0)
        memcpy(w->made.at + w->made.n, all->at, all->n * sizeof *all->at);
    w->made.n += all->n;
    return true;
}

/* Sets *same if the blocks with fingerprints [first, last] can be copied from the first set: its
 * blocks have the same layout as those of the result, and the second set has no entry in them. That
 * is looked for only in a batch: with 8 keys for each part, few parts have none. */
static bool find_same(const struct combination *c, struct combiner *w, uint64_t first,
                      uint64_t last, bool *same, struct err *err)
{
    enum { FEW = 8 };
    const struct counted *a = &c->set[0].counted, *b = &c->set[1].counted;
    /* A key that is only in the first set keeps its count. */
    bool keeps_first = c->op == COUNTS_ADD || c->op == COUNTS_MAX || c->op == COUNTS_SUBTRACT ||
                       c->op == COUNTS_EXCEPT;
    *same = c->n == 2 && keeps_first && a->bits == c->design.bits && a->low == c->design.low &&
            b->entries / FEW <= counted_blocks(&c->design) / COUNTED_STRETCH;
    if (!*same)
        return true;
    const unsigned drop = b->bits - a->bits;
    struct counted_sums found = {0};
    w->level[1].n = 0;
    bool ok = counted_read_range(&c->set[1], first << drop, last << drop | counted_mask(drop), 0,
                                 &w->level[1], &found, err);
    *same = found.entries == 0;
    return ok;
}

static bool make_part(struct combination *c, struct combiner *w, uint64_t part, struct err *err)
{
    const uint64_t blocks = counted_blocks(&c->design), begin = part * COUNTED_STRETCH;
    const uint64_t end = blocks - begin < COUNTED_STRETCH ? blocks : begin + COUNTED_STRETCH;
    const uint64_t first = counted_block_first(&c->design, begin);
    const uint64_t last =
        end < blocks ? counted_block_first(&c->design, end) - 1 : counted_top(&c->design);
    bool same;
    if (!find_same(c, w, first, last, &same, err))
        return false;
    if (same) {
        w->copied = true;
        return c->layer == NULL || counted_layer_copy(c->layer, begin, end, &c->set[0], err);
    }
    w->made.n = 0;
    for (uint64_t from = first;;) {
        uint64_t to = last - from > c->slice ? from + c->slice : last;
        if (!make_slice(c, w, from, to, err))
            return false;
        if (to == last)
            break;
        from = to + 1;
    }
    return c->layer == NULL || counted_layer_part(c->layer, begin, end, w->made.at, w->made.n, err);
}

static bool combine_part(void *ctx, unsigned worker, uint64_t part, struct err *err)
{
    struct combination *c = ctx;
    if (make_part(c, &c->combiner[worker], part, err))
        return true;
    if (c->layer != NULL)
        counted_layer_give_up(c->layer, err);
    return false;
}

static bool add_to(uint64_t *sum, uint64_t more)
{
    *sum += more;
    return *sum >= more;
}

/* Adds what a thread has seen and read. */
static bool add_seen(struct combination *c, const struct combiner *w, struct err *err)
{
    struct counts_seen *all = &c->seen;
    const struct counts_seen *its = &w->seen.counts;
    all->a += its->a;
    all->b += its->b;
    all->both += its->both;
    all->total_a += its->total_a;
    all->total_b += its->total_b;
    all->total_smaller += its->total_smaller;
    all->lacking += its->lacking;
    all->made += its->made;
    for (unsigned i = 0; i < c->n; i++) {
        c->read[i].entries += w->read[i].entries;
        c->read[i].total += w->read[i].total;
    }
    return add_to(&all->total_made, its->total_made) || too_many(err);
}

/* Counts the entries of the copied blocks: all entries of the first set that were not read. */
static bool add_copied(struct combination *c, struct err *err)
{
    const struct counted *a = &c->set[0].counted;
    const struct counted_sums read = c->read[0];
    const uint64_t entries = a->entries - read.entries, total = a->total - read.total;
    if (read.entries > a->entries || read.total > a->total)
        return fail(err, "the data of a counted set is not valid");
    c->read[0] = (struct counted_sums){a->entries, a->total};
    c->seen.a += entries;
    c->seen.total_a += total;
    c->seen.made += entries;
    if (c->layer != NULL) {
        c->layer->counted.entries += entries;
        c->layer->counted.total += total;
    }
    return add_to(&c->seen.total_made, total) || too_many(err);
}

/* Combines all parts. Reading ranges does not check the entries and the total of a whole set: that
 * is done here. */
static bool combine_all(struct combination *c, unsigned threads, struct err *err)
{
    const uint64_t parts = (counted_blocks(&c->design) - 1) / COUNTED_STRETCH + 1;
    bool copied = false;
    c->seen = (struct counts_seen){0};
    memset(c->read, 0, c->n * sizeof *c->read);
    for (unsigned i = 0; i < threads; i++) {
        struct combiner *w = &c->combiner[i];
        w->seen = (struct counted_seen){0};
        w->copied = false;
        memset(w->read, 0, c->n * sizeof *w->read);
    }
    if (!parallel_try(threads, parts, combine_part, c, err))
        return false;
    for (unsigned i = 0; i < threads; i++) {
        copied |= c->combiner[i].copied;
        if (!add_seen(c, &c->combiner[i], err))
            return false;
    }
    if (copied && !add_copied(c, err))
        return false;
    for (unsigned i = 0; i < c->n; i++)
        if (c->read[i].entries != c->set[i].counted.entries ||
            c->read[i].total != c->set[i].counted.total)
            return fail(err, "the data of a counted set is not valid");
    return true;
}

/* Sets the design's `low` for the largest possible number of entries. True if the smallest possible
 * number gives the same `low`. */
static bool design_is_known(struct combination *c)
{
    uint64_t least = 0, most = 0;
    for (unsigned i = 0; i < c->n; i++) {
        const struct counted *from = &c->set[i].counted;
        uint64_t kept = from->bits == c->design.bits ? from->entries : from->entries > 0;
        switch (c->op) {
        case COUNTS_ADD:
        case COUNTS_MAX:
        case COUNTS_DISTINCT:
            least = kept > least ? kept : least;
            most += from->entries;
            break;
        case COUNTS_INTERSECT:
            most = i == 0 || from->entries < most ? from->entries : most;
            break;
        case COUNTS_SUBTRACT:
        case COUNTS_EXCEPT:
            most = i == 0 ? from->entries : most;
            least = i == 0 ? kept : least > from->entries ? least - from->entries : 0;
            break;
        }
    }
    struct counted other = c->design;
    counted_design(&c->design, most);
    counted_design(&other, least);
    return other.low == c->design.low;
}

static bool write_combined(struct combination *c, const struct target *target, unsigned threads,
                           struct err *err)
{
    struct counted_layer layer;
    if (!design_is_known(c)) {
        if (!combine_all(c, threads, err))
            return false;
        counted_design(&c->design, c->seen.made);
    }
    counted_layer_begin(&layer, target, &c->design);
    c->layer = &layer;
    bool ok = combine_all(c, threads, err) && counted_layer_end(&layer, err);
    counted_layer_free(&layer);
    return ok;
}

static void free_combination(struct combination *c, struct counted_set *set, unsigned threads)
{
    for (unsigned i = 0; c->combiner != NULL && i < threads; i++) {
        struct combiner *w = &c->combiner[i];
        for (unsigned level = 0; level < LEVELS; level++)
            free(w->level[level].at);
        free(w->room.at);
        free(w->made.at);
        free(w->read);
    }
    free(c->combiner);
    free(c->read);
    free(set);
}

static bool get_memory(struct combination *c, unsigned threads, struct counted_set **set,
                       struct err *err)
{
    *set = calloc(c->n, sizeof **set);
    c->read = calloc(c->n, sizeof *c->read);
    c->combiner = calloc(threads, sizeof *c->combiner);
    bool ok = *set != NULL && c->read != NULL && c->combiner != NULL;
    for (unsigned i = 0; ok && i < threads; i++) {
        c->combiner[i].read = calloc(c->n, sizeof *c->read);
        ok = c->combiner[i].read != NULL;
    }
    c->set = *set;
    return ok || fail(err, "out of memory");
}

bool counted_combine(enum counts_op op, const struct layer *const *layer,
                     const uint8_t *const *data, unsigned n, const struct target *target,
                     unsigned threads, struct counts_seen *seen, struct err *err)
{
    struct combination c = {.op = op, .n = n};
    struct counted_set *set;
    struct counted all = {.bits = 64};
    bool ok = get_memory(&c, threads, &set, err);
    for (unsigned i = 0; ok && i < n; i++) {
        struct counted from = counted_of(layer[i]);
        set[i] = counted_set(&from, data[i], layer[i]->data_len);
        all.bits = from.bits < all.bits ? from.bits : all.bits;
        all.entries += from.entries;
        ok = counted_check_directory(&set[i], err);
    }
    if (ok && target != NULL)
        all.bits = counted_of(target->layer).bits;
    c.design.bits = all.bits;
    /* A slice is a stretch of a set of all entries: in no input has it more blocks. */
    counted_design(&all, all.entries);
    c.slice = counted_mask(all.low + COUNTED_BUCKET_BITS + COUNTED_STRETCH_BITS);
    if (ok && target == NULL) {
        design_is_known(&c);
        ok = combine_all(&c, threads, err);
    } else if (ok) {
        ok = write_combined(&c, target, threads, err);
    }
    *seen = c.seen;
    free_combination(&c, set, threads);
    return ok;
}
