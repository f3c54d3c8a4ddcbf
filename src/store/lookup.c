#include "store/lookup.h"

static const struct header *header_of(const struct lookup *l)
{
    return l->backing->layers.header;
}

static bool ask(const struct lookup *l, unsigned i, const struct group *g, uint64_t *present,
                struct err *err)
{
    const struct backing *b = l->backing;
    const struct layer *layer = &header_of(l)->layers[i];
    struct hashes keys = group_hashes(g);
    if (b->ops->verify != NULL && !b->ops->verify(b->place, i, keys, g->n, err))
        return false;
    layer->kind->query(layer, b->layers.data[i], keys, g->n, present);
    if (b->ops->rely != NULL)
        b->ops->rely(b->place, i, keys, g->n, present);
    return true;
}

bool lookup_newest(const struct lookup *l, const struct group *g, uint64_t *present,
                   struct err *err)
{
    return ask(l, l->newest, g, present, err);
}

bool lookup_others(const struct lookup *l, const struct group *g, uint64_t *present,
                   struct err *err)
{
    const struct header *h = header_of(l);
    for (unsigned i = h->n_layers; i-- > 0;)
        if (i != l->newest && !h->layers[i].is_void && !ask(l, i, g, present, err))
            return false;
    return true;
}

bool lookup_all(const struct lookup *l, const struct group *g, uint64_t *present, struct err *err)
{
    const struct header *h = header_of(l);
    bool ring = h->policy == POLICY_RING;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!h->layers[i].is_void && (!ring || i == l->newest) && !ask(l, i, g, present, err))
            return false;
    return true;
}
