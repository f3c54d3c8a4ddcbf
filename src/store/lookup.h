/*
 * Which keys of a batch are in the layers of a filter, under the lock of its backing: what a writer
 * has to know before it inserts them.
 *
 *     struct lookup l = {.backing = &backing, .newest = chain_newest(header), ...};
 *     uint64_t present[GROUP_WORDS] = {0};
 *     if (!lookup_others(&l, &group, present, &err)) ...
 *
 * A layer is not asked if a later one has all its keys, or if it was asked before the lock was
 * taken (store_peek). Keys that are found are then relied on (backing.h).
 */
#ifndef STORE_LOOKUP_H
#define STORE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/backing.h"
#include "store/group.h"
#include "store/store.h"

struct lookup {
    const struct backing *backing;
    unsigned newest;             /* takes keys */
    const struct peeked *peeked; /* of the batch; NULL: nothing */
};

/* These set the bits of keys that are in the newest layer; in another one; or anywhere such that to
 * add them would change nothing. */
bool lookup_newest(const struct lookup *l, const struct group *g, uint64_t *present,
                   struct err *err);
bool lookup_others(const struct lookup *l, const struct group *g, uint64_t *present,
                   struct err *err);
bool lookup_all(const struct lookup *l, const struct group *g, uint64_t *present, struct err *err);

/* Can lookup_others answer for the whole batch without asking a layer? Not in a ring with several
 * layers. */
bool lookup_is_peeked(const struct lookup *l);

/* If so, sets the bits of those of n records of the batch that another layer has. The first one is
 * number `from`, a multiple of 64. */
void lookup_take_peeked(const struct lookup *l, size_t from, size_t n, uint64_t *present);

#endif
