/*
 * Keys that are added to one layer by all threads that have nothing else to do. They are divided by
 * the page that decides about them: each page's keys are inserted in order, by one thread. So the
 * layer, and what is reported of each key, are as if they had come one after another.
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

/* Parts, which are ranges of pages. A thread is done with its last one when others are, or soon
 * after; of the keys of a chunk, enough are in each that prefetching them pays. */
enum { DIVIDE_PARTS = 32 };

/* Fewer keys are in before another thread has woken up, which takes about 50 us. */
enum { DIVIDE_FEWEST = 1 << 12 };

/* So many keys at most in one call: a place has 16 bits. */
enum { DIVIDE_MAX = 1 << 16 };

struct divide {
    uint64_t *hash; /* of the n keys that are to be inserted, part by part, each in order */
    size_t n;
    /* The rest is private. */
    uint16_t *place; /* of those keys: which one of all it is */
    uint8_t *part;   /* of all keys; DIVIDE_PARTS: it is skipped */
    uint8_t *had;    /* of all keys: the layer had it */
    size_t room, given;
    size_t start[DIVIDE_PARTS + 1];
};

/* Can keys be divided, and does anybody wait to help? crew NULL: nobody. */
bool divide_pays(const struct layer *layer, const struct crew *crew);

/* Divides n keys, DIVIDE_MAX at most, those excepted whose bit is set in `skip`. False: out of
 * memory. */
bool divide_take(struct divide *d, const struct layer *layer, struct hashes keys, size_t n,
                 const uint64_t *skip);

/* Inserts them. Sets bit i of `present`, of all keys that divide_take was given, if the layer had
 * key i when its turn came (kind.h: add), and clears the others. */
void divide_insert(struct divide *d, struct crew *crew, const struct layer *layer, uint8_t *data,
                   uint64_t *present);

void divide_free(struct divide *d);

#endif
