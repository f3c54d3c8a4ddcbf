/*
 * Making a layer that is a counted set: from a keyset, or from other layers. Parts of it, whole
 * groups each, are encoded by several threads into memory and written in order.
 */
#ifndef KIND_COUNTED_LAYER_H
#define KIND_COUNTED_LAYER_H

#include <pthread.h>

#include "kind/counted/encode.h"
#include "kind/kind.h"

struct keyset;
struct target;

/* The `build` of kind_counted. The layer has the bits of its fingerprints; the rest of its geometry
 * and its length follow from the keys. */
bool counted_build(const struct target *target, struct keyset *keys, struct census *census,
                   struct err *err);

/* Hashes in a part of a keyset, at most: those of about 30 groups. */
enum { COUNTED_PART = 1 << 17 };

/* Bytes that a thread takes besides those. */
uint64_t counted_build_memory(void);

/* The `combine` of struct kind_counts. */
bool counted_combine(enum counts_op op, const struct layer *const *layer,
                     const uint8_t *const *data, unsigned n, const struct target *target,
                     unsigned threads, struct counts_seen *seen, struct err *err);

/* What a full set of so many entries is known to be. */
void counted_census(const struct counted *c, struct census *out);

/* ---- A layer that is being written.
 *
 *     struct counted_layer l;
 *     counted_layer_begin(&l, target, &design, &err);
 *     ... in each thread, for groups [first, end): parts begin in order and leave out none ...
 *         counted_layer_part(&l, first, end, entries, &err)     // or counted_layer_copy
 *     counted_layer_give_up(&l);                    // if anything fails
 *     ok = counted_layer_end(&l, &err);             // after all parts
 *     counted_layer_free(&l);
 */
struct counted_layer {
    const struct target *target;
    struct counted counted; /* entries and total: of the parts so far */
    pthread_mutex_t lock;   /* of all that follows, and of these two */
    pthread_cond_t turned;
    uint64_t next;  /* the first group of the next part to be written */
    uint64_t at;    /* where its groups begin, in the groups */
    bool gave_up;
};

/* `design` has bits and low. */
void counted_layer_begin(struct counted_layer *l, const struct target *target,
                         const struct counted *design);

/* Encodes a stream that has the entries of groups [first, end), and writes it when its turn comes.
 * Takes memory for the bytes of those groups. */
bool counted_layer_part(struct counted_layer *l, uint64_t first, uint64_t end,
                        struct counted_stream *entries, struct err *err);

/* Takes groups [first, end) over from a set with as many bits and the same `low`, whose directory
 * is valid. Their entries are not counted: the caller adds them to l->counted. */
bool counted_layer_copy(struct counted_layer *l, uint64_t first, uint64_t end,
                        const struct counted_set *set, struct err *err);

/* Lets threads go that wait for their turn. */
void counted_layer_give_up(struct counted_layer *l);

/* Gives the layer its geometry and its length, and writes the checksums. */
bool counted_layer_end(struct counted_layer *l, struct err *err);

void counted_layer_free(struct counted_layer *l);

#endif
