/*
 * Makes ribbon layers: from a keyset (ribbon_build), or from a layer with more columns
 * (ribbon_drop).
 */
#ifndef KIND_RIBBON_BUILD_H
#define KIND_RIBBON_BUILD_H

#include "kind/ribbon/ribbon.h"

/* `build` of kind_ribbon. The columns come from target->layer (ribbon_to),
 * the rest of the geometry from the keys. If bumped keys would raise the FPR above the layer's
 * fpr_design, the layer gets more columns. */
bool ribbon_build(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err);

/* Bytes of memory that a thread needs, without the keyset's parts of RIBBON_LARGEST hashes. */
uint64_t ribbon_build_memory(void);

/* The tables of one partition under construction; one for each thread. */
struct ribbon_work;
struct ribbon_work *ribbon_work_new(void);
void ribbon_work_free(struct ribbon_work *w);

/* Builds a block for hash[0..n): ascending, distinct, equal in their top `depth` bits; n is at most
 * RIBBON_LARGEST. entry.at stays 0. The block is its parts in sequence: thresholds, list, segments.
 * The parts are valid until the next call. */
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

/* The same for a layer of one block. Gives the ribbon more columns if the FPR would exceed p. */
void ribbon_work_only_block(struct ribbon_work *w, struct ribbon *ribbon, double p,
                            const uint64_t *hash, size_t n, struct ribbon_block *out);

/* Expected bytes of data for n keys at FPR p. For few keys, the average over trial blocks of random
 * keys; otherwise ribbon_expected_len(). */
uint64_t ribbon_trial_len(uint64_t n, double p);

/* Makes the target layer from a layer with the same keys and more columns. The target's geometry
 * gives the wanted columns. Like ribbon_build, places the blocks and sets the length. */
bool ribbon_drop(const struct target *target, const struct layer *from, const uint8_t *data,
                 struct err *err);

#endif
