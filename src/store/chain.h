/*
 * Filters whose layers change: a list of layers; the newest takes keys.
 *
 * A growing filter (POLICY_GROW) gets another layer when the newest is full: of four times its
 * capacity, from 2^20 keys on of twice; or for the rest of the input, if that is foretold. Each
 * layer gets a part of the promised FPR that the earlier layers have left, measured by their bits.
 * A key is inserted only if no layer has it. Where all keys are kept elsewhere (store.h), they go
 * into the new layer too, which is made for that and is the only one that need be asked then. Other
 * programs' layouts have their own rules (kind->next, kind->exact_capacity).
 *
 * A ring (POLICY_RING) has a fixed number of layers of equal size, its generations. A rotation
 * empties the oldest and makes it the newest. A key is inserted unless the newest layer has it, so
 * keys that recur stay. A rotation has three steps, each on disk before the next begins: the layer
 * is marked void, it is zeroed, it is marked as the newest. The next writer finishes an interrupted
 * rotation.
 *
 * This module works on headers alone: it says which layer comes next. advance.h changes the file.
 */
#ifndef STORE_CHAIN_H
#define STORE_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/layers.h"

enum {
    CHAIN_FIRST = 1 << 20, /* capacity of a growing filter's first layer if nothing is known */
    CHAIN_GENERATIONS = FORMAT_MAX_LAYERS - 1,
};

/* The layer that takes keys. */
unsigned chain_newest(const struct header *h);

/* Sets up the layers of a new header: the first layer of a filter that grows and keeps FPR p, for n
 * keys, or CHAIN_FIRST if that is 0, and nobody knows how many are to come; or the layers of a ring
 * that remembers n keys for at least `generations` rotations. Sets the header's policy, capacity
 * and rate. The newest layer takes keys since h->created. Does not place the layers. */
bool chain_start_growing(struct header *h, const struct kind *kind, uint64_t n, double p,
                         struct err *err);
bool chain_start_ring(struct header *h, const struct kind *kind, unsigned generations, uint64_t n,
                      double p, struct err *err);

/* Does the newest layer take exactly n_design keys (kind.h)? In a merge nobody knows how many a
 * layer has. */
bool chain_is_exact(const struct header *h);

/* The keys that changed a bit of the newest layer, then. */
uint64_t chain_newest_keys(const struct header *h, const struct counters *counters);

/* To be called where a crash may have left the counters behind the bits: if the newest layer is
 * exact, raises keys_added to what its bits say, all of which are read, but not beyond what it
 * takes. */
void chain_recount(const struct layers *layers, unsigned threads, struct counters *counters);

/* Can a filter whose newest layer is exact and full grow? If not, the error says why. */
bool chain_can_grow(const struct header *h, struct err *err);

/* The first layer's capacity if an input of about n distinct keys comes first; 0: as if nobody
 * knew. */
uint64_t chain_first(uint64_t n);

/* What the next layer of a filter that grows is to be. */
struct next_layer {
    uint64_t n;     /* capacity in keys; 0: the usual one */
    bool holds_all; /* the keys of all earlier layers go into it too, which count none then */
};

/* The capacity that it is to have when the newest is full. n_new of the keys came from an input
 * that is foretold to bring `to_come` more, if that is not 0. */
uint64_t chain_wanted(const struct header *h, uint64_t n_new, uint64_t to_come);

/* The same for a layer that holds all keys, now n_keys. */
uint64_t chain_wanted_for_all(double n_keys);

/* A header for these layers, with the newest closed: its keys from the counters, its FPR from its
 * bits, all of which are read. The first step of every change of layers. */
struct header chain_close(const struct layers *layers, const struct counters *counters,
                          unsigned threads);

/* Adds that layer, placed, to a header whose newest layer is closed. Kinds with rules of their own
 * do not ask for want.n. Here and below, `name` names the filter in messages. */
bool chain_grow(struct header *h, struct next_layer want, const char *name, struct err *err);

/* The steps of a rotation; the caller does the second step, emptying the layer. chain_void marks
 * the oldest layer void; *n_lost is its number of keys. chain_find_void returns the void layer, or
 * -1. chain_renew marks it, emptied, as the newest. */
bool chain_void(struct header *h, double *n_lost, const char *name, struct err *err);
int chain_find_void(const struct header *h);
bool chain_renew(struct header *h, unsigned layer, const char *name, struct err *err);

#endif
