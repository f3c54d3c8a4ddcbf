/*
 * Parquet's split-block Bloom filter. A key sets eight bits in one block of 256: one in each of the
 * block's eight words of 32 bits. With h = XXH64 of the key and z blocks
 *
 *     block   floor(x z / 2^32), where x = floor(h / 2^32)
 *     word w  bit floor((y SALT[w] mod 2^32) / 2^27), where y = h mod 2^32
 *
 * (Apache Parquet, BloomFilter.md; Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient
 * Bloom Filters, 2007). The load differs from block to block, so the formulas of classic Bloom
 * filters do not hold; census.c has others.
 *
 *     data       the blocks, 32 bytes each: words little-endian
 *     geometry   [0] z   [1] 1: the foreign file has only the blocks, no header
 *
 * A filter of z blocks folds to z/d blocks without its keys: the union of d neighbouring blocks
 * becomes one block, since floor(floor(t z) / d) = floor(t z/d).
 */
#ifndef KIND_PARQUET_PARQUET_H
#define KIND_PARQUET_PARQUET_H

#include "kind/kind.h"
#include "kind/table.h"

enum {
    PARQUET_WORDS = 8, /* of a block */
    PARQUET_WORD_BITS = 32,
    PARQUET_BITS = PARQUET_WORDS * PARQUET_WORD_BITS, /* of a block */
    PARQUET_BLOCK = PARQUET_BITS / 8,                 /* bytes */
};

#define PARQUET_MAX_BLOCKS ((uint64_t)INT32_MAX)

static inline uint64_t parquet_blocks(const struct layer *layer)
{
    return layer->geometry[0];
}

/* Sets geometry[0] and data_len. */
static inline void parquet_resize(struct layer *layer, uint64_t blocks)
{
    layer->geometry[0] = blocks;
    layer->data_len = blocks * PARQUET_BLOCK;
}

/* The number of distinct keys that set half of the bits, on average. */
double parquet_half(uint64_t blocks);

/* Writes the header that precedes `bytes` bytes of bits in a file. Returns the header's length. */
enum { PARQUET_HEADER = 19 }; /* at most */
size_t parquet_header(uint32_t bytes, uint8_t out[PARQUET_HEADER]);

/* Reads a header of at most `avail` bytes, in any form that Thrift's compact protocol allows. Sets
 * *bytes to the number of bytes that, by the header, follow it. Returns the header's length, or 0
 * with an error if there is no valid header. */
uint64_t parquet_parse(const uint8_t *p, uint64_t avail, uint64_t *bytes, struct err *err);

/* The `fpr_at` of struct kind. */
double parquet_fpr_at(const struct layer *layer, double n);
extern const struct table parquet_table;
extern const struct kind kind_parquet;

#endif
