/*
 * Encodes entries, in ascending order, as a counted set.
 *
 *     struct counted_encoder *e = counted_encoder_new(&design, 0, counted_groups(&design), &sink,
 *                                                     &err);
 *     counted_encode(e, value, count, n, &err);       // any number of times, ascending
 *     counted_encoder_end(e, &made, &err);            // writes the rest
 *     counted_encoder_free(e);
 *
 * `low` must be set at the beginning, and depends on the number of entries (counted_design). With a
 * wrong number the set is valid but takes more space; only the right one gives the same bytes for
 * the same entries. If the number is unknown, as for a union, merge twice: first only to count.
 *
 * To encode with several threads, give each thread a range of groups, an encoder and a sink. Then
 * join the parts: the groups one after another, and the lines of the directory after
 * counted_move_lines. The bytes are the same as with one thread.
 *
 * Adversarial keys can make large blocks, of any size. The encoder does not keep their entries: it
 * fails at the first one. Then encode each group by itself, and read its entries twice, first to
 * measure its blocks:
 *
 *     e = counted_encoder_new(&design, group, group + 1, &sink, &err);
 *     counted_measure(e, &entries, &made, &err);        // made: what will be written
 *     counted_encode_all(e, &entries_again, &made, &err);
 *
 * Memory: about 2 MiB.
 */
#ifndef KIND_COUNTED_ENCODE_H
#define KIND_COUNTED_ENCODE_H

#include "kind/counted/counted.h"
#include "kind/counted/stream.h"

/* Receives the output: lines of the directory, and groups, each in order. */
struct counted_sink {
    bool (*lines)(void *ctx, const uint8_t *data, size_t len, struct err *err);
    bool (*groups)(void *ctx, const uint8_t *data, size_t len, struct err *err);
    void *ctx;
};

struct counted_made {
    uint64_t entries, total;
    uint64_t lines_len, groups_len;
};

struct counted_encoder;

/* Encodes groups [first, end). `design` gives bits and low; its entries and total are ignored.
 * NULL: out of memory. */
struct counted_encoder *counted_encoder_new(const struct counted *design, uint64_t first,
                                            uint64_t end, const struct counted_sink *sink,
                                            struct err *err);

/* Appends n entries. count NULL: all counts are 1. Also fails if a value is not above the previous
 * one or not in the groups, if a count is 0, or if the sum of all counts does not fit 64 bits. */
bool counted_encode(struct counted_encoder *e, const uint64_t *value, const uint64_t *count,
                    size_t n, struct err *err);

bool counted_encoder_end(struct counted_encoder *e, struct counted_made *made, struct err *err);

/* Appends a whole stream, and calls counted_encoder_end. */
bool counted_encode_all(struct counted_encoder *e, struct counted_stream *from,
                        struct counted_made *made, struct err *err);

/* Did encoding fail because a block is large? */
bool counted_is_crowded(const struct counted_encoder *e);

/* Measures the only group of a new encoder, which then takes the same entries again. Writes
 * nothing. */
bool counted_measure(struct counted_encoder *e, struct counted_stream *from,
                     struct counted_made *made, struct err *err);

void counted_encoder_free(struct counted_encoder *e); /* may be NULL */

/* The smallest fingerprint of a group. For group = counted_groups it is counted_top + 1, or 0 if
 * that is 2^64. */
uint64_t counted_group_first(const struct counted *c, uint64_t group);

/* Adds `by` to the offsets of groups in lines of the directory. */
void counted_move_lines(uint8_t *lines, size_t len, uint64_t by);

#endif
