/*
 * The next layer of a filter whose newest layer is full, while keys are added to it. If all keys of
 * the filter are kept (store.h), they go into the new layer too, and no layer before it need be
 * asked any more. chain.h says which layer comes next.
 *
 *     struct growth g = {.backing = &backing, .kept = options.kept, ...};
 *     unsigned covered = 0;
 *     if (!grow(&g, &covered, &err)) ...         // under the lock of the backing
 */
#ifndef STORE_GROW_H
#define STORE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/backing.h"
#include "store/store.h"

struct growth {
    const struct backing *backing;
    const struct kept_keys *kept; /* NULL: none are */
    unsigned threads;
    uint64_t n_new;   /* new keys that have come from this input ... */
    uint64_t to_come; /* ... and about the number still to come; 0: nobody knows */
    size_t done;      /* keys that were added of those in the present call of store_add */
};

/* Closes the newest layer and begins another. If the new one has the keys of all layers before it,
 * sets *covered to its number. */
bool grow(const struct growth *g, unsigned *covered, struct err *err);

#endif
