/*
 * Makes a counted set of a stream of entries.
 *
 *     struct counted_encoder *e = counted_encoder_new(&design, 0, counted_groups(&design), &sink,
 *                                                     &err);
 *     counted_encode(e, value, count, n, &err);       // any number of times, ascending
 *     counted_encoder_end(e, &made, &err);            // writes the rest
 *     counted_encoder_free(e);
 *
 * `low` must be known at the beginning, and so how many entries will come. A wrong number makes a
 * valid set that takes more space, but only the right one makes the same bytes for the same
 * entries. Where it is not known, for example of a union, read and merge twice, first to count.
 *
 * To encode with several threads, give each some groups, with an encoder and a sink of its own, and
 * then put the parts together: the groups one after another, and the lines of the directory after
 * counted_move_lines. The bytes are the same.
 *
 * Memory: about 2 MiB, 24 bytes for each entry of the largest block, and twice its length; blocks
 * are small unless keys were chosen.
 */
#ifndef KIND_COUNTED_ENCODE_H
#define KIND_COUNTED_ENCODE_H

#include "kind/counted/counted.h"
#include "kind/counted/stream.h"

/* Where the bytes go. Each part is written in order. */
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

/* Encodes groups [first, end) of the design: bits and low; entries and total do not
 * matter. NULL: out of memory. */
struct counted_encoder *counted_encoder_new(const struct counted *design, uint64_t first,
                                            uint64_t end, const struct counted_sink *sink,
                                            struct err *err);

/* Appends n entries. count NULL: all are 1. Fails, too, if a value is not above the one before or
 * not in the groups, if a count is 0 or if the sum of all counts does not fit 64 bits. */
bool counted_encode(struct counted_encoder *e, const uint64_t *value, const uint64_t *count,
                    size_t n, struct err *err);

bool counted_encoder_end(struct counted_encoder *e, struct counted_made *made, struct err *err);

/* Appends all of a stream, and ends. */
bool counted_encode_all(struct counted_encoder *e, struct counted_stream *from,
                        struct counted_made *made, struct err *err);

void counted_encoder_free(struct counted_encoder *e); /* may be NULL */

/* The smallest fingerprint of a group; top + 1, or 0 if that is 2^64, for the number of groups. */
uint64_t counted_group_first(const struct counted *c, uint64_t group);

/* Adds `by` to the offsets of groups in lines of the directory. */
void counted_move_lines(uint8_t *lines, size_t len, uint64_t by);

#endif
