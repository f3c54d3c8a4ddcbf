/*
 * What a new filter is to be: the wishes of `seen create`, and the layers that they come to, for as
 * many keys as there are where the wishes leave that open.
 *
 *     struct design design = {.p = p, .grow = true};                   // 0, false: not wished for
 *     uint64_t n = design_is_sized(&design) ? 0 : count_the_keys();
 *     if (!design_header(&design, n, &header, &err)) ...
 */
#ifndef STORE_DESIGN_H
#define STORE_DESIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/format.h"
#include "store/plan.h"

struct design {
    uint64_t n;                /* distinct keys that it is for */
    double p;                  /* FPR with that many */
    uint64_t size;             /* bytes that the file may take */
    const struct header *like; /* of one Bloom layer, which gives n, p and the size */
    bool compact;              /* immutable, for exactly the keys there are */
    bool foldable;             /* of a size that can be halved again and again */
    bool grow;                 /* without an end (chain.h); n, if given, sizes the first layer */
    unsigned generations;      /* a ring of so many; needs n */
    bool empty;                /* for no keys yet */
};

/* Do the wishes alone decide on the size? */
bool design_is_sized(const struct design *d);

/* The plan of a filter that neither grows nor forgets, for n distinct keys if those decide. Fails
 * on wishes that nothing can fulfil. */
bool design_plan(const struct design *d, uint64_t n, struct plan *plan, struct err *err);

/* Gives a header the layers of any filter, placed, its policy, capacity, rate and feature bits; the
 * layer that takes keys is chain_newest(h). The rest of the header is the caller's (empty.h). n and
 * failures as with design_plan. */
bool design_header(const struct design *d, uint64_t n, struct header *h, struct err *err);

#endif
