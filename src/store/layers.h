/*
 * The layers of a filter, wherever they are: asking all of them, and reading all their bits. The
 * header says what they are; where they are placed in a file means nothing here.
 */
#ifndef STORE_LAYERS_H
#define STORE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "kind/kind.h"
#include "store/format.h"

/* What belongs to another: valid as long as the filter is open, and while it grows. */
struct layers {
    const struct header *header;
    uint8_t *const *data; /* of layer i: data[i], layers[i].data_len bytes */
};

/* Something to be done before the keys are looked for in a layer. */
typedef bool layers_verify(void *ctx, unsigned layer, struct hashes keys, size_t n,
                           struct err *err);

/* Sets bit i of present when key i is in any layer, after clearing bits 0..n-1. n is at most
 * LAYER_BATCH. Calls `verify`, unless NULL, for each layer first, and fails if that does. */
bool layers_query(const struct layers *l, struct hashes keys, size_t n, uint64_t *present,
                  layers_verify *verify, void *ctx, struct err *err);

/* The same of layers `first` to end - 1. */
bool layers_query_some(const struct layers *l, unsigned first, unsigned end, struct hashes keys,
                       size_t n, uint64_t *present, layers_verify *verify, void *ctx,
                       struct err *err);

/* Census of one layer; of each; of the whole, from those of the layers. The FPR of the whole is
 * 1 - prod(1 - fpr_i), in a ring that of generations that share keys (kind->union_part). Its n is
 * the number of distinct keys that were given to it, whatever layers they are in, or none because
 * they had been taken for present: estimated from the union of the bits where layers can share
 * keys, and bounded by the layers' numbers where their bits do not fit together. */
void layers_census(const struct layers *l, unsigned layer, unsigned threads, struct census *out);
void layers_census_each(const struct layers *l, unsigned threads, struct census *layer);
void layers_census_whole(const struct layers *l, unsigned threads, const struct census *layer,
                         struct census *all);

/* The whole at once. */
void layers_census_all(const struct layers *l, unsigned threads, struct census *out);

/* Do the counters agree with the bits, of which `layer` is the census? At any load a false alarm
 * comes once in a million sound files at most. There is none where bits or counters tell too
 * little; then *n_bits is NAN. Else it is about what counters.n_keys should be. */
bool layers_counters_agree(const struct header *h, const struct census *layer, double *n_bits);

#endif
