/*
 * Which keys of a batch are in the layers of a filter, under the lock of its backing: what a writer
 * has to know before it inserts them.
 *
 *     struct lookup l = {.backing = &backing, .newest = chain_newest(header), ...};
 *     uint64_t present[GROUP_WORDS] = {0};
 *     if (!lookup_others(&l, &group, present, &err)) ...
 *
 * Keys that are found are then relied on (backing.h).
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
    unsigned newest; /* takes keys */
};

/* These set the bits of keys that are in the newest layer; in another one; or anywhere such that to
 * add them would change nothing. */
bool lookup_newest(const struct lookup *l, const struct group *g, uint64_t *present,
                   struct err *err);
bool lookup_others(const struct lookup *l, const struct group *g, uint64_t *present,
                   struct err *err);
bool lookup_all(const struct lookup *l, const struct group *g, uint64_t *present, struct err *err);

#endif
