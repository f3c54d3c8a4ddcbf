/*
 * Making ribbon layers: from a keyset, or from a layer with more columns.
 */
#ifndef KIND_RIBBON_BUILD_H
#define KIND_RIBBON_BUILD_H

#include "kind/ribbon/ribbon.h"

/* The build of kind_ribbon: target->header->layers[target->layer] has its columns (ribbon_to), the
 * rest of its geometry follows from the keys; so do more columns, where these bump so many that the
 * layer's fpr_design would be passed. */
bool ribbon_build(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err);

/* Bytes of memory that a thread takes for it, besides what the keyset takes for parts of
 * RIBBON_LARGEST hashes. */
uint64_t ribbon_build_memory(void);

/* The tables of one partition in the making. One a thread. */
struct ribbon_work;
struct ribbon_work *ribbon_work_new(void);
void ribbon_work_free(struct ribbon_work *w);

/* A block for hash[0..n), ascending, distinct, which agree in their top `depth` bits; n is at most
 * RIBBON_LARGEST. entry->at is left 0. The block is its parts, one behind the other, valid until
 * the next call: thresholds, list, segments. */
enum { RIBBON_BLOCK_PARTS = 3 };
struct ribbon_bytes {
    const uint8_t *at;
    size_t len;
};
struct ribbon_block {
    struct ribbon_entry entry;
    struct ribbon_bytes part[RIBBON_BLOCK_PARTS];
};
void ribbon_work_block(struct ribbon_work *w, const struct ribbon *ribbon, const uint64_t *hash,
                       size_t n, unsigned depth, struct ribbon_block *out);

/* The same for all keys of a layer. Gives the ribbon more columns if the FPR would pass p else. */
void ribbon_work_only_block(struct ribbon_work *w, struct ribbon *ribbon, double p,
                            const uint64_t *hash, size_t n, struct ribbon_block *out);

/* Bytes of data for n keys at p: those of random keys that are put into a block, where these are
 * few and each counts, else ribbon_expected_len(). */
uint64_t ribbon_trial_len(uint64_t n, double p);

/* Makes the target layer, whose geometry has the wanted columns, of one with the same keys and more
 * of them. The layer is placed again, as by `build`. */
bool ribbon_drop(const struct target *target, const struct layer *from, const uint8_t *data,
                 struct err *err);

#endif
