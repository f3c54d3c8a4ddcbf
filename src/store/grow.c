#include "store/grow.h"

#include "store/chain.h"

/* A layer that gets the kept keys. */
struct covering {
    const struct backing *backing;
    unsigned layer;
};

static bool put_kept(void *ctx, const struct keyset_piece *piece, struct err *err)
{
    const struct covering *c = ctx;
    const struct backing *b = c->backing;
    const struct layer *layer = &b->layers.header->layers[c->layer];
    for (size_t i = 0, n; i < piece->n; i += n) {
        uint64_t ignored[LAYER_BATCH / 64] = {0};
        const struct hashes keys = {piece->hash + i, LAYER_BATCH, NULL};
        n = piece->n - i < LAYER_BATCH ? piece->n - i : LAYER_BATCH;
        if (b->ops->touch != NULL && !b->ops->touch(b->place, c->layer, keys, n, err))
            return false;
        layer->kind->add(layer, b->layers.data[c->layer], keys, n, ignored);
    }
    return true;
}

/* In a layer of this many pages, two for each partition, a page has keys of two partitions at most.
 * These follow one another, and keyset_each hands them over one after the other. So threads share
 * no page. */
enum { LEAST_PAGES = 2 * KEYSET_PARTITIONS };

/* Puts all kept keys into the newest layer, which is empty. If that fails, all layers are asked as
 * before, and the number of keys that they have in common is unknown. */
static void cover(const struct growth *g, unsigned *covered)
{
    struct err ignored;
    const struct backing *b = g->backing;
    const struct header *h = b->layers.header;
    struct covering c = {b, chain_newest(h)};
    unsigned threads = layer_pages(&h->layers[c.layer]) < LEAST_PAGES ? 1 : g->threads;
    if (!g->kept->each(g->kept->ctx, g->done, threads, put_kept, &c, &ignored)) {
        b->counters->unknown = true;
        return;
    }
    *covered = c.layer;
    b->ops->cover(b->place, c.layer);
}

/* Can the next layer hold all keys of the filter, and does it pay? If the input's end is foretold,
 * few layers follow. A process that was killed may have added keys that the counters lack. */
static bool can_hold_all(const struct growth *g)
{
    const struct backing *b = g->backing;
    const struct header *h = b->layers.header;
    return g->kept != NULL && b->ops->cover != NULL && h->policy == POLICY_GROW &&
           g->to_come == 0 && !b->counters->unknown &&
           g->kept->complete(g->kept->ctx, h->id, b->counters->records, g->done);
}

/* The disk or the memory may have no room for what is foretold, but for the keys that come. */
static bool grow_less(const struct growth *g, struct next_layer usual)
{
    struct err ignored;
    const struct backing *b = g->backing;
    bool forgot = g->kept != NULL && g->kept->forget(g->kept->ctx);
    return (forgot && b->ops->advance(b->place, g->threads, usual, &ignored)) ||
           (usual.n > 0 &&
            b->ops->advance(b->place, g->threads, (struct next_layer){0}, &ignored));
}

bool grow(const struct growth *g, unsigned *covered, struct err *err)
{
    const struct backing *b = g->backing;
    const struct next_layer usual = {.n = chain_wanted(b->layers.header, g->n_new, g->to_come)};
    struct next_layer want = usual;
    want.holds_all = can_hold_all(g);
    if (want.holds_all)
        want.n = chain_wanted_for_all(b->counters->n_keys);
    bool ok = b->ops->advance(b->place, g->threads, want, err);
    if (ok && want.holds_all)
        cover(g, covered);
    return ok || grow_less(g, usual);
}
