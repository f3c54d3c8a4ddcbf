/* SPDX-License-Identifier: MIT
 * Entries of counted sets: fingerprints with counts, in ascending order, in arrays. Read a part of
 * a set into an array, merge two arrays, and encode an array as blocks of a set.
 *
 *     struct counted_entries a = {0}, b = {0}, room = {0};
 *     counted_read_range(&set_a, first, last, 0, &a, &read, &err);
 *     counted_read_range(&set_b, first, last, 0, &b, &read, &err);
 *     counted_merge(COUNTS_ADD, &a, &b, &room, &sums, &err);     // a is the result
 *     counted_encode(&design, first_block, end_block, a.at, a.n, &part, &err);
 */
#ifndef KIND_COUNTED_ENTRIES_H
#define KIND_COUNTED_ENTRIES_H

#include "kind/counted/counted.h"
#include "kind/kind.h"

struct counted_entry {
    uint64_t value, count; /* a count is at least 1 */
};

/* An array, or none: zero. free(at) at the end. */
struct counted_entries {
    struct counted_entry *at;
    size_t n, room;
};

static inline void counted_swap(struct counted_entries *a, struct counted_entries *b)
{
    const struct counted_entries was = *a;
    *a = *b;
    *b = was;
}

/* Makes room for `more` entries and one behind them. */
bool counted_room(struct counted_entries *e, size_t more, struct err *err);

/* Drops the low `drop` bits, at most 63, of entries from number `from` on, where bits of those
 * before are dropped already. Entries that become equal are joined: their counts add, and must fit
 * 64 bits. */
void counted_narrow(struct counted_entries *e, size_t from, unsigned drop);

/* Numbers of entries, and the sums of their counts. */
struct counted_sums {
    uint64_t entries, total;
};

/* Appends the entries of a set with fingerprints in [first, last], with `drop` bits dropped, and
 * adds them to *read before that. Validates the blocks of the range, and the directory there, and
 * that the total of *read fits 64 bits. The array's last entry is joined with the first of these if
 * they are equal. To validate a set by ranges, the caller also calls counted_check_directory, and
 * compares the sums over all ranges with those of the set. */
bool counted_read_range(const struct counted_set *set, uint64_t first, uint64_t last, unsigned drop,
                        struct counted_entries *to, struct counted_sums *read, struct err *err);

/* What merges have seen so far. */
struct counted_seen {
    struct counts_seen counts;
    bool too_many; /* counts or their sum were 2^64 or more; such a count is 2^64 - 1 */
};

/* Merges b into a, and adds to *seen. `room` is an array to work with. Fails if there are more than
 * COUNTED_CROWD entries: those of a stretch, or fewer. */
bool counted_merge(enum counts_op op, struct counted_entries *a, struct counted_entries *b,
                   struct counted_entries *room, struct counted_seen *seen, struct err *err);

/* The same for entries of a single set: of all operations, only COUNTS_DISTINCT changes them. */
void counted_alone(enum counts_op op, struct counted_entries *e, struct counted_seen *seen);

/* ---- Encodes entries as blocks of a counted set.
 *
 * `low` must be set at the beginning, and depends on the number of entries (counted_design). If the
 * number is unknown, as for a union, merge twice: first only to count.
 *
 * To encode with several threads, give each thread a range of blocks. Then join the parts: the
 * blocks one after another, and the lines of the directory after counted_move_lines. The bytes are
 * the same as with one thread. */

struct counted_part {
    uint8_t *lines, *blocks; /* malloc'ed; ends in the lines count from the part's first block */
    size_t lines_len, blocks_len;
    struct counted_sums sums;
};

/* Encodes blocks [first, end), whose entries these are. `design` gives bits and low; its entries
 * and total are ignored. Fails if a stretch has more than COUNTED_CROWD entries. In any case
 * counted_part_free(part) afterwards. */
bool counted_encode(const struct counted *design, uint64_t first, uint64_t end,
                    const struct counted_entry *e, size_t n, struct counted_part *part,
                    struct err *err);

void counted_part_free(struct counted_part *part);

/* Adds `by` to the ends in lines of the directory. */
void counted_move_lines(uint8_t *lines, size_t len, uint64_t by);

#endif
