/* SPDX-License-Identifier: MIT
 * Shared by the files of this kind: bits of untrusted data and where a block is in it, the counts
 * of a block, and writing of bits.
 */
#ifndef KIND_COUNTED_PARTS_H
#define KIND_COUNTED_PARTS_H

#include "base/bytes.h"
#include "kind/counted/counted.h"
#include "kind/counted/entries.h"

#define COUNTED_INLINE static inline __attribute__((always_inline))

static inline uint64_t counted_mask(unsigned width)
{
    return width < 64 ? ((uint64_t)1 << width) - 1 : UINT64_MAX;
}

static inline uint64_t counted_fingerprint(const struct counted *c, uint64_t hash)
{
    return hash >> (64 - c->bits);
}

static inline uint64_t counted_block_of(const struct counted *c, uint64_t v)
{
    return v >> c->low >> COUNTED_BUCKET_BITS;
}

/* The smallest fingerprint of a block. */
static inline uint64_t counted_block_first(const struct counted *c, uint64_t block)
{
    return block << COUNTED_BUCKET_BITS << c->low;
}

/* Loads `width` bits, at most 64, from bit number `bit` on. Reads up to 9 bytes. */
COUNTED_INLINE uint64_t counted_bits(const uint8_t *data, uint64_t bit, unsigned width)
{
    unsigned shift = bit & 7;
    uint64_t bits = get_le64(data + bit / 8) >> shift;
    if (shift + width > 64)
        bits |= (uint64_t)data[bit / 8 + 8] << (64 - shift);
    return bits & counted_mask(width);
}

/* Where a block is in the data, and how many entries it has. */
struct counted_block {
    uint64_t begin, end;
    unsigned n;
};

static inline uint64_t counted_line_end(uint64_t line)
{
    return line & counted_mask(COUNTED_END_BITS);
}

/* Finds a block of the directory. False: it is not in the data, or its marks and remainders are
 * longer than it. This is the only place where a line is believed. */
COUNTED_INLINE bool counted_find_block(const struct counted_set *set, uint64_t block,
                                       struct counted_block *b)
{
    const uint8_t *line = set->data + COUNTED_LINE * block;
    uint64_t before = block > 0 ? counted_line_end(get_le64(line - COUNTED_LINE)) : 0;
    b->begin = set->directory_len + before;
    b->end = set->directory_len + counted_line_end(get_le64(line));
    b->n = (unsigned)(get_le64(line) >> COUNTED_END_BITS);
    uint64_t bits = COUNTED_BUCKETS + (uint64_t)b->n * (1 + set->counted.low);
    return (b->begin <= b->end) & (b->end <= set->len - COUNTED_SLACK) &
           ((bits <= 8 * (b->end - b->begin)) | (b->n == 0));
}

/* The number of the bit where the counts of a block begin, if it has any. */
static inline uint64_t counted_counts_at(const struct counted_set *set,
                                         const struct counted_block *b)
{
    return 8 * b->begin + COUNTED_BUCKETS + (uint64_t)b->n * (1 + set->counted.low);
}

/* Writes numbers of any width, low bit first. */
struct counted_writer {
    uint8_t *data;
    uint64_t bit;
};

/* Appends the low `width` bits of v, at most 64. All higher bits of v must be zero. Overwrites up
 * to 8 bytes behind them with zeros. */
static inline void counted_write(struct counted_writer *w, uint64_t v, unsigned width)
{
    uint8_t *to = w->data + w->bit / 8;
    unsigned shift = w->bit & 7;
    put_le64(to, (*to & counted_mask(shift)) | v << shift);
    to[8] = (uint8_t)(shift > 0 ? v >> (64 - shift) : 0);
    w->bit += width;
}

/* ---- The counts of a block (counts.c). */

/* The order with which the counts of n entries, n > 0, take the fewest bits. Sets *bits to these,
 * with those of the order; 0: all counts are 1. */
unsigned counted_order(const struct counted_entry *e, size_t n, uint64_t *bits);

/* Appends them in that order. */
void counted_put_counts(struct counted_writer *w, const struct counted_entry *e, size_t n,
                        unsigned order);

/* Reads the counts of a block into its entries. False: they are not valid. */
bool counted_get_counts(const struct counted_set *set, const struct counted_block *b,
                        struct counted_entry *e);

/* Reads the count of entry i of a block; 0 if the data is not valid. */
uint64_t counted_get_count(const struct counted_set *set, const struct counted_block *b,
                           uint64_t i);

#endif
