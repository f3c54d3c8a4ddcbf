/* SPDX-License-Identifier: MIT
 * Collects the hashes of keys for a filter. Many threads put hashes, in any order. The hashes with
 * the same top KEYSET_BITS bits are a partition. Partitions are kept in memory; when memory is
 * full, they go to scratch files. Then they can be visited any number of times, also after a
 * failure: either as they are, a piece at a time, which takes no memory; or sorted and without
 * repeats, for which the hashes of one partition have to fit in memory together.
 *
 *     struct keyset *ks = keyset_new(&spec, &err);
 *     keyset_put(ks, worker, hashes, n, &err);       // from each worker's thread
 *     keyset_visit(ks, visit, ctx, &err);             // no more puts
 *     keyset_count(ks, &n_distinct, &err);
 *     keyset_visit_sorted(ks, bits, visit_range, gave_up, ctx, &err);
 *     keyset_free(ks);
 */
#ifndef KEYS_KEYSET_H
#define KEYS_KEYSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    KEYSET_BITS = 8,
    KEYSET_PARTITIONS = 1 << KEYSET_BITS,
    KEYSET_MEMORY = 256 << 20, /* without --memory */
};

struct keyset_spec {
    unsigned workers;        /* threads that put and visit */
    unsigned visitors;       /* the most workers that visit sorted hashes at once; 0: all */
    bool counts;             /* repeats are counted (keyset_range) */
    uint64_t memory;         /* bytes for everything; at least keyset_min_memory(workers) */
    uint64_t others;         /* bytes of --memory that are used besides, for messages */
    const char *scratch_dir; /* for scratch files if memory does not suffice */
    size_t part;             /* the most hashes that keyset_visit_sorted gives in one range; 0: it
                                is not called */
};

/* The smallest memory for `workers` threads, if `part` is 0. */
uint64_t keyset_min_memory(unsigned workers);

struct keyset *keyset_new(const struct keyset_spec *spec, struct err *err);
bool keyset_put(struct keyset *ks, unsigned worker, const uint64_t *hash, size_t n,
                struct err *err);

/* Takes hashes of a partition, unordered and with repeats. After the last ones it is called once
 * more, with n = 0. */
typedef bool keyset_visitor(void *ctx, unsigned worker, unsigned partition, const uint64_t *hash,
                            size_t n, struct err *err);

/* Visits all partitions. One worker visits all of a partition; the workers share the partitions.
 * Stops at the first false. */
bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err);

/* Counts the distinct hashes, exactly. If a partition does not fit in memory, the error says what
 * memory would do; so does that of keyset_visit_sorted. */
bool keyset_count(struct keyset *ks, uint64_t *n_distinct, struct err *err);

/* The bytes of memory that one visitor needs for `part` hashes. */
uint64_t keyset_part_memory(size_t part, bool counts);

/* All hashes of a range of the hash space. If repeats are counted, hash[2 i] is the hash and
 * hash[2 i + 1] the number of its repeats. */
struct keyset_range {
    unsigned worker;
    uint64_t first, last; /* first <= hash <= last */
    const uint64_t *hash; /* ascending, without repeats; valid during the visit */
    size_t n;             /* may be 0 */
    bool had_repeats;     /* repeats were removed */
};

/* Visits the whole hash space, a range for each value of the top `bits` bits. A range with more
 * than spec.part distinct hashes may be halved repeatedly; one worker visits these smaller ranges
 * in ascending order. Ranges are begun in ascending order. If a visit or anything else fails,
 * gave_up is called once, while other workers may still be visiting. */
typedef bool keyset_range_visitor(void *ctx, const struct keyset_range *range, struct err *err);
bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_range_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err);

/* What it was made by. */
const struct keyset_spec *keyset_spec(const struct keyset *ks);

void keyset_free(struct keyset *ks);

#endif
