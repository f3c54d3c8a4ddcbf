/* Builds a counted set from the hashes of a keyset. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "keys/keyset.h"
#include "kind/counted/layer.h"
#include "kind/target.h"

/* 3 MiB for a thread's streams and its encoder, which buffers 1 MiB (encode.c). Then the bytes of
 * its part: 64 bits for each hash, and as much again while their buffer grows. */
uint64_t counted_build_memory(void)
{
    return ((uint64_t)3 << 20) + 2 * 8 * (uint64_t)COUNTED_PART;
}

/* Two arrays read as one stream. */
struct joined {
    struct counted_stream stream;
    struct counted_array array[2];
    unsigned at;
};

static bool next_joined(struct counted_stream *stream, struct counted_run *run, struct err *err)
{
    struct joined *j = (struct joined *)stream;
    if (!counted_next(&j->array[j->at].stream, run, err))
        return false;
    if (run->n > 0 || j->at == 1)
        return true;
    j->at = 1;
    return counted_next(&j->array[1].stream, run, err);
}

/* Parts of the keyset are ranges of hashes. A range rarely ends where a group ends. So each part
 * writes the groups that end in it, and carries the hashes of its unfinished group over to the next
 * part. These are at most the hashes of one group, about 4000 unless the keys are adversarial. */
struct carry {
    uint64_t *hash;
    size_t n;
};

struct build {
    struct counted_layer layer;
    bool presumed;
    /* Guarded by the layer's lock. */
    uint64_t next; /* the first hash of the part that takes `carry` next */
    struct carry carry;
};

struct work {
    struct joined joined;
    struct counted_narrow narrow;
};

static void give_up(void *ctx)
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

/* Counts the elements of the ascending a[0..n) below limit. */
static size_t count_below(const uint64_t *a, size_t n, uint64_t limit)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (a[middle] < limit)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Appends hashes to a carry. */
static bool carry_on(struct carry *c, const uint64_t *hash, size_t n, struct err *err)
{
    if (n == 0)
        return true;
    uint64_t *grown = n < SIZE_MAX / 8 - c->n ? realloc(c->hash, (c->n + n) * sizeof *grown) : NULL;
    if (grown == NULL)
        return fail(err, "out of memory");
    memcpy(grown + c->n, hash, n * sizeof *hash);
    c->hash = grown;
    c->n += n;
    return true;
}

/* Waits for the part's turn. If a group ends in the part, takes the carried hashes. Appends the
 * part's hash[head..n) to the carry. */
static bool exchange(struct build *b, const struct keyset_range *range, size_t head, bool ends,
                     struct carry *taken, struct err *err)
{
    const struct keyset_piece *piece = range->piece;
    pthread_mutex_lock(&b->layer.lock);
    while (b->next != range->first && !b->layer.gave_up)
        pthread_cond_wait(&b->layer.turned, &b->layer.lock);
    bool ok = !b->layer.gave_up || fail(err, "given up");
    if (ok && ends) {
        *taken = b->carry;
        b->carry = (struct carry){NULL, 0};
    }
    ok = ok && carry_on(&b->carry, piece->hash + head, piece->n - head, err);
    b->next = range->last + 1;
    pthread_cond_broadcast(&b->layer.turned);
    pthread_mutex_unlock(&b->layer.lock);
    return ok;
}

static bool write_groups(struct build *b, uint64_t first, uint64_t end, const struct carry *taken,
                         const struct keyset_piece *piece, size_t head, struct err *err)
{
    struct work *w = malloc(sizeof *w);
    if (w == NULL)
        return fail(err, "out of memory");
    w->joined.stream.next = next_joined;
    w->joined.at = 0;
    counted_array(&w->joined.array[0], taken->hash, NULL, taken->n);
    counted_array(&w->joined.array[1], piece->hash, NULL, head);
    counted_narrow(&w->narrow, &w->joined.stream, 64 - b->layer.counted.bits);
    bool ok = counted_layer_part(&b->layer, first, end, &w->narrow.stream, err);
    free(w);
    return ok;
}

static bool visit(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct build *b = ctx;
    const struct counted *c = &b->layer.counted;
    const struct keyset_piece *piece = range->piece;
    struct carry taken = {NULL, 0};
    if (range->had_repeats && b->presumed)
        return fail(err, "some keys are repeated");
    /* Groups [first, end) end in this range; `first` may have begun in an earlier one. */
    uint64_t first = range->first > 0 ? groups_begun(c, range->first - 1) - 1 : 0;
    bool is_last = range->last == UINT64_MAX;
    uint64_t end = is_last ? counted_groups(c) : groups_begun(c, range->last) - 1;
    size_t head = is_last       ? piece->n
                  : end > first ? count_below(piece->hash, piece->n, first_hash(c, end))
                                : 0;
    bool ok = exchange(b, range, head, end > first, &taken, err) &&
              (end == first || write_groups(b, first, end, &taken, piece, head, err));
    free(taken.hash);
    return ok;
}

/* The expected number of distinct fingerprints of n random hashes. */
static uint64_t expected_entries(unsigned bits, uint64_t n)
{
    double cells = ldexp(1, (int)bits);
    return (uint64_t)(-cells * expm1(-(double)n / cells) + 0.5);
}

static bool build(const struct target *target, struct keyset *keys, const struct counted *design,
                  struct counted *made, struct err *err)
{
    unsigned bits = 0;
    while (bits < 40 && target->n >> bits > COUNTED_PART / 2)
        bits++;
    struct build b = {.presumed = target->presumed};
    counted_layer_begin(&b.layer, target, design);
    bool ok = keyset_visit_sorted(keys, bits, visit, give_up, &b, err) &&
              counted_layer_end(&b.layer, err);
    *made = b.layer.counted;
    counted_layer_free(&b.layer);
    free(b.carry.hash);
    return ok;
}

/* `low` depends on the number of fingerprints, which is known only at the end. So the first build
 * uses the expected number. If the real number gives another `low`, the set is built again. This is
 * rare, since random hashes have about the expected number. */
bool counted_build(const struct target *target, struct keyset *keys, struct census *census,
                   struct err *err)
{
    struct counted design = counted_of(target_layer(target)), made;
    counted_design(&design, expected_entries(design.bits, target->n));
    if (!build(target, keys, &design, &made, err))
        return false;
    counted_design(&design, made.entries);
    if (design.low != made.low && !build(target, keys, &design, &made, err))
        return false;
    counted_census(&made, census);
    return true;
}
