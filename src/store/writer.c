#include "store/writer.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/num.h"
#include "store/chain.h"
#include "store/group.h"

static const struct header *header_of(const struct writer *w)
{
    return w->backing->layers.header;
}

static struct counters *counters_of(const struct writer *w)
{
    return w->backing->counters;
}

static const struct layer *target(const struct writer *w)
{
    return &header_of(w)->layers[w->layer];
}

/* Finds the layer that takes keys, and how full it is. */
static void settle(struct writer *w)
{
    const struct header *h = header_of(w);
    w->layer = chain_newest(h);
    w->generation = target(w)->generation;
    w->warned_fpr = 0;
    w->lookup = (struct lookup){.backing = w->backing, .newest = w->layer};
    w->rate = (struct rate){.backing = w->backing,
                            .out = w->out,
                            .layer = w->layer,
                            .threads = w->options.threads,
                            .max_fpr = w->options.max_fpr,
                            .warn_fpr = WRITER_WARN_FACTOR * h->fpr_design};
    rate_begin(&w->rate);
}

bool writer_check(struct layers layers, const char *name, const struct add_options *options,
                  struct err *err)
{
    const struct header *h = layers.header;
    if (!layer_takes_keys(&h->layers[chain_newest(h)]))
        return fail(err, "'%s' is immutable: no keys can be added to it", name);
    const struct layer *newest = &h->layers[chain_newest(h)];
    struct err why;
    if (newest->kind->check_add != NULL && !newest->kind->check_add(newest, &why))
        return fail(err, "no keys can be added to '%s': %s", name, why.text);
    return !options->rotate || h->policy == POLICY_RING ||
           fail(err, "'%s' has no generations, so it cannot be rotated", name);
}

void writer_begin(struct writer *w, const struct backing *backing,
                  const struct add_options *options, struct add_state *out)
{
    *w = (struct writer){.backing = backing, .options = *options, .out = out};
    settle(w);
}

/* A call with at most this number of keys looks for them before it inserts them. If the layer has
 * all of them, it writes no page, and no page has to go to disk. For 100 known keys in a file of
 * 1 GiB, writing to disk takes 50 ms. */
enum { FEW = 128 };

/* Inserts a group. Sets the bits of the keys that the layer had. */
static bool insert(struct writer *w, const struct group *g, uint64_t *present, struct err *err)
{
    const struct backing *b = w->backing;
    if (g->n == 0)
        return true;
    if (w->few && !lookup_newest(&w->lookup, g, present, err))
        return false;
    if (bits_count(present, LAYER_BATCH) == g->n)
        return true;
    if (b->ops->touch != NULL && !b->ops->touch(b->place, w->layer, group_hashes(g), g->n, err))
        return false;
    target(w)->kind->add(target(w), b->layers.data[w->layer], group_hashes(g), g->n, present);
    return true;
}

/* Adds a group, counts the keys that were new, and makes the others known. If it fails, no key was
 * added. */
static bool add_group(struct writer *w, struct group *g, uint64_t *known, struct err *err)
{
    uint64_t elsewhere[GROUP_WORDS] = {0}, present[GROUP_WORDS] = {0};
    const struct header *h = header_of(w);
    size_t n_given = g->n;
    if (h->n_layers > 1 && !lookup_others(&w->lookup, g, elsewhere, err))
        return false;
    /* In a ring, keys of older generations go into the newest again. */
    if (h->policy != POLICY_RING)
        group_leave_out(g, elsewhere, known);
    rate_correct(&w->rate);
    if (!insert(w, g, present, err))
        return false;
    size_t n_inserted = g->n - bits_count(present, LAYER_BATCH);
    for (size_t i = 0; i < GROUP_WORDS; i++)
        present[i] |= elsewhere[i];
    group_mark_known(g, present, known);
    counters_of(w)->records += n_given;
    rate_count(&w->rate, n_inserted, g->n - bits_count(present, LAYER_BATCH));
    return true;
}

/* A key may raise the FPR by several times what the formula says: that happens when its line is
 * nearly full. So the last key must have room for this number of keys. */
static const double SPARE = 3;

enum add_result writer_refuse(const char *name, double max_fpr, struct err *err)
{
    char limit[NUM_TEXT];
    fail(err, "not added: the false-positive rate of '%s' would pass %s", name,
         num_show_fpr(limit, max_fpr));
    return ADD_FULL;
}

/* Adds the keys of records [*done, end) one by one, as long as max_fpr allows. */
static enum add_result add_carefully(struct writer *w, struct hashes keys, uint64_t *known,
                                     size_t end, size_t *done, struct err *err)
{
    for (; *done < end; ++*done) {
        struct group one;
        uint64_t present[GROUP_WORDS] = {0};
        group_gather(&one, keys, header_of(w)->hash->lanes, known, *done, *done + 1);
        if (one.n == 0)
            continue;
        if (!lookup_all(&w->lookup, &one, present, err))
            return ADD_FAILED;
        if (bit_of(present, 0)) {
            bit_set(known, *done);
            counters_of(w)->records++;
            continue;
        }
        if (!rate_allows(&w->rate, SPARE))
            return writer_refuse(w->backing->name, w->options.max_fpr, err);
        if (!add_group(w, &one, known, err))
            return ADD_FAILED;
    }
    return ADD_OK;
}

void writer_warn(const struct header *h, const char *name, const char *when, double fpr,
                 struct add_state *out)
{
    char now[NUM_TEXT], design[NUM_TEXT];
    num_show_fpr(now, fpr);
    if ((h->compat & COMPAT_ASSUMED) != 0)
        snprintf(out->warning, sizeof out->warning,
                 "'%.300s' is more than half full: its %s false-positive rate is %s", name, when,
                 now);
    else
        snprintf(out->warning, sizeof out->warning,
                 "'%.300s' is fuller than it was made for: its %s false-positive rate is %s, its "
                 "design rate %s",
                 name, when, now, num_show_fpr(design, h->fpr_design));
}

static void warn(struct writer *w, const char *when)
{
    rate_look(&w->rate);
    if (!rate_is_high(&w->rate))
        return;
    w->warned_fpr = rate_now(&w->rate);
    writer_warn(header_of(w), w->backing->name, when, w->warned_fpr, w->out);
}

void writer_conclude(struct writer *w, bool again)
{
    char before[NUM_TEXT], now[NUM_TEXT];
    w->out->warning[0] = '\0';
    if (w->warned_fpr == 0)
        return;
    num_show_fpr(before, w->warned_fpr);
    warn(w, "final");
    if (!again && strcmp(before, num_show_fpr(now, w->warned_fpr)) == 0)
        w->out->warning[0] = '\0';
}

/* A layer is full when it has room for less than this part of its capacity. With a smaller part,
 * the last keys would go in one by one. */
static const double FULL = 1.0 / 64;

/* The number of foretold new keys that are still to come; 0: nobody knows. */
static uint64_t to_come(const struct writer *w)
{
    uint64_t n = w->out->to_come, came = w->out->n_new - w->n_before;
    return n > came ? n - came : n != 0;
}

/* Gives the filter its next layer. */
static bool next_layer(struct writer *w, struct err *err)
{
    const struct backing *b = w->backing;
    struct err ignored;
    const struct next_layer want = {chain_wanted(header_of(w), w->out->n_new, to_come(w))};
    /* The disk or the memory may have no room for what is foretold, but for the keys that come. */
    if (!b->ops->advance(b->place, w->options.threads, want, err) &&
        (want.n == 0 ||
         !b->ops->advance(b->place, w->options.threads, (struct next_layer){0}, &ignored)))
        return false;
    settle(w);
    return true;
}

/* Begins the next layer if this one is full and the filter's policy allows it. Sets *room to the
 * number of keys, at least 1, that may go in before the next call. */
static bool make_room(struct writer *w, size_t *room, struct err *err)
{
    enum policy policy = header_of(w)->policy;
    *room = LAYER_BATCH;
    if (policy == POLICY_FIXED || (policy == POLICY_RING && !w->options.rotate))
        return true;
    double n_design = (double)target(w)->n_design, left = n_design - rate_keys(&w->rate);
    double least = FULL * n_design < LAYER_BATCH ? FULL * n_design : LAYER_BATCH;
    if (left < least || left < 1) {
        if (!next_layer(w, err))
            return false;
        return make_room(w, room, err);
    }
    if (left < LAYER_BATCH)
        *room = (size_t)left;
    return true;
}

/* Skips the records from *done on, LAYER_BATCH at most, whose keys the layers have. Stops at the
 * first key that no layer has. */
static bool skip_present(struct writer *w, struct hashes keys, uint64_t *known, size_t end,
                         size_t *done, struct err *err)
{
    struct group g;
    uint64_t present[GROUP_WORDS] = {0};
    size_t n = 0;
    group_gather(&g, keys, header_of(w)->hash->lanes, known, *done, end);
    if (!lookup_all(&w->lookup, &g, present, err))
        return false;
    for (; n < g.n && bit_of(present, n); n++)
        bit_set(known, group_record(&g, n));
    counters_of(w)->records += n;
    *done = n < g.n ? group_record(&g, n) : end;
    return true;
}

/* The same for an exact layer, which takes no key too many. Near its end, first skips the records
 * whose keys the layers have. Sets *room to the number of records that may go in before the next
 * call: 0 if all records that it looked at were skipped and no room is left. */
static enum add_result make_exact_room(struct writer *w, struct hashes keys, uint64_t *known,
                                       size_t n, size_t *done, size_t *room, struct err *err)
{
    const struct backing *b = w->backing;
    struct err why;
    uint64_t held = chain_newest_keys(header_of(w), counters_of(w));
    uint64_t left = held < target(w)->n_design ? target(w)->n_design - held : 0;
    *room = left < LAYER_BATCH ? (size_t)left : LAYER_BATCH;
    if (left >= LAYER_BATCH)
        return ADD_OK;
    size_t end = n - *done < LAYER_BATCH ? n : *done + LAYER_BATCH;
    if (!skip_present(w, keys, known, end, done, err))
        return ADD_FAILED;
    if (left > 0 || *done == end)
        return ADD_OK;
    if (!chain_can_grow(header_of(w), &why)) {
        fail(err, "not added: '%s' is full: %s", b->name, why.text);
        return ADD_FULL;
    }
    if (!b->ops->advance(b->place, w->options.threads, (struct next_layer){0}, err))
        return ADD_FAILED;
    settle(w);
    return make_exact_room(w, keys, known, n, done, room, err);
}

/* Adds the keys of records [*done, end), LAYER_BATCH at most. */
static enum add_result add_some(struct writer *w, struct hashes keys, uint64_t *known, size_t end,
                                size_t *done, struct err *err)
{
    struct group g;
    double n = (double)(end - *done);
    if (rate_is_near_max(&w->rate, n) && !rate_allows(&w->rate, 2 * n))
        return add_carefully(w, keys, known, end, done, err);
    group_gather(&g, keys, header_of(w)->hash->lanes, known, *done, end);
    if (!add_group(w, &g, known, err))
        return ADD_FAILED;
    *done = end;
    return ADD_OK;
}

static enum add_result add_all(struct writer *w, struct hashes keys, uint64_t *known, size_t n,
                               size_t *done, struct err *err)
{
    while (*done < n) {
        size_t room;
        enum add_result result = chain_is_exact(header_of(w))
                                     ? make_exact_room(w, keys, known, n, done, &room, err)
                                 : make_room(w, &room, err) ? ADD_OK
                                                            : ADD_FAILED;
        if (result != ADD_OK)
            return result;
        size_t end = room < n - *done ? *done + room : n;
        if (end == *done)
            continue;
        result = add_some(w, keys, known, end, done, err);
        if (result != ADD_OK)
            return result;
        if (w->warned_fpr == 0 && rate_is_high(&w->rate))
            warn(w, "current");
    }
    return ADD_OK;
}

/* Finds out, under the lock, what other processes have done to the layers. */
static void catch_up(struct writer *w, bool replaced)
{
    const struct header *h = header_of(w);
    unsigned newest = chain_newest(h);
    if (replaced) {
        snprintf(w->out->warning, sizeof w->out->warning,
                 "'%.300s' was replaced; going on with the new file", w->backing->name);
    }
    if (replaced || newest != w->layer || h->layers[newest].generation != w->generation)
        settle(w);
}

enum add_result writer_add(struct writer *w, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    const struct backing *b = w->backing;
    bool replaced = false;
    *done = 0;
    w->out->warning[0] = '\0';
    if (!b->ops->lock(b->place, &replaced, err))
        return ADD_FAILED;
    catch_up(w, replaced);
    w->few = n <= FEW;
    w->n_before = w->out->n_new;
    enum add_result result = add_all(w, keys, known, n, done, err);
    b->ops->unlock(b->place);
    return result;
}
