/* SPDX-License-Identifier: MIT */
/* Builds a counted set from the hashes of a keyset. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "keys/keyset.h"
#include "kind/counted/layer.h"
#include "kind/counted/parts.h"
#include "kind/target.h"

/* The entries of a part and of an unfinished stretch. Then the bytes of its blocks: 64 bits for
 * each hash, and as much again while their buffer grows. */
uint64_t counted_build_memory(void)
{
    return sizeof(struct counted_entry) * (COUNTED_PART + COUNTED_CROWD + 1) +
           2 * sizeof(uint64_t) * (uint64_t)COUNTED_PART;
}

/* Parts of the keyset are ranges of hashes of whole stretches. But one of chosen keys is halved, so
 * a range may end inside a stretch; then the same worker visits what follows. It keeps the entries
 * of its unfinished stretch until then. */
struct set_build {
    struct counted_layer layer;
    bool presumed;
    unsigned lanes;               /* 2: the number of its repeats follows each hash */
    struct counted_entries *kept; /* of each worker */
    struct err *err;
};

static void give_up_set(void *ctx)
{
    struct set_build *b = ctx;
    counted_layer_give_up(&b->layer, b->err);
}

static bool visit_range(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct set_build *b = ctx;
    const struct counted *c = &b->layer.counted;
    const unsigned drop = 64 - c->bits;
    struct counted_entries *e = &b->kept[range->worker];
    if (range->had_repeats && b->presumed)
        return fail(err, "some keys are repeated");
    /* The entries of the range follow those that were kept. Both ranges and stretches of blocks
     * are halves of halves: in a range, stretches [first, end) end with it, or none does. */
    const size_t kept = e->n;
    const uint64_t *hash = range->hash;
    if (!counted_room(e, range->n, err))
        return false;
    for (size_t i = 0; i < range->n; i++, hash += b->lanes)
        e->at[e->n++] = (struct counted_entry){hash[0], b->lanes > 1 ? hash[1] + 1 : 1};
    counted_narrow(e, kept, drop);
    const uint64_t stretch = ~(uint64_t)(COUNTED_STRETCH - 1);
    const uint64_t first = counted_block_of(c, range->first >> drop) & stretch;
    const uint64_t end = range->last == UINT64_MAX
                             ? counted_blocks(c)
                             : counted_block_of(c, (range->last + 1) >> drop) & stretch;
    if (end == first)
        return e->n <= COUNTED_CROWD || kind_crowded(COUNTED_CROWD, err);
    const size_t n = e->n;
    e->n = 0;
    return counted_layer_part(&b->layer, first, end, e->at, n, err);
}

static bool build_set(const struct target *target, struct keyset *keys,
                      const struct counted *design, struct err *err)
{
    const struct keyset_spec *spec = keyset_spec(keys);
    unsigned bits = 0;
    while (bits < 40 && target->n >> bits > COUNTED_PART / 2 &&
           counted_blocks(design) >> bits > COUNTED_STRETCH)
        bits++;
    struct set_build b = {.presumed = target->presumed,
                          .lanes = 1 + spec->counts,
                          .kept = calloc(spec->workers, sizeof *b.kept),
                          .err = err};
    if (b.kept == NULL)
        return fail(err, "out of memory");
    counted_layer_begin(&b.layer, target, design);
    bool ok = keyset_visit_sorted(keys, bits, visit_range, give_up_set, &b, err) &&
              counted_layer_end(&b.layer, err);
    counted_layer_free(&b.layer);
    for (unsigned i = 0; i < spec->workers; i++)
        free(b.kept[i].at);
    free(b.kept);
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
    const double cells = ldexp(1, (int)design.bits);
    const double expected = -cells * expm1(-(double)target->n / cells);
    counted_design(&design, (uint64_t)(expected + 0.5));
    const unsigned low = design.low;
    if (!build_set(target, keys, &design, err))
        return false;
    counted_design(&design, counted_of(layer).entries);
    if (design.low != low && !build_set(target, keys, &design, err))
        return false;
    counted_census(layer, NULL, 1, census);
    return true;
}
