/*
 * Streams of entries: fingerprints with counts, in ascending order. A set is read as a stream, and
 * streams are combined to others, which `counted_encode` (encode.h) makes a set of.
 *
 *     struct counted_reader a, b;
 *     struct counted_merge sum;
 *     counted_read(&a, &set_a);
 *     counted_read(&b, &set_b);
 *     counted_merge(&sum, COUNTS_ADD, &a.stream, &b.stream);
 *     while ((ok = counted_next(&sum.stream, &run, &err)) && run.n > 0) ...
 *
 * Streams hold no memory but their struct, and need no end. Several may be read at a time, each by
 * one thread.
 */
#ifndef KIND_COUNTED_STREAM_H
#define KIND_COUNTED_STREAM_H

#include "kind/counted/counted.h"
#include "kind/kind.h"

enum { COUNTED_RUN = 1024 };

/* Entries that follow one another. Valid until the next call for their stream. */
struct counted_run {
    const uint64_t *value, *count; /* counts are at least 1 */
    size_t n;                      /* 0: the stream has ended */
};

struct counted_stream {
    bool (*next)(struct counted_stream *stream, struct counted_run *run, struct err *err);
};

/* Values ascend strictly from run to run, and in each. False: the source is damaged, or a count
 * does not fit 64 bits; then the stream has ended. */
static inline bool counted_next(struct counted_stream *stream, struct counted_run *run,
                                struct err *err)
{
    return stream->next(stream, run, err);
}

/* ---- An array of entries. `count` may be NULL: all are 1. */
struct counted_array {
    struct counted_stream stream;
    const uint64_t *value, *count;
    size_t n, at;
    uint64_t ones[COUNTED_RUN];
};

void counted_array(struct counted_array *a, const uint64_t *value, const uint64_t *count,
                   size_t n);

/* ---- The entries of a set with fingerprints in [first, last]. */
struct counted_reader {
    struct counted_stream stream;
    const struct counted_set *set;
    uint64_t first, last;
    uint64_t block, last_block;
    uint64_t group_end; /* in the data: where the group before the next one to be read ended */
    uint64_t block_end; /* in the data: where the block before ended */
    uint64_t large_at, large_end; /* entries left of a large block; at = end: none */
    unsigned large_counts;        /* bytes of a count in it */
    uint64_t previous;            /* largest fingerprint so far */
    bool any;                     /* there is one */
    uint64_t entries, total;      /* that were read */
    uint64_t value[COUNTED_RUN], count[COUNTED_RUN];
};

/* Reads all of a set. Everything is checked, also that entries and total are as the geometry has
 * them. Takes time in proportion to the data, whatever it holds. `set` must stay. */
void counted_read(struct counted_reader *r, const struct counted_set *set);

/* Reads a range. What is not in its blocks is not checked: when all ranges are read, their entries
 * and totals must sum to those of the set, and counted_check_directory must be true of it. */
void counted_read_range(struct counted_reader *r, const struct counted_set *set, uint64_t first,
                        uint64_t last);

/* ---- Two streams become one. */

/* The part of a run that is not merged yet. */
struct counted_rest {
    struct counted_stream *stream;
    struct counted_run run;
    size_t at;
    bool ended;
};

struct counted_merge {
    struct counted_stream stream;
    enum counts_op op;
    struct counted_rest a, b;
    struct counts_seen seen; /* so far */
    uint64_t value[COUNTED_RUN], count[COUNTED_RUN];
};

/* Fingerprints of both streams must have as many bits. */
void counted_merge(struct counted_merge *m, enum counts_op op, struct counted_stream *a,
                   struct counted_stream *b);

/* ---- The entries of a set without the low bits of their fingerprints: those that become equal are
 * one entry. */
struct counted_narrow {
    struct counted_stream stream;
    struct counted_rest from;
    unsigned drop;
    uint64_t value_so_far, count_so_far; /* of an entry that may get more; count 0: none */
    uint64_t value[COUNTED_RUN], count[COUNTED_RUN];
};

/* Drops so many bits, at most 63. The values of `from` may repeat: so of hashes, 64 - bits make
 * fingerprints. */
void counted_narrow(struct counted_narrow *m, struct counted_stream *from, unsigned drop);

#endif
