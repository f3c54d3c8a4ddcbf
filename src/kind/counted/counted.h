/* SPDX-License-Identifier: MIT
 * Counted sets: a layer kind whose keys can be removed. It stores a fingerprint and a count for
 * each key, in ascending order of the fingerprints. A set is changed only by a merge into a new
 * file. Query a set with counted_query; read, merge and write sets as arrays of entries
 * (entries.h).
 *
 * The fingerprint v of a key is the top `bits` bits of its 64-bit hash. An absent key is reported
 * present with probability entries / 2^bits. Keys with equal fingerprints share one entry, which
 * holds the sum of their counts. Any two sets of one hash function can be merged exactly: drop low
 * bits of the longer fingerprints, then merge. The sum of all counts is below 2^64, so no count
 * overflows.
 * A fingerprint v is in bucket floor(v / 2^low) and has the remainder v mod 2^low. 128 buckets are
 * a block, 32 blocks a stretch. The geometry is
 *
 *     geometry[0]   bits, 1 to 64
 *     geometry[1]   low: the smallest with buckets <= 7/4 entries, or 63 if there is none; an empty
 *                   set has the low of one entry
 *     geometry[2]   entries
 *     geometry[3]   the sum of all counts
 *
 * The data is
 *
 *     directory     a line for each block, a u64: in the low 48 bits where the block ends, counted
 *                   from the end of the directory; in the high 16 bits the number n of its entries
 *     blocks        without gaps: a block begins where the one before it ends. A block without
 *                   entries has no bytes
 *     slack         16 zero bytes, so that words may be loaded at any bit of a block
 *
 * Bit i of a block is bit i mod 8 of byte i div 8. A block with entries has
 *
 *     marks         for each of its 128 buckets a 0 bit for each entry, then a 1 bit. The last
 * block has 128 buckets like the others remainders    in ascending order of the entries, `low` bits
 * each, low bit first: that of entry i begins at bit 128 + n + i * low counts        nothing if all
 * are 1; else k in 8 bits, then count - 1 of each entry in the exponential Golomb code of order k
 *     padding       0 to 7 zero bits, up to whole bytes
 *
 * So the counts are there exactly if 8 bits or more follow the remainders. The code of a number x,
 * with y = floor(x / 2^k) + 1 and c = floor(log2 y), is c zero bits and a 1, then
 * x - (2^c - 1) * 2^k in c + k bits. With k = 0 a count of 1 is a 1 bit. Writers take the smallest
 * k for which k + 1 needs no fewer bits. Geometric and Zipf distributions cost within 0.4 bits a
 * key of their entropy; if a few counts are above 1, each entry costs a bit.
 *
 * A stretch has at most 65535 entries: that bounds memory, whatever the keys. Random hashes give it
 * 2300 to 4700 on average, with a standard deviation of at most 70. Writers refuse more.
 *
 * Size: let x = buckets / entries, 7/8 < x <= 7/4. An entry takes 1 + low bits, a bucket 1 bit and
 * 64 / 128 bits of the directory. The sum is log2(1/p) + 1 + 1.5 x - log2(x) bits an entry: 2.50 to
 * 2.82 bits above log2(1/p). Padding adds 3.5 bits a block, 0.03 x.
 * (The code of marks and remainders is that of P. Elias, 1974, and R. Fano, 1971.)
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
    COUNTED_STRETCH_BITS = 5,
    COUNTED_STRETCH = 1 << COUNTED_STRETCH_BITS, /* blocks that are read and written at once */
    COUNTED_CROWD = 65535,                       /* entries of a stretch, at most */
    COUNTED_LINE = 8,                            /* bytes of a line of the directory */
    COUNTED_END_BITS = 48,                       /* of a line: the end of the block */
    COUNTED_SLACK = 16,                          /* zero bytes behind the last block */
};

/* Largest number of entries of a layer; largest data length: that of an end. */
#define COUNTED_MAX_ENTRIES ((uint64_t)1 << 48)
#define COUNTED_MAX_LEN     ((uint64_t)1 << COUNTED_END_BITS)

struct counted {
    unsigned bits, low;
    uint64_t entries, total; /* total: the sum of all counts */
};

/* Convert between a layer's stored geometry and struct counted. counted_of is valid only after
 * counted_check. */
struct counted counted_of(const struct layer *layer);
void counted_to(const struct counted *counted, struct layer *layer);

/* Sets `low` to the value for this number of entries. */
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

/* Bytes of the directory. At most 2^60. */
static inline uint64_t counted_directory_len(const struct counted *c)
{
    return COUNTED_LINE * counted_blocks(c);
}

/* The expected length of the data, for entries with random hashes and all counts 1. Exact to
 * within 2 % or 32 bytes. */
uint64_t counted_expected_len(const struct counted *c, uint64_t entries);

/* A set in memory, or mapped. */
struct counted_set {
    struct counted counted;
    const uint8_t *data;
    uint64_t len, directory_len;
};

/* `counted` and `len` must have passed counted_check. */
struct counted_set counted_set(const struct counted *counted, const uint8_t *data, uint64_t len);

/* Sets bit i of present if the set has hash[i]. Clears no bits. Safe for any data: nothing outside
 * it is read. */
void counted_query(const struct counted_set *set, const uint64_t *hash, size_t n,
                   uint64_t *present);

/* Sets count[i] to the count of hash[i], 0 if it is not in the set. */
void counted_query_counts(const struct counted_set *set, const uint64_t *hash, size_t n,
                          uint64_t *count);

/* Calls need(ctx, page) for every page of 4096 bytes that the lookup of n hashes and of their
 * counts reads, before reading from it. Stops and returns false if need does. */
bool counted_pages(const struct counted_set *set, const uint64_t *hash, size_t n,
                   bool (*need)(void *ctx, uint64_t page), void *ctx);

/* Validates the part of the directory that is in a page of 4096 bytes: ends must ascend and be
 * inside the data, and stretches not be crowded. */
bool counted_check_page(const struct counted_set *set, uint64_t page, struct err *err);

/* Validates the whole directory: it must have the set's entries, and the last block must end where
 * the slack begins. */
bool counted_check_directory(const struct counted_set *set, struct err *err);

extern struct variants counted_variants;

extern const struct kind kind_counted;

#endif
