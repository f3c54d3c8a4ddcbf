/*
 * Fills a layer in memory from many threads. For kinds that have `add` and accept keys in any order
 * (layout.h).
 *
 *     struct fill *f = fill_new(&layer, data, copies, &err);
 *     fill_put(f, 0, hashes, n);                  // from any thread
 *     fill_keys(f, keys, lanes, &err);            // or all keys of a keyset
 *     fill_end(f, threads);                       // now `data` has them all
 *     fill_free(f);
 *
 * Threads that share one array of bits must wait for each other, or set each bit with an atomic
 * operation, which takes twice the time of a plain one. So the threads add to several arrays, each
 * with its own lock; fill_end unites the arrays.
 */
#ifndef STORE_FILL_H
#define STORE_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/keyset.h"
#include "kind/kind.h"

struct fill;

/* `data`, the layer's data, must be all zero. It is one of the `copies` arrays; it and the layer
 * must outlive the fill. The other arrays take data_len bytes each; there are fewer if memory is
 * short. NULL: see err. */
struct fill *fill_new(const struct layer *layer, uint8_t *data, unsigned copies, struct err *err);

/* A keyset_drain of hashes with all their lanes; `fill` is a struct fill. */
void fill_put(void *fill, unsigned partition, struct hashes hashes, size_t n);

/* Adds the keys of a keyset whose hashes have `lanes` lanes. */
bool fill_keys(struct fill *f, struct keyset *keys, unsigned lanes, struct err *err);

void fill_end(struct fill *f, unsigned threads);
void fill_free(struct fill *f); /* or NULL */

#endif
