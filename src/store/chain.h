/*
 * Filters whose layers change: a list of layers, of which the newest takes keys.
 *
 * A filter that grows (POLICY_GROW) is given another layer, of twice the capacity, when the newest
 * is full. Of the FPR that it is promised to keep, each layer gets a part of what those before it
 * have left, by their bits. A key is inserted only if no layer has it.
 *
 * A ring (POLICY_RING) has a fixed number of layers, its generations, of equal size. To rotate it
 * is to empty the oldest and make it the newest. A key is inserted unless the newest has it, so
 * that what comes again stays fresh. Emptying takes three steps, each on disk before the next
 * begins: the layer is marked void, it is zeroed, it is marked as the newest. A rotation that was
 * cut off between two of them is taken up by the next writer.
 */
#ifndef STORE_CHAIN_H
#define STORE_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/session.h"

enum {
    CHAIN_FIRST = 1 << 20,  /* keys of a growing filter's first layer, unless told otherwise */
    CHAIN_GENERATIONS = FORMAT_MAX_LAYERS - 1,
};

/* The layer that takes keys. */
unsigned chain_newest(const struct header *h);

/* Gives a header the one layer with which a filter begins that is to keep FPR p however it grows;
 * and the layers of a ring that remembers n keys for `generations` rotations at least. The header's
 * policy, capacity and rate are set; the newest layer takes keys since h->created; it is not
 * placed. */
bool chain_start_growing(struct header *h, const struct kind *kind, uint64_t n, double p,
                         struct err *err);
bool chain_start_ring(struct header *h, const struct kind *kind, unsigned generations, uint64_t n,
                      double p, struct err *err);

/* Closes the newest layer and begins another, under the session's lock: a filter that grows gets
 * one more, for n_next keys at least; a ring, in which no rotation is cut off, empties its oldest.
 * Reads all bits of the newest, with so many threads. */
bool chain_advance(struct session *s, unsigned threads, uint64_t n_next, struct err *err);

/* Ends a rotation that was cut off. Nothing to do where there is none. */
bool chain_finish(struct session *s, struct err *err);

/* For tests: called after each step of a rotation, 1 to 3. */
extern void (*chain_step)(int step);

#endif
