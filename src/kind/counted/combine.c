/* SPDX-License-Identifier: MIT */
/* Makes a counted set from others. */
#include <stdlib.h>

#include "base/parallel.h"
#include "kind/counted/layer.h"
#include "kind/counted/parts.h"
#include "kind/target.h"

/* Groups of the result that a thread makes at a time: about 50 000 entries, some 100 KiB. */
enum { GROUPS_AT_ONCE = 16 };

struct combine {
    enum counts_op op;
    const struct counted_set *set;
    unsigned n;
    struct counted design;       /* of the result; a part is a range of its groups */
    struct counted_layer *layer; /* NULL: only counts */
    pthread_mutex_t lock;        /* guards all that follows */
    bool failed;
    struct err first_failure; /* later failures may only say that a thread gave up */
    struct counts_seen seen;
    uint64_t *read, *read_total; /* of each set: entries read, and the sum of their counts */
    bool copied; /* groups of the first set were copied without reading their entries */
};

/* Reads a set, and narrows its fingerprints to the bits of the result. */
struct input {
    struct counted_reader reader;
    struct counted_narrow narrow;
};

struct work {
    struct input *input;         /* n */
    struct counted_merge *merge; /* n, or 1 if n is 1 */
    struct counted_stream **stream;
};

static void free_work(struct work *w)
{
    if (w == NULL)
        return;
    free(w->input);
    free(w->merge);
    free(w->stream);
    free(w);
}

/* Opens an input for fingerprints [first, last] of the result. */
static struct counted_stream *open_reader(struct input *in, const struct counted_set *set,
                                          unsigned bits, uint64_t first, uint64_t last)
{
    unsigned drop = set->counted.bits - bits;
    counted_read_range(&in->reader, set, first << drop, last << drop | counted_mask(drop));
    if (drop == 0)
        return &in->reader.stream;
    counted_narrow(&in->narrow, &in->reader.stream, drop);
    return &in->narrow.stream;
}

/* May the streams be combined in any order? */
static bool is_associative(enum counts_op op)
{
    return op != COUNTS_SUBTRACT && op != COUNTS_EXCEPT;
}

/* Combines all inputs, restricted to fingerprints [first, last], into one stream. Returns the last
 * merge. If the order is free, merges form a balanced tree: an entry passes log2(n), not n. */
static struct counted_merge *combine_range(const struct combine *c, struct work *w, uint64_t first,
                                           uint64_t last)
{
    unsigned made = 0, n = c->n;
    for (unsigned i = 0; i < n; i++)
        w->stream[i] = open_reader(&w->input[i], &c->set[i], c->design.bits, first, last);
    if (n == 1) {
        counted_merge(w->merge, c->op == COUNTS_DISTINCT ? COUNTS_DISTINCT : COUNTS_ADD,
                      w->stream[0], NULL);
        return w->merge;
    }
    if (!is_associative(c->op)) {
        for (unsigned i = 1; i < n; i++) {
            counted_merge(&w->merge[i], c->op, w->stream[0], w->stream[i]);
            w->stream[0] = &w->merge[i].stream;
        }
        return &w->merge[n - 1];
    }
    for (; n > 1; n = (n + 1) / 2) {
        for (unsigned i = 0; i + 1 < n; i += 2) {
            counted_merge(&w->merge[made], c->op, w->stream[i], w->stream[i + 1]);
            w->stream[i / 2] = &w->merge[made++].stream;
        }
        if (n % 2 != 0)
            w->stream[n / 2] = w->stream[n - 1];
    }
    return &w->merge[made - 1];
}

static bool read_on(struct counted_stream *s, struct err *err)
{
    struct counted_run run;
    do {
        if (!counted_next(s, &run, err))
            return false;
    } while (run.n > 0);
    return true;
}

static bool add_to(uint64_t *sum, uint64_t more)
{
    *sum += more;
    return *sum >= more;
}

/* Adds the numbers of the part that was read to the totals. */
static bool note(struct combine *c, const struct work *w, const struct counts_seen *part,
                 struct err *err)
{
    struct counts_seen *all = &c->seen;
    pthread_mutex_lock(&c->lock);
    all->a += part->a;
    all->b += part->b;
    all->both += part->both;
    all->total_a += part->total_a;
    all->total_b += part->total_b;
    all->total_smaller += part->total_smaller;
    all->lacking += part->lacking;
    all->made += part->made;
    bool fits = add_to(&all->total_made, part->total_made);
    for (unsigned i = 0; i < c->n; i++) {
        c->read[i] += w->input[i].reader.entries;
        c->read_total[i] += w->input[i].reader.total;
    }
    pthread_mutex_unlock(&c->lock);
    return fits || fail(err, "the sum of the counts would be 2^64 or more");
}

static struct work *new_work(unsigned n, struct err *err)
{
    struct work *w = calloc(1, sizeof *w);
    if (w != NULL) {
        w->input = calloc(n, sizeof *w->input);
        w->merge = calloc(n, sizeof *w->merge);
        w->stream = calloc(n, sizeof(struct counted_stream *));
    }
    if (w != NULL && w->input != NULL && w->merge != NULL && w->stream != NULL)
        return w;
    free_work(w);
    fail(err, "out of memory");
    return NULL;
}

/* Does a key that is only in the first set keep its count? */
static bool keeps_first(enum counts_op op)
{
    return op == COUNTS_ADD || op == COUNTS_MAX || op == COUNTS_SUBTRACT || op == COUNTS_EXCEPT;
}

/* Sets *same if the groups with fingerprints [first, last] can be copied from the first set: its
 * groups have the same layout as those of the result, and the second set has no entry in them. */
static bool find_same(const struct combine *c, struct work *w, uint64_t first, uint64_t last,
                      bool *same, struct err *err)
{
    const struct counted *a = &c->set[0].counted;
    struct counted_run run;
    *same = false;
    if (c->n != 2 || !keeps_first(c->op) || a->bits != c->design.bits || a->low != c->design.low)
        return true;
    if (!counted_next(open_reader(&w->input[1], &c->set[1], a->bits, first, last), &run, err))
        return false;
    *same = run.n == 0;
    return true;
}

static bool copy_part(struct combine *c, uint64_t begin, uint64_t end, struct err *err)
{
    pthread_mutex_lock(&c->lock);
    c->copied = true;
    pthread_mutex_unlock(&c->lock);
    return c->layer == NULL || counted_layer_copy(c->layer, begin, end, &c->set[0], err);
}

static bool merge_part(struct combine *c, struct work *w, uint64_t begin, uint64_t end,
                       struct err *err)
{
    bool same;
    uint64_t first = counted_group_first(&c->design, begin);
    uint64_t last = counted_group_first(&c->design, end) - 1;
    if (!find_same(c, w, first, last, &same, err))
        return false;
    if (same)
        return copy_part(c, begin, end, err);
    struct counted_merge *all = combine_range(c, w, first, last);
    bool ok = c->layer != NULL ? counted_layer_part(c->layer, begin, end, &all->stream, err)
                               : read_on(&all->stream, err);
    return ok && note(c, w, &all->seen, err);
}

static bool make_part(struct combine *c, uint64_t part, struct err *err)
{
    uint64_t groups = counted_groups(&c->design), begin = part * GROUPS_AT_ONCE;
    uint64_t end = groups - begin < GROUPS_AT_ONCE ? groups : begin + GROUPS_AT_ONCE;
    struct work *w = new_work(c->n, err);
    if (w == NULL)
        return false;
    bool ok = merge_part(c, w, begin, end, err);
    free_work(w);
    return ok;
}

static bool combine_part(void *ctx, unsigned worker, uint64_t part, struct err *err)
{
    struct combine *c = ctx;
    (void)worker;
    if (make_part(c, part, err))
        return true;
    pthread_mutex_lock(&c->lock);
    if (!c->failed)
        c->first_failure = *err;
    c->failed = true;
    pthread_mutex_unlock(&c->lock);
    if (c->layer != NULL)
        counted_layer_give_up(c->layer);
    return false;
}

/* Counts the entries of the copied groups: all entries of the first set that were not read. */
static bool note_copied(struct combine *c, struct err *err)
{
    const struct counted *a = &c->set[0].counted;
    if (c->read[0] > a->entries || c->read_total[0] > a->total)
        return fail(err, "the data of a counted set is not valid");
    uint64_t entries = a->entries - c->read[0], total = a->total - c->read_total[0];
    c->read[0] = a->entries;
    c->read_total[0] = a->total;
    c->seen.a += entries;
    c->seen.total_a += total;
    c->seen.made += entries;
    if (c->layer != NULL) {
        c->layer->counted.entries += entries;
        c->layer->counted.total += total;
    }
    return add_to(&c->seen.total_made, total) ||
           fail(err, "the sum of the counts would be 2^64 or more");
}

/* Combines all parts. Reading ranges does not check the entries and the total of a whole set: that
 * is done here. */
static bool combine_all(struct combine *c, unsigned threads, struct err *err)
{
    uint64_t parts = (counted_groups(&c->design) - 1) / GROUPS_AT_ONCE + 1;
    c->seen = (struct counts_seen){0};
    c->copied = false;
    for (unsigned i = 0; i < c->n; i++)
        c->read[i] = c->read_total[i] = 0;
    if (!parallel_try(threads, parts, combine_part, c, err)) {
        *err = c->first_failure;
        return false;
    }
    if (c->copied && !note_copied(c, err))
        return false;
    for (unsigned i = 0; i < c->n; i++)
        if (c->read[i] != c->set[i].counted.entries || c->read_total[i] != c->set[i].counted.total)
            return fail(err, "the data of a counted set is not valid");
    return true;
}

/* Sets the design's `low` for the largest possible number of entries. True if the smallest possible
 * number gives the same `low`. */
static bool design_is_known(struct combine *c)
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

static bool write_combined(struct combine *c, const struct target *target, unsigned threads,
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

bool counted_combine(enum counts_op op, const struct layer *const *layer,
                     const uint8_t *const *data, unsigned n, const struct target *target,
                     unsigned threads, struct counts_seen *seen, struct err *err)
{
    struct combine c = {.op = op, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct counted_set *set = calloc(n, sizeof *set);
    c.read = calloc(n, sizeof *c.read);
    c.read_total = calloc(n, sizeof *c.read_total);
    bool ok = set != NULL && c.read != NULL && c.read_total != NULL;
    if (!ok)
        fail(err, "out of memory");
    unsigned bits = 64;
    for (unsigned i = 0; ok && i < n; i++) {
        struct counted from = counted_of(layer[i]);
        set[i] = counted_set(&from, data[i], layer[i]->data_len);
        bits = from.bits < bits ? from.bits : bits;
        ok = counted_check_directory(&set[i], err);
    }
    c.set = set;
    c.design.bits = target != NULL ? counted_of(target->layer).bits : bits;
    if (ok && target == NULL) {
        design_is_known(&c);
        ok = combine_all(&c, threads, err);
    } else if (ok) {
        ok = write_combined(&c, target, threads, err);
    }
    *seen = c.seen;
    free(set);
    free(c.read);
    free(c.read_total);
    return ok;
}
