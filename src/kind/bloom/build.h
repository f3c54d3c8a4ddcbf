/*
 * Writes the Bloom layer of a new file: data, checksums and touched bitmap. Takes the census on the
 * way, while each page is in the cache. The keys come from a keyset, in one of two ways. Either the
 * keyset holds all keys; then bloom_build makes, finishes and writes one range of pages after the
 * other. Or the keyset has drained its keys into bits in memory; then bloom_bits_write writes
 * these.
 *
 * bloom_build does not need the keys counted first. A repeated key finds its bits set, so the build
 * notices whether there are repeats (target.presumed).
 */
#ifndef KIND_BLOOM_BUILD_H
#define KIND_BLOOM_BUILD_H

#include "keys/keyset.h"
#include "kind/bloom/bloom.h"
#include "store/target.h"

/* write_union and build of kind.h. */
bool bloom_build(const struct target *target, struct keyset *keys, struct census *census,
                 struct err *err);
bool bloom_unite(const struct target *target, const struct union_of *parts, struct census *census,
                 struct err *err);

/* For tests: pages made at a time, at most 1024. */
extern uint64_t bloom_build_region;

/* struct kind_bits of kind.h: bits in memory; any number of threads may insert. */
void *bloom_bits_new(const struct bloom *bloom);
void bloom_bits_drain(void *ctx, unsigned partition, struct hashes hashes, size_t n);
bool bloom_bits_write(const struct target *target, const void *bits, struct census *census,
                      struct err *err);
void bloom_bits_free(void *p);

#endif
