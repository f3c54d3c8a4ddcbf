/* SPDX-License-Identifier: MIT */
/* Builds a counted set from the hashes of a keyset. */
#include <math.h>
#include <stdlib.h>

#include "keys/keyset.h"
#include "keys/sort.h"
#include "kind/counted/layer.h"
#include "kind/target.h"

/* 3 MiB for a thread's streams and the entries of two groups: carried, and being encoded. Then the
 * bytes of its part: 64 bits for each hash, and as much again while their buffer grows. */
uint64_t counted_build_memory(void)
{
    return ((uint64_t)3 << 20) + 2 * 8 * (uint64_t)COUNTED_PART;
}

/* Parts of the keyset are ranges of hashes. A range rarely ends where a group ends. So each part
 * writes the groups that end in it, and carries the entries of its unfinished group over to the
 * next part. A value is the lowest hash with the entry's fingerprint. */
struct carry {
    uint64_t *value, *count; /* COUNTED_CROWD of each; NULL: none were carried yet */
    size_t n;
};

static void free_carry(struct carry *c)
{
    free(c->value);
    free(c->count);
}

/* Entries that were carried, then hashes of a part. */
struct joined {
    struct counted_stream stream;
    struct carry carry;
    bool carry_read;
    const uint64_t *hash;
    size_t at, n;   /* hashes */
    unsigned lanes; /* 2: a lane of repeats (keyset.h) follows each hash */
    uint64_t value[COUNTED_RUN], count[COUNTED_RUN];
};

static bool next_joined(struct counted_stream *stream, struct counted_run *run, struct err *err)
{
    struct joined *j = (struct joined *)stream;
    (void)err;
    if (!j->carry_read && j->carry.n > 0) {
        *run = (struct counted_run){j->carry.value, j->carry.count, j->carry.n};
        j->carry_read = true;
        return true;
    }
    size_t n = j->n - j->at < COUNTED_RUN ? j->n - j->at : COUNTED_RUN;
    for (size_t i = 0; i < n; i++) {
        const uint64_t *hash = j->hash + (j->at + i) * j->lanes;
        j->value[i] = hash[0];
        j->count[i] = j->lanes > 1 ? hash[1] + 1 : 1;
    }
    j->at += n;
    *run = (struct counted_run){j->value, j->count, n};
    return true;
}

struct build {
    struct counted_layer layer;
    bool presumed;
    unsigned lanes; /* of a hash with its repeats */
    /* Guarded by the layer's lock. */
    uint64_t next; /* the first hash of the part that takes `carry` next */
    struct carry carry;
};

/* A part: its groups have the entries of the carry and the first hashes of the range. */
struct work {
    struct joined joined;
    struct counted_narrow narrow;
};

static void give_up_set(void *ctx)
{
    counted_layer_give_up(&((struct build *)ctx)->layer);
}

/* The number of groups that begin at hashes up to `last`. */
static uint64_t groups_begun(const struct counted *c, uint64_t last)
{
    uint64_t bucket = last >> (64 - c->bits) >> c->low;
    return (bucket >> COUNTED_BUCKET_BITS) / COUNTED_BLOCKS + 1;
}

/* The smallest hash of a group. */
static uint64_t first_hash(const struct counted *c, uint64_t group)
{
    return counted_group_first(c, group) << (64 - c->bits);
}

/* Appends n hashes, which are of one group, to the carry. */
static bool carry_on(struct build *b, const uint64_t *hash, size_t n, struct err *err)
{
    struct carry *c = &b->carry;
    const unsigned drop = 64 - b->layer.counted.bits;
    if (n > 0 && c->value == NULL) {
        c->value = malloc(COUNTED_CROWD * sizeof *c->value);
        c->count = malloc(COUNTED_CROWD * sizeof *c->count);
        if (c->value == NULL || c->count == NULL)
            return fail(err, "out of memory");
    }
    for (; n > 0; n--, hash += b->lanes) {
        uint64_t value = hash[0] >> drop << drop, count = b->lanes > 1 ? hash[1] + 1 : 1;
        if (c->n > 0 && c->value[c->n - 1] == value) {
            c->count[c->n - 1] += count;
            continue;
        }
        if (c->n == COUNTED_CROWD)
            return kind_crowded(COUNTED_CROWD, err);
        c->value[c->n] = value;
        c->count[c->n++] = count;
    }
    return true;
}

/* Waits for the part's turn. If a group ends in the part, takes the carried entries. Appends the
 * part's hashes from `head` on to the carry. */
static bool exchange(struct build *b, const struct keyset_range *range, size_t head, bool ends,
                     struct carry *taken, struct err *err)
{
    pthread_mutex_lock(&b->layer.lock);
    while (b->next != range->first && !b->layer.gave_up)
        pthread_cond_wait(&b->layer.turned, &b->layer.lock);
    bool ok = !b->layer.gave_up || fail(err, "given up");
    if (ok && ends) {
        *taken = b->carry;
        b->carry = (struct carry){0};
    }
    ok = ok && carry_on(b, range->hash + head * b->lanes, range->n - head, err);
    b->next = range->last + 1;
    pthread_cond_broadcast(&b->layer.turned);
    pthread_mutex_unlock(&b->layer.lock);
    return ok;
}

static bool visit_work(struct build *b, const struct keyset_range *range, struct work *w,
                       struct err *err)
{
    const struct counted *c = &b->layer.counted;
    struct joined *j = &w->joined;
    /* Groups [first, end) end in this range; `first` may have begun in an earlier one. */
    bool is_last = range->last == UINT64_MAX;
    uint64_t first = range->first > 0 ? groups_begun(c, range->first - 1) - 1 : 0;
    uint64_t end = is_last ? counted_groups(c) : groups_begun(c, range->last) - 1;
    j->stream.next = next_joined;
    j->lanes = b->lanes;
    j->hash = range->hash;
    j->n = is_last       ? range->n
           : end > first ? sort_below(range->hash, range->n, b->lanes, first_hash(c, end))
                         : 0;
    counted_narrow(&w->narrow, &j->stream, 64 - c->bits);
    return exchange(b, range, j->n, end > first, &j->carry, err) &&
           (end == first || counted_layer_part(&b->layer, first, end, &w->narrow.stream, err));
}

static bool visit(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct build *b = ctx;
    if (range->had_repeats && b->presumed)
        return fail(err, "some keys are repeated");
    struct work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return fail(err, "out of memory");
    bool ok = visit_work(b, range, w, err);
    free_carry(&w->joined.carry);
    free(w);
    return ok;
}

/* The expected number of distinct fingerprints of n random hashes. */
static uint64_t expected_entries(unsigned bits, uint64_t n)
{
    double cells = ldexp(1, (int)bits);
    return (uint64_t)(-cells * expm1(-(double)n / cells) + 0.5);
}

static bool build_set(const struct target *target, struct keyset *keys,
                      const struct counted *design, struct err *err)
{
    unsigned bits = 0;
    while (bits < 40 && target->n >> bits > COUNTED_PART / 2)
        bits++;
    struct build b = {.presumed = target->presumed, .lanes = 1 + keyset_spec(keys)->counts};
    counted_layer_begin(&b.layer, target, design);
    bool ok = keyset_visit_sorted(keys, bits, visit, give_up_set, &b, err) &&
              counted_layer_end(&b.layer, err);
    counted_layer_free(&b.layer);
    free_carry(&b.carry);
    return ok;
}

/* `low` depends on the number of fingerprints, which is known only at the end. So the first build
 * uses the expected number. If the real number gives another `low`, the set is built again. This is
 * rare, since random hashes have about the expected number. */
bool counted_build(const struct target *target, struct keyset *keys, struct census *census,
                   struct err *err)
{
    struct layer *layer = target->layer;
    struct counted design = counted_of(layer);
    counted_design(&design, expected_entries(design.bits, target->n));
    const unsigned low = design.low;
    if (!build_set(target, keys, &design, err))
        return false;
    counted_design(&design, counted_of(layer).entries);
    if (design.low != low && !build_set(target, keys, &design, err))
        return false;
    counted_census(layer, NULL, 1, census);
    return true;
}
