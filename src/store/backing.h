/*
 * What a writer (writer.h) needs of the place where a filter's layers are: a file that others may
 * be writing to, or memory of its own. A writer works on layers and counters, and calls these
 * functions where the place has something to do.
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

struct peeked;

struct backing {
    const struct backing_ops *ops;
    void *place;
    const char *name; /* in messages */
    struct layers layers;
    struct counters *counters; /* live */
};

struct backing_ops {
    /* Begins and ends a batch. Between them header, layers and counters are those of now, and
     * nobody else changes them; no layer is void. Sets *replaced if it is another filter than
     * before. */
    bool (*lock)(void *place, bool *replaced, struct err *err);
    void (*unlock)(void *place);

    /* Call it under the lock: `verify` before keys are looked for in a layer, `touch` before they
     * are inserted; if one of them fails, that must not be done. `rely` for keys that are
     * acknowledged because a layer has them: those whose bit is set in `present`. NULL: nothing
     * to do. */
    bool (*verify)(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err);
    bool (*touch)(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err);
    void (*rely)(void *place, unsigned layer, struct hashes keys, size_t n,
                 const uint64_t *present);

    /* Of layers that were asked before the lock was taken: the layer before which none need be
     * asked again. Call it under the lock. NULL: peeked->layers. */
    unsigned (*trust)(void *place, const struct peeked *peeked);

    /* Closes the newest layer and begins another, under the lock (chain.h): in a filter that grows
     * the one that is wanted. */
    bool (*advance)(void *place, unsigned threads, struct next_layer want, struct err *err);

    /* From now on no layer before this one need be asked: it has their keys. Call it under the
     * lock. NULL: layers never have keys of others (next_layer.holds_all). */
    void (*cover)(void *place, unsigned layer);
};

#endif
