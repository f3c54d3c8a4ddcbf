/*
 * Makes the Bloom layer of a new file: its data, checksums and touched bitmap, with a census on the
 * way, while each page is in the cache. The keys come from a keyset. Either it still has them all,
 * and then each range of pages is made, finished and written in turn (bloom_build); or it has
 * drained them into bits in memory, which are then written (bloom_bits_write).
 *
 * When it has them all, they need not have been counted before: a repeated key finds its bits set,
 * so the filter that is being built can tell whether there are any (target.presumed).
 */
#ifndef KIND_BLOOM_BUILD_H
#define KIND_BLOOM_BUILD_H

#include "keys/keyset.h"
#include "kind/bloom/bloom.h"
#include "store/target.h"

/* kind.h's build and write_union. */
bool bloom_build(const struct target *target, struct keyset *keys, struct census *census,
                 struct err *err);
bool bloom_unite(const struct target *target, const struct union_of *parts, struct census *census,
                 struct err *err);

/* For tests: so many pages are made at once, 1024 at most. */
extern uint64_t bloom_build_region;

/* kind.h's struct kind_bits: bits in memory, for any number of threads to insert into. */
void *bloom_bits_new(const struct bloom *bloom);
void bloom_bits_drain(void *bits, unsigned partition, const uint64_t *hash, size_t n);
bool bloom_bits_write(const struct target *target, const void *bits, struct census *census,
                      struct err *err);
void bloom_bits_free(void *bits);

#endif
