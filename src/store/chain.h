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
 *
 * This module works on headers alone: which layer comes next. advance.h makes it so in a file.
 */
#ifndef STORE_CHAIN_H
#define STORE_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/layers.h"

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

/* A header like that of these layers, with the newest closed: its keys by the counters, its FPR by
 * its bits, all of which are read. The first step of every change of layers. */
struct header chain_close(const struct layers *layers, const struct counters *counters,
                          unsigned threads);

/* Gives a header whose newest layer is closed one more, placed, for n_next keys at least. In
 * messages the filter is `name`, here and below. */
bool chain_grow(struct header *h, uint64_t n_next, const char *name, struct err *err);

/* The three steps of a rotation, whose second, emptying it, is the caller's: makes the oldest layer
 * void, which takes n_lost keys; finds the void layer, or -1; makes it, emptied, the newest. */
bool chain_void(struct header *h, double *n_lost, const char *name, struct err *err);
int chain_find_void(const struct header *h);
bool chain_renew(struct header *h, unsigned layer, const char *name, struct err *err);

#endif
