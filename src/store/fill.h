/*
 * Fills a layer in memory from many threads. For kinds with `add` to which keys may be added in any
 * order (layout.h).
 *
 *     struct fill *f = fill_new(&layer, data, copies, &err);
 *     fill_put(f, 0, hashes, n);                  // from any thread
 *     fill_keys(f, keys, lanes, &err);            // or those of a keyset
 *     fill_end(f, threads);                       // now `data` has them all
 *     fill_free(f);
 *
 * Threads that add to one array of bits would wait for each other, or have to change each bit with
 * an atomic operation, which takes twice the time of a plain one. So they add to several arrays,
 * each under its own lock, which are united in the end.
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

/* `data`, all zero at first, is the layer's and one of the arrays; it and the layer must outlive
 * the fill. The others take data_len bytes each; there are fewer if memory is lacking. NULL: see
 * err. */
struct fill *fill_new(const struct layer *layer, uint8_t *data, unsigned copies, struct err *err);

/* A keyset_drain of hashes with all their lanes; `fill` is a struct fill. */
void fill_put(void *fill, unsigned partition, struct hashes hashes, size_t n);

/* Adds the keys of a keyset of so many lanes. */
bool fill_keys(struct fill *f, struct keyset *keys, unsigned lanes, struct err *err);

void fill_end(struct fill *f, unsigned threads);
void fill_free(struct fill *f); /* or NULL */

#endif
