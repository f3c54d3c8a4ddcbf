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

/* No layer before this one need be asked, since all were asked before the lock was taken. 0: none
 * was. When they were asked must not change what is reported: the layers asked must be the same. */
static unsigned first_not_peeked(const struct lookup *l)
{
    const struct backing *b = l->backing;
    if (l->peeked == NULL || l->peeked->layers == 0)
        return 0;
    return b->ops->trust != NULL ? b->ops->trust(b->place, l->peeked) : l->peeked->layers;
}

/* Have all other layers their keys in the newest too? */
static bool is_alone(const struct lookup *l)
{
    return header_of(l)->n_layers == 1;
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
    unsigned peeked = first_not_peeked(l);
    if (peeked > 0)
        group_take_peeked(g, l->peeked->present, present);
    for (unsigned i = h->n_layers; i-- > peeked;)
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

bool lookup_is_peeked(const struct lookup *l)
{
    return is_alone(l) || first_not_peeked(l) == header_of(l)->n_layers - 1;
}

void lookup_take_peeked(const struct lookup *l, size_t from, size_t n, uint64_t *present)
{
    if (is_alone(l))
        return;
    for (size_t i = 0; i < (n + 63) / 64; i++)
        present[i] |= l->peeked->present[from / 64 + i];
}
