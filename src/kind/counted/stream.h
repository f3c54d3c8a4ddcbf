/* SPDX-License-Identifier: MIT
 * Streams of entries: fingerprints with counts, in ascending order. Read a set as a stream, combine
 * streams to new ones, and write a stream as a set with counted_encode.
 *
 *     struct counted_reader a, b;
 *     struct counted_merge sum;
 *     counted_read_range(&a, &set_a, 0, UINT64_MAX);
 *     counted_read_range(&b, &set_b, 0, UINT64_MAX);
 *     counted_merge(&sum, COUNTS_ADD, &a.stream, &b.stream);
 *     while ((ok = counted_next(&sum.stream, &run, &err)) && run.n > 0) ...
 *
 * A stream holds no memory besides its struct and needs no cleanup. Different threads may read
 * different streams at the same time.
 */
#ifndef KIND_COUNTED_STREAM_H
#define KIND_COUNTED_STREAM_H

#include "kind/counted/counted.h"
#include "kind/kind.h"

enum { COUNTED_RUN = 1024 };

/* Consecutive entries. Valid until the next call for their stream. */
struct counted_run {
    const uint64_t *value, *count; /* counts are at least 1 */
    size_t n;                      /* 0: the stream has ended */
};

struct counted_stream {
    bool (*next)(struct counted_stream *stream, struct counted_run *run, struct err *err);
};

/* Reads the next run. Values ascend strictly within a run and from run to run. False: the source is
 * damaged, or a count does not fit 64 bits; do not read on. */
static inline bool counted_next(struct counted_stream *stream, struct counted_run *run,
                                struct err *err)
{
    return stream->next(stream, run, err);
}

/* ---- The entries of a set with fingerprints in [first, last]. */
struct counted_reader {
    struct counted_stream stream;
    const struct counted_set *set;
    uint64_t first, last;
    uint64_t block, last_block;
    uint64_t group_end; /* offset in the data where the last block ended; 0: none was read */
    uint64_t block_end; /* offset in the data where the next block must begin */
    uint64_t large_at, large_end; /* unread entries of a large block; at = end: none */
    unsigned large_counts;        /* bytes of a count in it */
    uint64_t previous;            /* largest fingerprint so far */
    bool any;                     /* `previous` is set */
    uint64_t entries, total;      /* entries read, and the sum of their counts */
    uint64_t value[COUNTED_RUN], count[COUNTED_RUN];
};

/* Reads a range, and validates its blocks. The time is proportional to their length, whatever they
 * hold. To validate a set by ranges, the caller also calls counted_check_directory, and compares
 * the sums of entries and totals over all ranges with those of the set. `set` must stay valid. */
void counted_read_range(struct counted_reader *r, const struct counted_set *set, uint64_t first,
                        uint64_t last);

/* ---- Merges two streams into one. */

/* An input stream, and the part of its current run from `at` on, which is not merged yet. */
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

/* Fingerprints of both streams must have the same number of bits. `b` may be NULL: no entries. */
void counted_merge(struct counted_merge *m, enum counts_op op, struct counted_stream *a,
                   struct counted_stream *b);

/* ---- Drops low bits of fingerprints. Entries that become equal are joined: their counts add. */
struct counted_narrow {
    struct counted_stream stream;
    struct counted_rest from;
    unsigned drop;
    uint64_t value_so_far, count_so_far; /* the entry being summed up; count 0: none */
    uint64_t value[COUNTED_RUN], count[COUNTED_RUN];
};

/* Drops the low `drop` bits, at most 63. The values of `from` may repeat. So they may be hashes:
 * drop = 64 - bits turns them into fingerprints. */
void counted_narrow(struct counted_narrow *m, struct counted_stream *from, unsigned drop);

/* ---- Encodes entries as groups of a counted set.
 *
 * `low` must be set at the beginning, and depends on the number of entries (counted_design). With a
 * wrong number the set is valid but takes more space; only the right one gives the same bytes for
 * the same entries. If the number is unknown, as for a union, merge twice: first only to count.
 *
 * To encode with several threads, give each thread a range of groups. Then join the parts: the
 * groups one after another, and the lines of the directory after counted_move_lines. The bytes are
 * the same as with one thread. */

struct counted_part {
    uint8_t *lines, *groups; /* malloc'ed; offsets in the lines count from the part's first group */
    size_t lines_len, groups_len;
    uint64_t entries, total;
};

/* Encodes groups [first, end). `design` gives bits and low; its entries and total are ignored.
 * Fails if a value is not above the previous one or not in the groups, if a count is 0, if the sum
 * of all counts does not fit 64 bits, or if a group has more than COUNTED_CROWD entries. In any
 * case counted_part_free(part) afterwards. */
bool counted_encode(const struct counted *design, uint64_t first, uint64_t end,
                    struct counted_stream *from, struct counted_part *part, struct err *err);

void counted_part_free(struct counted_part *part);

/* The smallest fingerprint of a group. For group = counted_groups it is counted_top + 1, or 0 if
 * that is 2^64. */
uint64_t counted_group_first(const struct counted *c, uint64_t group);

/* Adds `by` to the offsets of groups in lines of the directory. */
void counted_move_lines(uint8_t *lines, size_t len, uint64_t by);

#endif
