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

/* Reads all bits of one layer. */
void layers_census(const struct layers *l, unsigned layer, unsigned threads, struct census *out);

#endif
