/*
 * The interface between a writer (writer.h) and the storage of a filter's layers: a file shared
 * with other writers, or private memory. A writer works on layers and counters directly, and calls
 * these functions for locking, checksums, syncing and new layers.
 */
#ifndef STORE_BACKING_H
#define STORE_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "store/chain.h"
#include "store/layers.h"

struct backing {
    const struct backing_ops *ops;
    void *place;
    const char *name; /* in messages */
    struct layers layers;
    struct counters *counters; /* live */
};

struct backing_ops {
    /* Begins and ends a batch. While the lock is held, header, layers and counters are current, no
     * other writer changes them, and no layer is void. Sets *replaced if the filter is no longer
     * the same one. */
    bool (*lock)(void *place, bool *replaced, struct err *err);
    void (*unlock)(void *place);

    /* Called with the lock held: `verify` before a layer is searched for keys, `touch` before keys
     * are inserted. If the call fails, do not search or insert. `rely`: for keys acknowledged
     * because a layer already has them; their bits are set in `present`. NULL: nothing to do. */
    bool (*verify)(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err);
    bool (*touch)(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err);
    void (*rely)(void *place, unsigned layer, struct hashes keys, size_t n,
                 const uint64_t *present);

    /* Closes the newest layer and begins the next (chain.h); `want` describes it in a growing
     * filter. Called with the lock held. */
    bool (*advance)(void *place, unsigned threads, struct next_layer want, struct err *err);
};

#endif
