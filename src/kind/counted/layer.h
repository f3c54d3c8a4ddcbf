/* SPDX-License-Identifier: MIT
 * Writes a layer that is a counted set, from a keyset or from other layers. Several threads encode
 * parts of it, whole blocks each, into memory, and write them in order.
 */
#ifndef KIND_COUNTED_LAYER_H
#define KIND_COUNTED_LAYER_H

#include <pthread.h>

#include "kind/counted/entries.h"
#include "kind/kind.h"

struct keyset;
struct target;

/* The `build` of kind_counted. The layer's geometry must have `bits`; the rest of the geometry and
 * the length follow from the keys. */
bool counted_build(const struct target *target, struct keyset *keys, struct census *census,
                   struct err *err);

/* Largest number of hashes in a part of a keyset. */
enum { COUNTED_PART = 1 << 17 };

/* Bytes of memory that a thread takes besides those hashes. */
uint64_t counted_build_memory(void);

/* The `combine` of struct kind_counts. */
bool counted_combine(enum counts_op op, const struct layer *const *layer,
                     const uint8_t *const *data, unsigned n, const struct target *target,
                     unsigned threads, struct counts_seen *seen, struct err *err);

/* The `census` of kind_counted. */
void counted_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                    struct census *out);

/* ---- A layer that is being written.
 *
 *     struct counted_layer l;
 *     counted_layer_begin(&l, target, &design);
 *     ... in each thread, for blocks [first, end); parts start in order, without gaps ...
 *         counted_layer_part(&l, first, end, entries, n, &err)     // or counted_layer_copy
 *     counted_layer_give_up(&l, &err);              // if anything fails
 *     ok = counted_layer_end(&l, &err);             // after all parts
 *     counted_layer_free(&l);
 */
struct counted_layer {
    const struct target *target;
    struct counted counted; /* entries and total: sums over the parts written so far */
    pthread_mutex_t lock;   /* guards entries, total and all that follows */
    pthread_cond_t turned;
    uint64_t next; /* the first block of the next part to be written */
    uint64_t at;   /* its offset, counted from the end of the directory */
    bool gave_up;
    struct err why;
};

/* `design` has bits and low. */
void counted_layer_begin(struct counted_layer *l, const struct target *target,
                         const struct counted *design);

/* Encodes n entries as blocks [first, end), waits for its turn and writes them. */
bool counted_layer_part(struct counted_layer *l, uint64_t first, uint64_t end,
                        const struct counted_entry *e, size_t n, struct err *err);

/* Copies blocks [first, end) from a set with the same `bits` and `low` and a valid directory. The
 * entries are not counted: the caller adds them to l->counted. */
bool counted_layer_copy(struct counted_layer *l, uint64_t first, uint64_t end,
                        const struct counted_set *set, struct err *err);

/* Wakes the threads that wait for their turn, and lets them fail, too: for the first reason that is
 * given. */
void counted_layer_give_up(struct counted_layer *l, const struct err *why);

/* Sets the layer's geometry and length, and writes the checksums. */
bool counted_layer_end(struct counted_layer *l, struct err *err);

void counted_layer_free(struct counted_layer *l);

#endif
