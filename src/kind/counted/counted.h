/* SPDX-License-Identifier: MIT
 * Counted sets: a layer kind whose keys can be removed. It stores a fingerprint and a count for
 * each key, in ascending order of the fingerprints. A set is changed only by a merge into a new
 * file. Query a set with counted_query; read, merge and write sets as streams (stream.h).
 *
 * The fingerprint v of a key is the top `bits` bits of its 64-bit hash. An absent key is reported
 * present with probability entries / 2^bits. Keys with equal fingerprints share one entry, which
 * holds the sum of their counts. Any two sets of one hash function can be merged exactly: drop low
 * bits of the longer fingerprints, then merge. The sum of all counts is below 2^64, so no count
 * overflows.
 *
 * A fingerprint v is in bucket floor(v / 2^low) and has the remainder v mod 2^low. 128 buckets are
 * a block, 28 blocks a group. The last block and the last group may have fewer. The geometry is
 *
 *     geometry[0]   bits, 1 to 64
 *     geometry[1]   low, 0 to 63
 *     geometry[2]   entries
 *     geometry[3]   the sum of all counts
 *
 * Writers use the smallest low with buckets <= 7/4 entries, or 63 if there is none; an empty set
 * gets the low of one entry. Readers accept any low. The data is the directory, then the groups,
 * without gaps. The directory has a line for each group: 64 bytes, fewer for a last group with
 * fewer blocks.
 *
 *     line    u64 offset of the group in the groups; bit 63: the group is large
 *             u16 for each block: where it ends in the group
 *     group   its blocks, without gaps; a block without entries has no bytes
 *
 * A group is large if it is longer than 65535 bytes or one of its blocks is large. The u16 are then
 * zero, and the group begins with a table:
 *
 *     table   u64 for each block: where it ends in the group (the table counts as part of the
 *             group); bit 63: the block is large
 *
 * In a block, bit i is bit i mod 8 of byte i div 8. A block with b buckets (128, or fewer in the
 * last block) and n entries, n <= 384, has
 *
 *     buckets     for each bucket one 0 bit per entry, then a 1 bit
 *     counts      nothing if all counts are 1; else see below
 *     padding     0 to 7 zero bits, up to whole bytes
 *     remainders  `low` bits each, low bit first, in descending order: the remainder of entry i
 *                 ends i * low bits before the end of the block
 *
 * So a query needs neither n nor the counts. The counts are there exactly if the block is longer
 * than ceil((b + n + n * low) / 8) bytes. The form selects a list of entries. The counts field
 * encodes one number x for each listed entry; all other counts are 1:
 *
 *     bits 0 to 5   k; in form 3 the length of the list, with k = 0
 *     bits 6 and 7  the form:
 *                   0: one bit for each entry follows: 1 if its count is above 1. Entries with a
 *                      1 bit are listed; x = count - 2
 *                   1: the length of the list follows in 8 bits; then the index of each listed
 *                      entry, from 0, ascending, in ceil(log2 n) bits each. Entries with counts
 *                      above 1 are listed; x = count - 2
 *                   2: all entries are listed; x = count - 1
 *                   3: as form 1, without the 8 bits
 *     rounds        c = 0, 1, 2, ..., until no listed entry remains:
 *                   for each remaining entry one bit: 1 if it remains for the next round
 *                   for each entry that leaves x - (2^c - 1) * 2^k, in c + k bits
 *
 * This is the exponential Golomb code of order k, arranged so that a single count is found fast.
 * For each form, writers take the smallest k for which k + 1 needs no fewer bits. They then take
 * the form with the fewest bits, of equals the one with the smallest number. Form 1 holds at most
 * 255 listed entries, form 3 at most 63. No list is empty. A few counts above 1 cost about 8 bits
 * each, plus 8 bits for every block that has any. Geometric and Zipf distributions cost within 0.3
 * bits a key of their entropy.
 *
 * A large block has more than 384 entries. Random hashes make none: they give a block 73 to 146
 * entries on average, with a standard deviation of at most 12. A large block has
 *
 *     u8        bytes of a count: 0 to 8
 *     entries   v - first in ceil(min(64, low + 7) / 8) bytes, where first is the smallest
 *               fingerprint of the block's buckets; count - 1 in as many bytes as the largest needs
 *
 * A lookup there is a binary search: adversarial keys, too, are found in logarithmic time. Writers
 * hold a group in memory, and refuse one with more than 65536 entries. Random hashes give a group
 * at most 4096 on average, with a standard deviation of 64.
 *
 * Size: let x = buckets / entries, 7/8 < x <= 7/4. An entry takes 1 + low bits. A bucket takes 1
 * bit, and 8 * 64 / (28 * 128) = 0.143 bits of the directory. The sum is log2(1/p) + 1 + 1.143 x -
 * log2(x) bits an entry: 2.11 to 2.20 bits above log2(1/p). Padding adds 3.5 bits a block, 0.03 x.
 * (The code of buckets and remainders is that of P. Elias, 1974, and R. Fano, 1971.)
 */
#ifndef KIND_COUNTED_COUNTED_H
#define KIND_COUNTED_COUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/variant.h"

struct kind;
struct layer;

enum {
    COUNTED_BUCKET_BITS = 7,
    COUNTED_BUCKETS = 1 << COUNTED_BUCKET_BITS, /* in a block */
    COUNTED_BLOCKS = 28,                        /* in a group */
    COUNTED_LINE = 64,                          /* bytes of a line of the directory */
    COUNTED_ENTRIES = 384,                      /* of a block that is not large, at most */
    COUNTED_GROUP_BYTES = 65535,                /* of a group that is not large, at most */
    COUNTED_CROWD = 1 << 16, /* entries of a group, at most, when it is written */
};

/* Largest number of entries of a layer; largest data length, chosen so that bit numbers fit 64
 * bits. */
#define COUNTED_MAX_ENTRIES ((uint64_t)1 << 48)
#define COUNTED_MAX_LEN     ((uint64_t)1 << 60)

struct counted {
    unsigned bits, low;
    uint64_t entries, total; /* total: the sum of all counts */
};

/* Convert between a layer's stored geometry and struct counted. counted_of is valid only after
 * counted_check. */
struct counted counted_of(const struct layer *layer);
void counted_to(const struct counted *counted, struct layer *layer);

/* Sets `low` to the value that writers use for this number of entries. */
void counted_design(struct counted *counted, uint64_t entries);

/* Checks geometry and length of a layer. Takes constant time. */
bool counted_check(const struct layer *layer, struct err *err);

/* The largest fingerprint. */
static inline uint64_t counted_top(const struct counted *c)
{
    return UINT64_MAX >> (64 - c->bits);
}

/* The number of the last bucket. (The number of buckets may be 2^64.) */
static inline uint64_t counted_last_bucket(const struct counted *c)
{
    return counted_top(c) >> c->low;
}

static inline uint64_t counted_blocks(const struct counted *c)
{
    return (counted_last_bucket(c) >> COUNTED_BUCKET_BITS) + 1;
}

static inline uint64_t counted_groups(const struct counted *c)
{
    return (counted_blocks(c) - 1) / COUNTED_BLOCKS + 1;
}

/* Bytes of the directory. At most 2.3 * 2^57. */
static inline uint64_t counted_directory_len(const struct counted *c)
{
    return 8 * counted_groups(c) + 2 * counted_blocks(c);
}

/* The expected length of the data, for entries with random hashes and all counts 1. Exact to
 * within 2 % or 32 bytes. */
uint64_t counted_expected_len(const struct counted *c, uint64_t entries);

/* A set in memory, or mapped. */
struct counted_set {
    struct counted counted;
    const uint8_t *data;
    uint64_t len, fast; /* 8 bytes can be read at offsets below `fast` */
    uint64_t directory_len;
};

/* `counted` and `len` must have passed counted_check. */
struct counted_set counted_set(const struct counted *counted, const uint8_t *data, uint64_t len);

/* Sets bit i of present if the set has hash[i]. Clears no bits. Safe for any data: nothing outside
 * it is read, and a lookup takes logarithmic time. */
void counted_query(const struct counted_set *set, const uint64_t *hash, size_t n,
                   uint64_t *present);

/* Sets count[i] to the count of hash[i], 0 if it is not in the set. */
void counted_query_counts(const struct counted_set *set, const uint64_t *hash, size_t n,
                          uint64_t *count);

/* Calls need(ctx, page) for every page of 4096 bytes that the lookup of n hashes and of their
 * counts reads, before reading from it. Stops and returns false if need does. */
bool counted_pages(const struct counted_set *set, const uint64_t *hash, size_t n,
                   bool (*need)(void *ctx, uint64_t page), void *ctx);

/* Validates the part of the directory that is in a page of 4096 bytes: offsets must ascend and be
 * inside the data. */
bool counted_check_page(const struct counted_set *set, uint64_t page, struct err *err);

/* Validates the whole directory: groups must follow one another without gaps, to the end of the
 * data. */
bool counted_check_directory(const struct counted_set *set, struct err *err);

extern struct variants counted_variants;

extern const struct kind kind_counted;

#endif
