/*
 * Collects the hashes of keys for a filter. Many threads put hashes, in any order. They are kept in
 * memory by prefix; when memory is full, they go to scratch files or to a callback that drains
 * them. At the end the distinct hashes are counted, and all are visited range by range in ascending
 * order.
 *
 *     struct keyset *ks = keyset_new(&spec, &err);
 *     keyset_put(ks, worker, hashes, n, &err);       // from each worker's thread
 *     keyset_finish(ks, &n_distinct, &err);           // no more puts; counts distinct hashes
 *     keyset_visit(ks, visit, ctx, &err);             // any number of times, also after a failure
 *     keyset_free(ks);
 *
 * A hash has one lane or several (hash.h). Hashes are equal if all their lanes are. Partitions,
 * ranges and their order depend on the first lane only. A partition is the set of hashes with the
 * same top KEYSET_BITS bits.
 */
#ifndef KEYS_KEYSET_H
#define KEYS_KEYSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"

enum {
    KEYSET_BITS = 8,
    KEYSET_PARTITIONS = 1 << KEYSET_BITS,
    KEYSET_MEMORY = 256 << 20, /* without --memory */
};

/* Takes hashes of one partition, unordered and with repeats. Called from the workers' threads;
 * several may call it at once for the same partition. */
typedef void keyset_drain(void *ctx, unsigned partition, struct hashes hashes, size_t n);

struct keyset_spec {
    unsigned workers; /* threads that put and visit */
    unsigned lanes;   /* of a hash, at most HASH_LANES; 0: 1 */
    bool counts;      /* repeats are counted: the last lane is not put. In a visited hash it is
                         the number of further puts that the hash stands for */
    uint64_t memory;  /* bytes for everything; at least keyset_min_memory(workers) */
    const char *scratch_dir; /* for scratch files if memory does not suffice */
    keyset_drain *drain;     /* NULL: use scratch. Otherwise full memory is drained, nothing goes to
                                scratch, and finish and visit see only hashes not drained yet */
    void *ctx;
    unsigned visitors; /* the most workers that visit at once; 0: all */
    size_t part;       /* hashes that keyset_visit_sorted has room for in one part; 0: it is
                          not called */
};

/* The smallest memory for `workers` threads, if `part` is 0. */
uint64_t keyset_min_memory(unsigned workers);

/* The number of hashes that always fit in memory, repeats counted, however they are distributed
 * among the workers. */
uint64_t keyset_fits(const struct keyset_spec *spec);

struct keyset *keyset_new(const struct keyset_spec *spec, struct err *err);
bool keyset_put(struct keyset *ks, unsigned worker, struct hashes hashes, size_t n,
                struct err *err);

/* Drains what is left. */
bool keyset_drain_all(struct keyset *ks, struct err *err);

/* Counts the distinct hashes, exactly. */
bool keyset_finish(struct keyset *ks, uint64_t *n_distinct, struct err *err);

/* The number of lanes that a stored hash takes: `lanes` rounded up to a power of two. */
unsigned keyset_lanes(unsigned lanes);

/* Lane l of hash i is hash[keyset_lanes(lanes) * i + l]; the lanes added by rounding up are 0. */
struct keyset_piece {
    const uint64_t *hash;
    size_t n;
};

/* A range of the hash space with all the hashes in it. With several lanes, if too many hashes have
 * the same first lane, they are visited in several ranges of that one value. */
struct keyset_range {
    unsigned worker;
    uint64_t first, last;             /* first <= first lane <= last */
    const struct keyset_piece *piece; /* unordered, may have repeats; valid during the visit */
    size_t n_pieces;                  /* may be 0 */
    uint64_t partition;               /* number of the partition, or of the prefix */
    bool ends_partition;
    bool had_repeats; /* repeats were removed */
};

/* Visits ranges that together cover the whole hash space. One worker visits all ranges of a
 * partition, in ascending order; the workers share the partitions. Stops at the first false. */
typedef bool keyset_visitor(void *ctx, const struct keyset_range *range, struct err *err);
bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err);

/* The bytes of memory that one visitor needs for parts of `part` hashes. */
uint64_t keyset_part_memory(size_t part, unsigned lanes);

/* Visits the hash space in parts, one for each value of the top `bits` bits. A part with more than
 * spec.part distinct hashes may be halved repeatedly; one worker visits these smaller parts in
 * ascending order. Each part is one piece, in ascending order, without repeats. Parts are begun in
 * ascending order. If a visit or anything else fails, gave_up is called once, while other workers
 * may still be visiting.
 *
 * Meant for one or two lanes: with more, it is slow if many hashes are equal in most lanes. */
bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err);

/* Does it count how often each key is given? As spec.counts. */
bool keyset_counts(const struct keyset *ks);

/* The directory for scratch files. */
const char *keyset_scratch_dir(const struct keyset *ks);

/* Bytes of scratch in use; 0 when all is in memory. */
uint64_t keyset_scratch(const struct keyset *ks);
void keyset_free(struct keyset *ks);

#endif
