/* SPDX-License-Identifier: MIT
 * Queries all layers of a filter, in a file or in memory, and takes a census of their bits. The
 * header describes the layers; their offsets in a file are not used here.
 *
 *     struct layers l = filter_layers(&f);
 *     layers_query(l, LAYERS_ALL, hashes, n, present);
 *     layers_census_all(l, threads, &all);
 *
 * A writer works on the keys that are left: layers_take copies up to LAYER_BATCH of them, and
 * layers_leave_out drops those that a layer has.
 */
#ifndef FILE_LAYERS_H
#define FILE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/hash.h"
#include "kind/kind.h"
#include "file/format.h"

/* Owned by the filter. Valid while the filter is open, also while it grows. */
struct layers {
    const struct header *header;
    uint8_t *const *data; /* of layer i: data[i], layers[i].data_len bytes */
};

/* Keys of a batch: key i is that at place[i]. */
struct layers_keys {
    uint64_t lane[HASH_LANES][LAYER_BATCH];
    uint16_t place[LAYER_BATCH];
    size_t n;
};

/* Takes n keys, at most LAYER_BATCH; takes out those whose bits are set. */
void layers_take(struct layers_keys *to, unsigned lanes, struct hashes keys, size_t n);
void layers_leave_out(struct layers_keys *keys, unsigned lanes, const uint64_t *found);

enum { LAYERS_ALL = FORMAT_MAX_LAYERS };

/* Sets bit i of present when key i is in any layer but `except`, after clearing bits 0..n-1. n is
 * at most LAYER_BATCH. Layers that come later are asked first. */
void layers_query(struct layers l, unsigned except, struct hashes keys, size_t n,
                  uint64_t *present);

/* Census of one layer; of each layer; of the whole filter, from those of the layers. The FPR of the
 * whole is 1 - prod(1 - fpr_i), that of independent layers; where layers share keys, as the
 * generations of a ring may, the true FPR is at most that. Its n is the number of distinct keys
 * given to the filter, including those that are in no layer because they were falsely reported
 * present. Where layers can share keys, it is only bounded by the layers' numbers. For such bounds,
 * and for those of an intersection, n is NAN. */
void layers_census(struct layers l, unsigned layer, unsigned threads, struct census *out);
void layers_census_each(struct layers l, unsigned threads, struct census *layer);
void layers_census_whole(const struct header *h, const struct census *layer, struct census *all);

/* The FPR that the filter has at capacity. Small filters of other programs may not reach the rate
 * that they are designed for. */
double layers_design_fpr(const struct header *h);

/* The design FPR that people are shown: the one that was asked for, unless the layout misses it by
 * more than a factor of 2, which rules that round do not. */
double layers_shown_fpr(const struct header *h);

/* Census of each layer and of the whole. Measures the FPR with a sample where the formula does not
 * hold (kind->sampled_fpr): takes up to some tenths of a second, for an FPR that is printed. */
void layers_measure(struct layers l, unsigned threads, struct census *layer, struct census *all);

/* The census of the whole filter in one call, without a sample. */
void layers_census_all(struct layers l, unsigned threads, struct census *out);

/* Do the counters agree with the bits? `layer` has the census of each layer. At any load, at most
 * one in a million sound files gives a false alarm. The numbers of keys in all layers are *n_bits
 * by the bits and *n_counted by the counters; NAN if bits or counters tell too little. */
bool layers_counters_agree(const struct header *h, const struct counters *counters,
                           const struct census *layer, double *n_bits, double *n_counted);

/* How many new keys the filter took for known, by a count of `dropped` (chain_given) when `added`
 * were added. With an FPR above 1/2, that count tells little: then sets *at_least, and returns a
 * lower bound, from the bits. */
double layers_dropped(double dropped, uint64_t added, const struct census *all, bool *at_least);

#endif
