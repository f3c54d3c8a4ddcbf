/*
 * Key hashes on their way into a filter: collected by many threads in any order, kept by prefix in
 * memory up to a limit, and beyond it in scratch files or handed to whoever drains them; at the
 * end counted, without repeats, and handed back range by range in ascending order.
 *
 *     struct keyset *ks = keyset_new(&spec, &err);
 *     keyset_put(ks, worker, hashes, n, &err);       // from each worker's thread
 *     keyset_finish(ks, &n_distinct, &err);           // no more puts; to know how many there are
 *     keyset_visit(ks, visit, ctx, &err);             // any number of times, also after a failure
 *     keyset_free(ks);
 *
 * A hash has one lane or several (hash.h). Hashes are equal if all lanes are; ranges, their order
 * and partitions are those of the first lane. A partition is the hashes with one value of its top
 * KEYSET_BITS bits.
 */
#ifndef KEYS_KEYSET_H
#define KEYS_KEYSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"

enum { KEYSET_BITS = 8, KEYSET_PARTITIONS = 1 << KEYSET_BITS };

/* Takes hashes of one partition, in no order, repeats among them. Called from workers' threads, for
 * one partition perhaps from several at once. */
typedef void keyset_drain(void *ctx, unsigned partition, struct hashes hashes, size_t n);

struct keyset_spec {
    unsigned workers;        /* threads that put and visit */
    unsigned lanes;          /* of a hash, at most HASH_LANES; 0: 1 */
    uint64_t memory;         /* bytes for everything; keyset_min_memory(workers) at least */
    const char *scratch_dir; /* where scratch goes if memory does not suffice */
    keyset_drain *drain;     /* or NULL. Given: full memory is drained, nothing goes to scratch, and
                                finish and visit see only what has not been drained */
    void *ctx;
    unsigned visitors;       /* at most so many of them visit; 0: all */
    size_t part;             /* keyset_visit_sorted has room for so many hashes in one part; 0: it
                                is not called */
};

/* The smallest memory that `workers` threads can work in, without `part`. */
uint64_t keyset_min_memory(unsigned workers);

/* So many hashes fit in memory for certain, repeats counted, however workers share the work. */
uint64_t keyset_fits(const struct keyset_spec *spec);

struct keyset *keyset_new(const struct keyset_spec *spec, struct err *err);
bool keyset_put(struct keyset *ks, unsigned worker, struct hashes hashes, size_t n,
                struct err *err);

/* Drains what is left. */
bool keyset_drain_all(struct keyset *ks, struct err *err);

/* Counts the distinct hashes, exactly. */
bool keyset_finish(struct keyset *ks, uint64_t *n_distinct, struct err *err);

/* So many lanes a hash takes: the power of two that is not below `lanes`. */
unsigned keyset_lanes(unsigned lanes);

/* Lane l of hash i is hash[keyset_lanes(lanes) * i + l]; lanes that it does not have are 0. */
struct keyset_piece {
    const uint64_t *hash;
    size_t n;
};

/* A range of the hash space with all the hashes in it. With more lanes, one of one value may be
 * followed by more of the same value, where its hashes are too many for one. */
struct keyset_range {
    unsigned worker;
    uint64_t first, last;             /* first <= first lane <= last */
    const struct keyset_piece *piece; /* in no order, with repeats perhaps; valid in the visit */
    size_t n_pieces;                  /* 0 too */
    uint64_t partition;               /* number of the partition, or of the prefix */
    bool ends_partition;
    bool had_repeats;                 /* which are no more */
};

/* Visits ranges that together are the whole hash space. A partition's ranges are visited in
 * ascending order by one worker; partitions, by all workers. Stops at the first false. */
typedef bool keyset_visitor(void *ctx, const struct keyset_range *range, struct err *err);
bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err);

/* Hands over all hashes that were put so far, in no order, repeats among them; puts may go on
 * afterwards. Partitions that follow one another are not handed over at the same time. */
typedef bool keyset_each_fn(void *ctx, const struct keyset_piece *piece, struct err *err);
bool keyset_each(struct keyset *ks, unsigned threads, keyset_each_fn *each, void *ctx,
                 struct err *err);

/* The memory that one visitor takes for parts of that many hashes. */
uint64_t keyset_part_memory(size_t part, unsigned lanes);

/* Visits the hash space in parts: one for each value of the top `bits` bits; but one with more than
 * spec.part distinct hashes may come in smaller parts, each half of a half and so on, in ascending
 * order by one worker. Each is one piece, in ascending order, without repeats. Parts are begun in
 * ascending order. When a visit fails, or anything else, gave_up is called once, while others
 * may still be in their visits.
 *
 * Meant for one lane or two: with more it is slow where many hashes are equal in most of them. */
bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err);

/* Bytes of scratch in use; 0 when all is in memory. */
uint64_t keyset_scratch(const struct keyset *ks);
void keyset_free(struct keyset *ks);

#endif
