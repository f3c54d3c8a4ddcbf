/*
 * Inserts keys into one layer with all idle threads. Keys are divided by page: one thread inserts
 * all keys of a page, in order. So the layer, and the result for each key, are the same as if one
 * thread had inserted all keys in order.
 *
 *     struct divide d = {0};
 *     if (divide_pays(layer, crew) && divide_take(&d, layer, keys, n, skip))
 *         ... d.hash, d.n ...
 *         divide_insert(&d, crew, layer, data, present);
 *     divide_free(&d);
 */
#ifndef STORE_DIVIDE_H
#define STORE_DIVIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crew.h"
#include "kind/kind.h"

/* Parts, which are ranges of pages. There are enough that all threads finish at about the same
 * time, and few enough that each has enough keys of a chunk for prefetching to pay. */
enum { DIVIDE_PARTS = 32 };

/* Fewer keys are inserted before another thread has woken up, which takes about 50 us. */
enum { DIVIDE_FEWEST = 1 << 12 };

/* At most this many keys in one call: a place has 16 bits. */
enum { DIVIDE_MAX = 1 << 16 };

struct divide {
    uint64_t *hash; /* of the n keys to insert, part by part, in order within a part */
    size_t n;
    /* The rest is private. */
    uint16_t *place; /* for each hash: the key's index in divide_take's input */
    uint8_t *part;   /* for each input key: its part; DIVIDE_PARTS: skipped */
    uint8_t *had;    /* for each input key: 1 if the layer had it */
    size_t room, given;
    size_t start[DIVIDE_PARTS + 1];
};

/* Can keys of this layer be divided by page, and are threads of the crew idle? crew NULL: no. */
bool divide_pays(const struct layer *layer, const struct crew *crew);

/* Divides n keys, DIVIDE_MAX at most, except those whose bit is set in `skip`. False: out of
 * memory. */
bool divide_take(struct divide *d, const struct layer *layer, struct hashes keys, size_t n,
                 const uint64_t *skip);

/* Inserts the divided keys. Sets bit i of `present` if the layer had key i of divide_take's input
 * just before its insertion (kind.h: add); clears the bits of all other keys. */
void divide_insert(struct divide *d, struct crew *crew, const struct layer *layer, uint8_t *data,
                   uint64_t *present);

void divide_free(struct divide *d);

#endif
