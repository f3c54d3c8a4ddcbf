/* SPDX-License-Identifier: MIT
 * Shared by the files of this kind: bounds-checked reads of untrusted data, the directory, the
 * counts of a block, writing of bits, and the variants of the query.
 */
#ifndef KIND_COUNTED_PARTS_H
#define KIND_COUNTED_PARTS_H

#include "base/bytes.h"
#include "base/variant.h"
#include "kind/counted/counted.h"

#define COUNTED_INLINE static inline __attribute__((always_inline))

#define COUNTED_LARGE ((uint64_t)1 << 63)

static inline uint64_t counted_fingerprint(const struct counted *c, uint64_t hash)
{
    return hash >> (64 - c->bits);
}

/* counted_load for offsets near the end of the data, or after it. */
uint64_t counted_load_end(const struct counted_set *set, uint64_t at);

/* Loads 8 bytes at any offset. Bytes outside the data are zero. */
COUNTED_INLINE uint64_t counted_load(const struct counted_set *set, uint64_t at)
{
    return __builtin_expect(at < set->fast, 1) ? get_le64(set->data + at)
                                               : counted_load_end(set, at);
}

static inline uint64_t counted_mask(unsigned width)
{
    return width < 64 ? ((uint64_t)1 << width) - 1 : UINT64_MAX;
}

/* Loads `width` bits, at most 64, from bit number `bit` on. */
COUNTED_INLINE uint64_t counted_bits(const struct counted_set *set, uint64_t bit, unsigned width)
{
    unsigned shift = bit & 7;
    uint64_t bits = counted_load(set, bit / 8) >> shift;
    if (shift + width > 64)
        bits |= counted_load(set, bit / 8 + 8) << (64 - shift);
    return bits & counted_mask(width);
}

/* Finds the last of n remainders, n > 0, that is not below `wanted`. They are in descending order
 * from bit number `bit` on. Returns its index, 0 if all are below. */
COUNTED_INLINE unsigned counted_find(const struct counted_set *set, uint64_t bit, unsigned n,
                                     unsigned low, uint64_t wanted)
{
    unsigned found = 0;
    for (; n > 1; n -= n / 2) {
        unsigned next = found + n / 2;
        found = counted_bits(set, bit + (uint64_t)next * low, low) >= wanted ? next : found;
    }
    return found;
}

/* Where a block is in the data. */
struct counted_block {
    uint64_t begin, end; /* not validated: may be out of order or outside the data */
    bool large;
};

struct counted_block counted_find_block(const struct counted_set *set, uint64_t block);

/* The number of blocks of a group. */
static inline unsigned counted_group_blocks(const struct counted *c, uint64_t group)
{
    uint64_t left = counted_blocks(c) - group * COUNTED_BLOCKS;
    return left < COUNTED_BLOCKS ? (unsigned)left : COUNTED_BLOCKS;
}

static inline unsigned counted_block_buckets(const struct counted *c, uint64_t block)
{
    uint64_t left = counted_last_bucket(c) - block * COUNTED_BUCKETS;
    return left < COUNTED_BUCKETS ? (unsigned)left + 1 : COUNTED_BUCKETS;
}

/* The smallest fingerprint of a block. */
static inline uint64_t counted_block_first(const struct counted *c, uint64_t block)
{
    return block << COUNTED_BUCKET_BITS << c->low;
}

/* Bytes of a fingerprint in a large block. */
static inline unsigned counted_wide(const struct counted *c)
{
    unsigned bits = c->low + COUNTED_BUCKET_BITS;
    return (bits < 64 ? bits + 7 : 71) / 8;
}

/* Bytes of a block of n entries whose counts are all 1. */
static inline uint64_t counted_block_len(const struct counted *c, unsigned buckets, uint64_t n)
{
    return (buckets + n + n * c->low + 7) / 8;
}

/* ---- The counts of a block (counts.c). */

enum { COUNTED_BITMAP, COUNTED_LIST, COUNTED_ALL, COUNTED_SHORT }; /* forms */

/* The shortest code for the counts of a block. */
struct counted_code {
    unsigned form, order;
    size_t listed;
    uint64_t bits; /* 0: all counts are 1 */
};

struct counted_code counted_best_code(const uint64_t *count, size_t n);

/* Writes code->bits bits, more than 0, from bit number `bit` of `to` on. Also zeroes at least the 8
 * bits after them, and at most 9 bytes. */
void counted_put_counts(uint8_t *to, uint64_t bit, const struct counted_code *code,
                        const uint64_t *count, size_t n);

/* Reads the counts of n entries, n at most COUNTED_ENTRIES, from bits [bit, end) of the data.
 * Returns the number of the bit after them, or 0 if they are not valid. */
uint64_t counted_get_counts(const struct counted_set *set, uint64_t bit, uint64_t end, size_t n,
                            uint64_t *count);

/* Reads the count of entry i of n; 0 if the data is not valid. */
uint64_t counted_get_count(const struct counted_set *set, uint64_t bit, uint64_t end, size_t n,
                           size_t i);

/* ---- Queries (query.c). */

/* No block that is not large is longer: bucket bits, counts and remainders. */
#define COUNTED_LONGEST ((uint64_t)COUNTED_ENTRIES * 32 + 64)

enum { COUNTED_BATCH = 256 };

/* Is the fingerprint in the set? For those that the variants leave out: in large blocks, and near
 * the end of the data. */
bool counted_has(const struct counted_set *set, uint64_t v);

struct counted_variant {
    struct variant variant;
    /* n is at most COUNTED_BATCH. */
    void (*query)(const struct counted_set *set, const uint64_t *hash, size_t n, uint64_t *present);
};

extern const struct counted_variant counted_bmi2;

/* ---- Writes bit strings: bit i is bit i mod 8 of byte i div 8. */

struct counted_writer {
    uint8_t *to;
    uint64_t word; /* the next `fill` bits, to be written to `to`; fill is at most 63 */
    unsigned fill;
};

/* Starts at bit number `bit`. Keeps the bits before it. */
static inline struct counted_writer counted_writer_at(uint8_t *data, uint64_t bit)
{
    uint8_t *to = data + bit / 8;
    unsigned fill = bit & 7;
    return (struct counted_writer){.to = to, .word = *to & ((1u << fill) - 1), .fill = fill};
}

/* Appends the low `width` bits of v, at most 64. All higher bits of v must be zero. */
static inline void counted_write(struct counted_writer *w, uint64_t v, unsigned width)
{
    w->word |= v << w->fill;
    if (w->fill + width < 64) {
        w->fill += width;
        return;
    }
    put_le64(w->to, w->word);
    w->to += 8;
    w->word = w->fill > 0 ? v >> (64 - w->fill) : 0;
    w->fill = w->fill + width - 64;
}

/* Writes the last bits. Also zeroes at least the 8 bits after them, and at most 9 bytes. */
static inline void counted_write_end(const struct counted_writer *w)
{
    put_le64(w->to, w->word);
    w->to[8] = 0;
}

#endif
