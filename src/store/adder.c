#include "store/adder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/num.h"
#include "store/advance.h"
#include "store/chain.h"

/* A warning is due at this multiple of the design FPR: less is the random spread of bits. */
static const double WARN_FACTOR = 1.01;

/* The FPR that goes into the counters is worked out for steps of so many keys, as a part of the
 * capacity. The steps begin at multiples of their length, whoever adds the keys in however many
 * runs, and the FPR in the middle of a step counts for all of it. Where the FPR rises with the m-th
 * power of n, that is off by m^2 step^2 / 24: at capacity 0.2 % for p = 0.001, where m is 6, and
 * 1 % for m = 15, the most there is, where hardly a key is lost. */
static const double FPR_STEP = 1.0 / 32;

static bool reserve(struct adder_keys *keys, size_t more)
{
    if (keys->room - keys->n >= more)
        return true;
    size_t room = 2 * keys->room + BATCH_MAX;
    uint64_t *hash = realloc(keys->hash, room * sizeof *hash);
    if (hash != NULL)
        keys->hash = hash;
    uint64_t *known = realloc(keys->known, room / 64 * sizeof *known);
    if (known != NULL)
        keys->known = known;
    if (hash == NULL || known == NULL)
        return false;
    keys->room = room;
    return true;
}

bool adder_keys_take(struct adder_keys *keys, const struct batch *b)
{
    if (!reserve(keys, BATCH_MAX))
        return false;
    memcpy(keys->hash + keys->n, b->hash, b->n * sizeof *b->hash);
    memcpy(keys->known + keys->n / 64, b->bad, sizeof b->bad);
    keys->n += b->n;
    return true;
}

void adder_keys_free(struct adder_keys *keys)
{
    free(keys->hash);
    free(keys->known);
}

static const struct layer *target(const struct adder *a)
{
    return &a->session.filter->header.layers[a->layer];
}

static uint8_t *target_data(const struct adder *a)
{
    return a->session.filter->map + target(a)->data_off;
}

/* The layer's share of an FPR of the whole filter. */
static double layer_fpr(const struct adder *a, double fpr)
{
    return 1 - (1 - fpr) / (1 - a->others_fpr);
}

static double whole_fpr(const struct adder *a, double in_layer)
{
    return 1 - (1 - in_layer) * (1 - a->others_fpr);
}

/* What the bits give may differ from the formula by some per cent in a small filter, so max_fpr is
 * near from nine tenths of its keys on. */
static const double NEAR = 0.9;

static void find_limits(struct adder *a)
{
    if (a->options.max_fpr > 0)
        a->max_n = layer_n_at(target(a), layer_fpr(a, a->options.max_fpr));
    double warn_fpr = WARN_FACTOR * a->session.filter->header.fpr_design;
    a->warn_n = layer_n_at(target(a), layer_fpr(a, warn_fpr));
}

/* Distinct keys in the layer that takes new ones. */
static double keys_now(const struct adder *a)
{
    return a->layer_n + (a->session.counters.n_keys - a->counted_n);
}

/* Reads all bits of the layer. Keys are counted so that the formula gives the FPR that the bits
 * give. */
static void look(struct adder *a)
{
    struct census census;
    filter_census(a->session.filter, a->layer, a->options.threads, &census);
    a->layer_n = layer_n_at(target(a), census.fpr);
    a->counted_n = a->session.counters.n_keys;
    a->correct_until = 0;
    a->step_end = 0;
}

/* The FPR of a layer that takes no keys: as noted when it was closed, else by its bits. */
static double closed_fpr(const struct adder *a, unsigned layer)
{
    const struct header *h = &a->session.filter->header;
    struct census census;
    if (h->policy != POLICY_FIXED)
        return h->layers[layer].fpr_closed;
    filter_census(a->session.filter, layer, a->options.threads, &census);
    return census.fpr;
}

/* Finds out where keys go and how full that is. */
static void settle(struct adder *a)
{
    const struct header *h = &a->session.filter->header;
    double absent = 1;
    a->layer = chain_newest(h);
    a->generation = target(a)->generation;
    a->others_n = 0;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (i != a->layer && !h->layers[i].is_void) {
            absent *= 1 - closed_fpr(a, i);
            a->others_n += h->layers[i].n_closed;
        }
    a->others_fpr = 1 - absent;
    a->counted_n = a->session.counters.n_keys;
    a->layer_n = a->counted_n - a->others_n;
    /* Counters that a crash has made unknown are too low; those of a merge are from the bits. */
    bool too_low =
        a->session.counters.unknown && (h->policy != POLICY_FIXED || h->state == STATE_DIRTY);
    if (too_low || (h->policy == POLICY_FIXED && h->n_layers > 1))
        look(a);
    a->warned_fpr = 0;
    find_limits(a);
    if (a->options.max_fpr > 0 && keys_now(a) > NEAR * a->max_n)
        look(a);
    a->step_end = 0;
    a->correction = 1;
    a->correct_until = 0;
}

bool adder_begin(struct adder *a, struct filter *f, const struct adder_options *options,
                 struct err *err)
{
    *a = (struct adder){.options = *options};
    if (f->header.layers[chain_newest(&f->header)].kind->add == NULL)
        return fail(err, "'%s' is immutable: no keys can be added to it", f->path);
    if (options->rotate && f->header.policy != POLICY_RING)
        return fail(err, "'%s' has no generations, so it cannot be rotated", f->path);
    if (!session_begin(&a->session, f, err))
        return false;
    settle(a);
    return true;
}

/* A filter in which nearly all bits are set still takes keys. What they add to the counters is
 * divided by the part of absent keys that it does not report, which is taken for no less than
 * this. */
static const double LEAST_NEGATIVE = 0x1p-30;

/* The length of a step at n keys. Above twice the capacity, where the FPR rises more slowly, steps
 * are doubled whenever n is. */
static double step_at(const struct adder *a, double n)
{
    int doublings;
    double n_design = fmax(1, (double)target(a)->n_design);
    frexp(n / (2 * n_design), &doublings);
    return ldexp(FPR_STEP * n_design, doublings > 0 ? doublings : 0);
}

/* Above capacity the bits are looked at, once a step, for the part of absent keys that they do not
 * report, as a multiple of what the formula says. Many keys are taken for present then, and without
 * this a number of keys that is too large would give too high an FPR, which makes it larger still.
 * A page of bits is read for 50 keys or more. */
static void correct_fpr(struct adder *a)
{
    double n = keys_now(a);
    if (n <= (double)target(a)->n_design || n < a->correct_until)
        return;
    struct census census;
    filter_census(a->session.filter, a->layer, a->options.threads, &census);
    double absent = 1 - target(a)->kind->fpr_at(target(a), n);
    a->correction = (1 - census.fpr) / fmax(LEAST_NEGATIVE, absent);
    a->correct_until = n + step_at(a, n);
    a->step_end = 0;
}

/* The FPR of the filter about now, for the counters. */
static void update_fpr(struct adder *a)
{
    double n = fmax(0, keys_now(a));
    if (n >= a->step_start && n < a->step_end)
        return;
    double step = step_at(a, n);
    a->step_start = floor(n / step) * step;
    a->step_end = a->step_start + step;
    /* The first key of a step meets the FPR at its start, the last that of one key less than its
     * end. */
    double middle = step > 1 ? (a->step_start + a->step_end - 1) / 2 : n;
    double absent = a->correction * (1 - target(a)->kind->fpr_at(target(a), middle));
    a->layer_fpr = 1 - fmin(1, fmax(LEAST_NEGATIVE, absent));
    a->fpr = fmin(whole_fpr(a, a->layer_fpr), 1 - LEAST_NEGATIVE);
}

/* Counts keys that were inserted, of which n_new were not reported by any layer, step by step. */
static void count_keys(struct adder *a, size_t n_inserted, size_t n_new)
{
    struct counters *c = &a->session.counters;
    bool ring = a->session.filter->header.policy == POLICY_RING;
    double new_part = n_inserted > 0 ? (double)n_new / (double)n_inserted : 0;
    c->keys_added += n_new;
    a->n_new += n_new;
    while (n_inserted > 0) {
        update_fpr(a);
        /* A ring counts the keys of each generation: those of others are no loss to this one. */
        double absent = 1 - (ring ? a->layer_fpr : a->fpr);
        double in_step = ceil((a->step_end - keys_now(a)) * absent);
        size_t n = in_step < (double)n_inserted ? (size_t)fmax(1, in_step) : n_inserted;
        double lost = new_part * (double)n * a->fpr / (1 - a->fpr);
        a->dropped += lost;
        c->dropped += lost;
        c->n_keys += (double)n / absent;
        n_inserted -= n;
    }
}

enum { GROUP_WORDS = LAYER_BATCH / 64 };

/* Keys that go in together: those of some records that are not known. Key i is that of record
 * first + place[i]. */
struct group {
    uint64_t hash[LAYER_BATCH];
    uint16_t place[LAYER_BATCH];
    size_t n, first;
};

/* Takes those of records [from, to), which are LAYER_BATCH at most; mostly, all of them. */
static void gather(struct group *g, const uint64_t *hash, const uint64_t *known, size_t from,
                   size_t to)
{
    uint64_t any_known = 0;
    for (size_t w = from / 64; w * 64 < to; w++)
        any_known |= known[w];
    g->n = 0;
    g->first = from;
    if (any_known == 0) {
        g->n = to - from;
        memcpy(g->hash, hash + from, g->n * sizeof *hash);
        for (unsigned i = 0; i < LAYER_BATCH; i++)
            g->place[i] = (uint16_t)i;
        return;
    }
    for (size_t i = from; i < to; i++) {
        g->hash[g->n] = hash[i];
        g->place[g->n] = (uint16_t)(i - from);
        g->n += !bit_of(known, i);
    }
}

/* Makes the keys i of a group known whose bit i is set; those of whole groups, a word at a time. */
static void mark_known(const struct group *g, const uint64_t *present, uint64_t *known)
{
    bool is_whole = g->n > 0 && g->place[g->n - 1] == g->n - 1;
    if (is_whole && g->first % 64 == 0) {
        for (size_t w = 0; w < (g->n + 63) / 64; w++)
            known[g->first / 64 + w] |= present[w];
        return;
    }
    for (size_t w = 0; w < GROUP_WORDS; w++)
        for (uint64_t bits = present[w]; bits != 0; bits &= bits - 1) {
            size_t i = 64 * w + (unsigned)__builtin_ctzll(bits);
            bit_set(known, g->first + g->place[i]);
        }
}

/* The same, and they leave the group; clears the bits. */
static void leave_out(struct group *g, uint64_t *present, uint64_t *known)
{
    size_t n = 0;
    if (bits_count(present, LAYER_BATCH) == 0)
        return;
    mark_known(g, present, known);
    for (size_t i = 0; i < g->n; i++) {
        g->hash[n] = g->hash[i];
        g->place[n] = g->place[i];
        n += !bit_of(present, i);
    }
    g->n = n;
    memset(present, 0, LAYER_BATCH / 8);
}

/* Sets the bits of those keys of a group that another layer has. */
static bool ask_others(const struct adder *a, const struct group *g, uint64_t *present,
                       struct err *err)
{
    struct filter *f = a->session.filter;
    for (unsigned i = f->header.n_layers; i-- > 0;) {
        const struct layer *layer = &f->header.layers[i];
        if (i == a->layer || layer->is_void)
            continue;
        if (!filter_verify(f, i, hashes_of(g->hash), g->n, err))
            return false;
        layer->kind->query(layer, f->map + layer->data_off, hashes_of(g->hash), g->n, present);
        session_rely(&a->session, i, hashes_of(g->hash), g->n, present);
    }
    return true;
}

/* Sets the bits of those keys of a group that the layer had. */
static bool insert(struct adder *a, const struct group *g, uint64_t *present, struct err *err)
{
    if (g->n == 0)
        return true;
    if (!session_touch(&a->session, a->layer, hashes_of(g->hash), g->n, err))
        return false;
    target(a)->kind->add(target(a), target_data(a), hashes_of(g->hash), g->n, present);
    return true;
}

/* Adds a group, counts the keys that were new, and makes the others known; none if it fails. */
static bool add_group(struct adder *a, struct group *g, uint64_t *known, struct err *err)
{
    uint64_t elsewhere[GROUP_WORDS] = {0}, present[GROUP_WORDS] = {0};
    const struct header *h = &a->session.filter->header;
    size_t n_given = g->n;
    if (h->n_layers > 1 && !ask_others(a, g, elsewhere, err))
        return false;
    /* In a ring what comes again goes in again. */
    if (h->policy != POLICY_RING)
        leave_out(g, elsewhere, known);
    correct_fpr(a);
    if (!insert(a, g, present, err))
        return false;
    size_t n_inserted = g->n - bits_count(present, LAYER_BATCH);
    for (size_t w = 0; w < GROUP_WORDS; w++)
        present[w] |= elsewhere[w];
    mark_known(g, present, known);
    a->session.counters.records += n_given;
    count_keys(a, n_inserted, g->n - bits_count(present, LAYER_BATCH));
    return true;
}

/* Would adding this key change nothing? */
static bool ask_settled(const struct adder *a, uint64_t hash, bool *settled, struct err *err)
{
    uint64_t present = 0;
    struct filter *f = a->session.filter;
    bool ring = f->header.policy == POLICY_RING;
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *layer = &f->header.layers[i];
        if (layer->is_void || (ring && i != a->layer))
            continue;
        if (!filter_verify(f, i, hashes_of(&hash), 1, err))
            return false;
        layer->kind->query(layer, f->map + layer->data_off, hashes_of(&hash), 1, &present);
        session_rely(&a->session, i, hashes_of(&hash), 1, &present);
    }
    *settled = present & 1;
    return true;
}

/* Near max_fpr the bits are looked at again whenever half of the keys have come that by the last
 * look there was room for; so there are few looks, and the last ones are at every key. */
static void look_if_stale(struct adder *a)
{
    double since = a->session.counters.n_keys - a->counted_n;
    if (since > 0 && since >= (a->max_n - a->layer_n) / 2)
        look(a);
}

/* The last key may raise the FPR by some times of what the formula says of a key: it does so when
 * it comes into a line that is nearly full. */
static const double SPARE = 3;

static enum adder_result refuse(const struct adder *a, struct err *err)
{
    char limit[NUM_TEXT];
    fail(err, "not added: the false-positive rate of '%s' would pass %s", a->session.filter->path,
         num_show_fpr(limit, a->options.max_fpr));
    return ADDER_FULL;
}

/* Adds the keys of records [*done, end) one by one, as long as max_fpr allows. */
static enum adder_result add_carefully(struct adder *a, const uint64_t *hash, uint64_t *known,
                                       size_t end, size_t *done, struct err *err)
{
    for (; *done < end; ++*done) {
        struct group one;
        bool settled;
        gather(&one, hash, known, *done, *done + 1);
        if (one.n == 0)
            continue;
        if (!ask_settled(a, one.hash[0], &settled, err))
            return ADDER_FAILED;
        if (settled) {
            bit_set(known, *done);
            a->session.counters.records++;
            continue;
        }
        look_if_stale(a);
        if (keys_now(a) + SPARE > a->max_n)
            return refuse(a, err);
        if (!add_group(a, &one, known, err))
            return ADDER_FAILED;
    }
    return ADDER_OK;
}

static void warn(struct adder *a, const char *when)
{
    char now[NUM_TEXT], design[NUM_TEXT];
    look(a);
    if (keys_now(a) <= a->warn_n)
        return;
    double in_layer = target(a)->kind->fpr_at(target(a), a->layer_n);
    a->warned_fpr = whole_fpr(a, in_layer);
    snprintf(a->warning, sizeof a->warning,
             "'%.300s' is fuller than it was made for: its %s false-positive rate is %s, its "
             "design rate %s", a->session.filter->path, when, num_show_fpr(now, a->warned_fpr),
             num_show_fpr(design, a->session.filter->header.fpr_design));
}

void adder_conclude(struct adder *a, bool again)
{
    char before[NUM_TEXT], now[NUM_TEXT];
    a->warning[0] = '\0';
    if (a->warned_fpr == 0)
        return;
    num_show_fpr(before, a->warned_fpr);
    warn(a, "final");
    if (!again && strcmp(before, num_show_fpr(now, a->warned_fpr)) == 0)
        a->warning[0] = '\0';
}

/* A layer is full when fewer than this part of its keys find room: not so few that the last of them
 * go in one by one. */
static const double FULL = 1.0 / 64;

/* Sees to it that the layer has room, if the filter's policy says how. Sets *room to a number of
 * keys, at least 1, that may go in before this is asked again. */
static bool make_room(struct adder *a, size_t *room, struct err *err)
{
    enum policy policy = a->session.filter->header.policy;
    *room = LAYER_BATCH;
    if (policy == POLICY_FIXED || (policy == POLICY_RING && !a->options.rotate))
        return true;
    double n_design = (double)target(a)->n_design, left = n_design - keys_now(a);
    double least = FULL * n_design < LAYER_BATCH ? FULL * n_design : LAYER_BATCH;
    if (left < least || left < 1) {
        if (!advance(&a->session, a->options.threads, a->to_come, err))
            return false;
        settle(a);
        return make_room(a, room, err);
    }
    if (left < LAYER_BATCH)
        *room = (size_t)left;
    return true;
}

/* Adds the keys of records [*done, end), LAYER_BATCH at most. */
static enum adder_result add_some(struct adder *a, const uint64_t *hash, uint64_t *known,
                                  size_t end, size_t *done, struct err *err)
{
    struct group g;
    double n = (double)(end - *done);
    if (a->options.max_fpr > 0 && keys_now(a) + n > NEAR * a->max_n) {
        look_if_stale(a);
        if (keys_now(a) + 2 * n > a->max_n)
            return add_carefully(a, hash, known, end, done, err);
    }
    gather(&g, hash, known, *done, end);
    if (!add_group(a, &g, known, err))
        return ADDER_FAILED;
    *done = end;
    return ADDER_OK;
}

static enum adder_result add_all(struct adder *a, const uint64_t *hash, uint64_t *known, size_t n,
                                 size_t *done, struct err *err)
{
    while (*done < n) {
        size_t room;
        if (!make_room(a, &room, err))
            return ADDER_FAILED;
        size_t end = room < n - *done ? *done + room : n;
        enum adder_result result = add_some(a, hash, known, end, done, err);
        if (result != ADDER_OK)
            return result;
        if (a->warned_fpr == 0 && keys_now(a) > a->warn_n)
            warn(a, "current");
    }
    return ADDER_OK;
}

/* After the lock was taken: has anything happened to the layers? */
static bool catch_up(struct adder *a, struct err *err)
{
    const struct header *h = &a->session.filter->header;
    if (a->session.replaced)
        snprintf(a->warning, sizeof a->warning,
                 "'%.300s' was replaced; going on with the new file", a->session.filter->path);
    if (!advance_finish(&a->session, err))
        return false;
    unsigned newest = chain_newest(h);
    if (a->session.replaced || newest != a->layer || h->layers[newest].generation != a->generation)
        settle(a);
    return true;
}

enum adder_result adder_add(struct adder *a, const uint64_t *hash, uint64_t *known, size_t n,
                            size_t *done, struct err *err)
{
    *done = 0;
    a->warning[0] = '\0';
    if (!session_lock(&a->session, err))
        return ADDER_FAILED;
    enum adder_result result =
        catch_up(a, err) ? add_all(a, hash, known, n, done, err) : ADDER_FAILED;
    session_unlock(&a->session);
    return result;
}

bool adder_sync(struct adder *a, struct err *err)
{
    return session_sync(&a->session, err);
}

bool adder_end(struct adder *a, bool sync, struct err *err)
{
    return session_end(&a->session, sync, err);
}
