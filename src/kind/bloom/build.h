/*
 * Writes the Bloom layer of a new file: data and checksums. Takes the census at the same time,
 * while each page is in the cache. There are two ways to build from a keyset:
 *
 * - The keyset holds all keys. bloom_build makes, finishes and writes one range of pages after the
 *   other.
 * - The keyset drains its keys into bits in memory (bloom_bits_new, bloom_bits_drain).
 *   bloom_bits_write writes these bits.
 *
 * bloom_build does not need the keys counted first. The bits of a repeated key are already set, so
 * the build detects repeats (target.presumed).
 */
#ifndef KIND_BLOOM_BUILD_H
#define KIND_BLOOM_BUILD_H

#include "keys/keyset.h"
#include "kind/bloom/bloom.h"
#include "kind/target.h"

/* write_union and build of kind.h. */
bool bloom_build(const struct target *target, struct keyset *keys, struct census *census,
                 struct err *err);
bool bloom_unite(const struct target *target, const struct union_of *parts, struct census *census,
                 struct err *err);

/* For tests: the number of pages made at a time, at most 1024. */
extern uint64_t bloom_build_region;

/* struct kind_bits of kind.h: bits in memory. Several threads may insert at the same time. */
void *bloom_bits_new(const struct bloom *bloom);
void bloom_bits_drain(void *ctx, unsigned partition, struct hashes hashes, size_t n);
bool bloom_bits_write(const struct target *target, const void *bits, struct census *census,
                      struct err *err);
void bloom_bits_free(void *p);

#endif
