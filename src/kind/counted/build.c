/* SPDX-License-Identifier: MIT */
/* Builds a counted set from the hashes of a keyset. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "keys/keyset.h"
#include "keys/sort.h"
#include "kind/counted/layer.h"
#include "kind/target.h"

/* 3 MiB for a thread's streams and its encoder, which buffers 1 MiB (encode.c). Then the bytes of
 * its part: 64 bits for each hash, and as much again while their buffer grows. */
uint64_t counted_build_memory(void)
{
    return ((uint64_t)3 << 20) + 2 * 8 * (uint64_t)COUNTED_PART;
}

/* Parts of the keyset are ranges of hashes. A range rarely ends where a group ends. So each part
 * writes the groups that end in it, and carries the hashes of its unfinished group over to the next
 * part. These are at most the hashes of one group, about 4000 unless the keys are adversarial: then
 * all but the last ones go to a scratch file. */
enum { CARRY = 1 << 14 };

struct carry {
    uint64_t *hash; /* CARRY lanes, of which n are used; NULL: none were carried yet */
    size_t n;
    int scratch;        /* -1: none */
    uint64_t n_scratch; /* lanes */
};

static const struct carry NO_CARRY = {.scratch = -1};

static void free_carry(struct carry *c)
{
    free(c->hash);
    if (c->scratch >= 0)
        close(c->scratch);
}

/* The hashes of groups: of the carry those in scratch, then those in memory; then those of a part.
 */
struct joined {
    struct counted_stream stream;
    const struct carry *carry;
    uint64_t at, end; /* in scratch */
    bool counts;      /* a lane of repeats (keyset.h) follows each hash */
    uint64_t read[COUNTED_RUN];
    uint64_t value[COUNTED_RUN / 2], count[COUNTED_RUN / 2];
    struct counted_array array[2];
    unsigned of; /* array that is being read */
};

static bool next_of_scratch(struct joined *j, struct counted_run *run, struct err *err)
{
    size_t n = j->end - j->at < COUNTED_RUN ? (size_t)(j->end - j->at) : COUNTED_RUN, got;
    if (!disk_read(j->carry->scratch, j->read, n * sizeof *j->read, j->at * sizeof *j->read, &got))
        return fail_errno(err, "cannot read the scratch file");
    if (got < n * sizeof *j->read)
        return fail(err, "the scratch file ends early");
    j->at += n;
    *run = (struct counted_run){.value = j->read, .count = j->array[0].ones, .n = n};
    return true;
}

static bool next_lanes(struct joined *j, struct counted_run *run, struct err *err)
{
    if (j->at < j->end)
        return next_of_scratch(j, run, err);
    if (!counted_next(&j->array[j->of].stream, run, err))
        return false;
    if (run->n > 0 || j->of == 1)
        return true;
    j->of = 1;
    return counted_next(&j->array[1].stream, run, err);
}

static bool next_joined(struct counted_stream *stream, struct counted_run *run, struct err *err)
{
    struct joined *j = (struct joined *)stream;
    if (!next_lanes(j, run, err))
        return false;
    if (!j->counts)
        return true;
    for (size_t i = 0; i < run->n / 2; i++) {
        j->value[i] = run->value[2 * i];
        j->count[i] = run->value[2 * i + 1] + 1;
    }
    *run = (struct counted_run){.value = j->value, .count = j->count, .n = run->n / 2};
    return true;
}

struct build {
    struct counted_layer layer;
    bool presumed;
    /* Guarded by the layer's lock. */
    uint64_t next; /* the first hash of the part that takes `carry` next */
    struct carry carry;
    struct keyset *keys;
    unsigned lanes; /* of a hash with its repeats */
};

struct work {
    struct counted_source source;
    struct build *build;
    /* The part: groups [first, end) have the hashes of `taken`, all of the first group, and
     * the first `head` of `hash`. */
    uint64_t first, end;
    struct carry taken;
    const uint64_t *hash;
    size_t head;
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

/* Writes n lanes. */
static bool to_scratch(struct build *b, const uint64_t *hash, size_t n, struct err *err)
{
    struct carry *c = &b->carry;
    if (n == 0)
        return true;
    if (c->scratch < 0)
        c->scratch = disk_scratch(keyset_spec(b->keys)->scratch_dir, err);
    c->n_scratch += n;
    return c->scratch >= 0 && disk_write(c->scratch, hash, n * sizeof *hash,
                                         (c->n_scratch - n) * sizeof *hash, "scratch file", err);
}

/* Appends n lanes to the carry. */
static bool carry_on(struct build *b, const uint64_t *hash, size_t n, struct err *err)
{
    struct carry *c = &b->carry;
    if (n == 0)
        return true;
    if (c->hash == NULL && (c->hash = malloc(CARRY * sizeof *c->hash)) == NULL)
        return fail(err, "out of memory");
    if (n > CARRY - c->n) {
        if (!to_scratch(b, c->hash, c->n, err))
            return false;
        c->n = 0;
    }
    if (n > CARRY)
        return to_scratch(b, hash, n, err);
    memcpy(c->hash + c->n, hash, n * sizeof *hash);
    c->n += n;
    return true;
}

/* Waits for the part's turn. If a group ends in the part, takes the carried hashes. Appends the
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
        b->carry = NO_CARRY;
    }
    ok = ok && carry_on(b, range->hash + head * b->lanes, (range->n - head) * b->lanes, err);
    b->next = range->last + 1;
    pthread_cond_broadcast(&b->layer.turned);
    pthread_mutex_unlock(&b->layer.lock);
    return ok;
}

static struct counted_stream *open_new_groups(struct counted_source *source, uint64_t first,
                                              uint64_t end, struct err *err)
{
    struct work *w = (struct work *)source;
    const struct counted *c = &w->build->layer.counted;
    const unsigned lanes = w->build->lanes;
    struct joined *j = &w->joined;
    bool is_first = first == w->first;
    size_t from = is_first ? 0 : sort_below(w->hash, w->head, lanes, first_hash(c, first));
    size_t to = end == w->end ? w->head : sort_below(w->hash, w->head, lanes, first_hash(c, end));
    (void)err;
    j->stream.next = next_joined;
    j->carry = &w->taken;
    j->counts = lanes > 1;
    j->at = j->of = 0;
    j->end = is_first ? w->taken.n_scratch : 0;
    counted_array(&j->array[0], w->taken.hash, NULL, is_first ? w->taken.n : 0);
    counted_array(&j->array[1], w->hash + from * lanes, NULL, (to - from) * lanes);
    counted_narrow(&w->narrow, &j->stream, 64 - c->bits);
    return &w->narrow.stream;
}

static bool visit(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct build *b = ctx;
    const struct counted *c = &b->layer.counted;
    if (range->had_repeats && b->presumed)
        return fail(err, "some keys are repeated");
    struct work *w = malloc(sizeof *w);
    if (w == NULL)
        return fail(err, "out of memory");
    w->source = (struct counted_source){open_new_groups, NULL};
    w->build = b;
    w->taken = NO_CARRY;
    /* Groups [first, end) end in this range; `first` may have begun in an earlier one. */
    bool is_last = range->last == UINT64_MAX;
    w->first = range->first > 0 ? groups_begun(c, range->first - 1) - 1 : 0;
    w->end = is_last ? counted_groups(c) : groups_begun(c, range->last) - 1;
    w->hash = range->hash;
    w->head = is_last ? range->n
              : w->end > w->first
                  ? sort_below(range->hash, range->n, b->lanes, first_hash(c, w->end))
                  : 0;
    bool ok =
        exchange(b, range, w->head, w->end > w->first, &w->taken, err) &&
        (w->end == w->first || counted_layer_part(&b->layer, w->first, w->end, &w->source, err));
    free_carry(&w->taken);
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
    struct build b = {.presumed = target->presumed,
                      .carry = NO_CARRY,
                      .keys = keys,
                      .lanes = 1 + keyset_spec(keys)->counts};
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
