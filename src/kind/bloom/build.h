/*
 * Makes the Bloom layer of a new file: its data, checksums and touched bitmap, with a census on the
 * way, while each page is in the cache. The keys come from a keyset. Either it still has them all,
 * and then each range of pages is made, finished and written in turn (bloom_build); or it has
 * drained them into bits in memory, which are then written (bloom_bits_write).
 *
 * When it has them all, they need not have been counted before: a repeated key finds its bits set,
 * so the filter that is being built can tell whether there are any (build_target.presumed).
 */
#ifndef KIND_BLOOM_BUILD_H
#define KIND_BLOOM_BUILD_H

#include "keys/keyset.h"
#include "kind/bloom/bloom.h"
#include "store/format.h"

bool bloom_build(const struct build_target *target, struct keyset *keys, struct census *census,
                 struct err *err);

/* For tests: so many pages are made at once, 1024 at most. */
extern uint64_t bloom_build_region;

/* A filter's bits in memory, for any number of threads to insert into. NULL when they cannot be
 * had. */
struct bloom_bits;
struct bloom_bits *bloom_bits_new(const struct bloom *bloom);
void bloom_bits_free(struct bloom_bits *bits);

/* A keyset_drain; ctx is the struct bloom_bits. */
void bloom_bits_drain(void *ctx, unsigned partition, const uint64_t *hash, size_t n);

bool bloom_bits_write(const struct build_target *target, const struct bloom_bits *bits,
                      struct census *census, struct err *err);

/* Layers that are united (or intersected) into one. */
struct union_of {
    unsigned n;
    const struct layer *const *layer;
    const uint8_t *const *data;
    bool intersect;
};

/* The target layer is what `unite` made of all parts' layers. */
bool bloom_unite(const struct build_target *target, const struct union_of *parts,
                 struct census *census, struct err *err);

#endif
