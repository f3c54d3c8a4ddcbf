/* SPDX-License-Identifier: MIT
 * The bumped ribbon filter: the immutable layer kind. Its size is within a few thousandths of the
 * theoretical minimum. (P. Dillinger, L. Huebschle-Schneider, P. Sanders, S. Walzer, "Fast succinct
 * retrieval and approximate membership using ribbon", 2022.)
 *
 * A filter stores a table of m slots with a few bits each. A key has a start slot, 64 coefficient
 * bits and a fingerprint. The coefficients select some of the 64 slots from the start on. For every
 * key in the set, the xor of the selected slots is the key's fingerprint. An absent key matches its
 * fingerprint only by chance. The slots are the solution of a system of linear equations over
 * GF(2), with more keys than slots. Where the system has no solution, the keys that start at the
 * low end of a bucket of 128 slots are bumped to the next, much smaller table. There are three
 * tables, then a list of the remaining hashes. So every set can be stored.
 *
 * The top s bits of a hash, its prefix, select a partition of about 2^19 hashes. Each partition is
 * built by itself. The directory has an entry of 32 bytes for each of the 2^s prefixes. The data is
 * a block for each partition, in sequence, and then the directory.
 *
 *     entry   u64 offset of its block in the data
 *             u32 segments of 64 slots in tables 0, 1 and 2
 *             u32 hashes in the list
 *             u32 keys
 *             u8  seed, 3 bytes zero
 *     block   thresholds of the three tables, 2 bits a bucket, each table in whole bytes
 *             zeroes up to a multiple of 8
 *             the list, 64-bit hashes in ascending order
 *             the segments of table 0, then 1, then 2: a 64-bit word for each column
 *
 * With the hash h:
 *
 *     x0     = h rotated left by s
 *     x_t    = M(x0 + (t + 8 seed) * 0x9e3779b97f4a7c15) for table t; x0 itself if t = seed = 0
 *     start  = floor(x_t * (m - 63) / 2^64), m = 64 * segments
 *     coefficients   c = M(x_t xor 0x5bd1e9955bd1e995) | 1
 *     fingerprint    y = x_t * 0xc28f82822b650bed mod 2^64, (y / 2^32 xor y / 2^7) mod 2^32
 *     M(x)   x ^= x / 2^32; x *= 0xd6e8feb86659fd93; twice; x ^= x / 2^32
 *
 * A key is bumped to the next table if start mod 128 < limit[threshold of bucket start / 128], with
 * limit = 0, 15, 34, 128. If that table has no segments, the key goes to the list. The first
 * `narrow` segments of a table have `columns` columns; the others (wide segments) have one more.
 *
 *     narrow = floor((2^32 - wide) * (m - 63) / 2^38)
 *
 * So at least `wide` / 2^32 of all starts are in wide segments, with half the FPR. With `wide` 0,
 * all segments are narrow.
 */
#ifndef KIND_RIBBON_RIBBON_H
#define KIND_RIBBON_RIBBON_H

#include "base/variant.h"
#include "kind/kind.h"

enum {
    RIBBON_ENTRY = 32, /* bytes */
    RIBBON_TABLES = 3,
    RIBBON_WIDTH = 64,             /* coefficients; slots in a segment */
    RIBBON_BUCKET = 128,           /* slots that share a threshold */
    RIBBON_MAX_COLUMNS = 32,       /* bits in a fingerprint */
    RIBBON_MAX_BITS = 40,          /* of prefix */
    RIBBON_PARTITION = 1 << 19,    /* expected keys, at most */
    RIBBON_LARGEST = 5 << 17,      /* keys, at most: 181 standard deviations more */
    RIBBON_MAX_SEGMENTS = 1 << 16, /* of a table: 6 times the need of RIBBON_LARGEST keys */
};

/* The range of FPRs. */
#define RIBBON_MIN_FPR 0x1p-32
#define RIBBON_MAX_FPR 0.5

struct ribbon {
    unsigned bits;    /* s: the length of the prefix */
    unsigned columns; /* of narrow segments */
    uint32_t wide;    /* the part of starts in wide segments, in 2^-32 */
};

struct ribbon_entry {
    uint64_t at;
    uint32_t segments[RIBBON_TABLES], listed, keys;
    uint8_t seed;
};

extern const struct kind kind_ribbon;

struct ribbon ribbon_of(const struct layer *layer);
void ribbon_to(const struct ribbon *ribbon, struct layer *layer);

/* Computes the columns for an FPR of at most p; p must be in range. */
void ribbon_columns(double p, unsigned *columns, uint32_t *wide);

/* The FPR with these columns. */
double ribbon_fpr(unsigned columns, uint32_t wide);

/* The number of prefix bits for n keys. */
unsigned ribbon_bits(uint64_t n);

/* Bytes of the directory. */
static inline uint64_t ribbon_directory_len(const struct ribbon *ribbon)
{
    return (uint64_t)RIBBON_ENTRY << ribbon->bits;
}

/* Designs a ribbon for n keys at FPR p. With several partitions, `wide` is somewhat larger than p
 * needs, since wide segments may have more bumped keys. */
void ribbon_design(uint64_t n, double p, struct ribbon *ribbon);

/* If `wide` is not 0, increases it, at most to one more column, until fpr(ctx, ribbon) is at most
 * p. `fpr` must depend on the columns only. */
void ribbon_keep_rate(struct ribbon *ribbon, double p,
                      double (*fpr)(void *ctx, const struct ribbon *ribbon), void *ctx);

/* The FPR that a layer would have with these columns. */
double ribbon_layer_fpr(const struct ribbon *columns, const struct layer *layer,
                        const uint8_t *data);

/* Approximate bytes of data for n keys at p: within 2 %, or 128 bytes. */
uint64_t ribbon_expected_len(uint64_t n, double p);

void ribbon_get_entry(const uint8_t *from, struct ribbon_entry *entry);
void ribbon_put_entry(const struct ribbon_entry *entry, uint8_t *to);

/* ribbon_narrow: the number of narrow segments in a table of `segments` segments. ribbon_words: the
 * words of the first `segments` segments of a table with `narrow` narrow ones. */
uint64_t ribbon_narrow(const struct ribbon *ribbon, uint64_t segments);
uint64_t ribbon_words(const struct ribbon *ribbon, uint64_t narrow, uint64_t segments);

/* Bytes of a table's thresholds: four buckets, of eight segments, take one. */
static inline uint64_t ribbon_thresholds_len(uint64_t segments)
{
    return (segments + 7) / 8;
}

/* Bytes of a block: ribbon_head_len before its segments, ribbon_block_len in total. */
uint64_t ribbon_head_len(const struct ribbon_entry *entry);
uint64_t ribbon_block_len(const struct ribbon *ribbon, const struct ribbon_entry *entry);

/* The part of the filter's FPR that comes from a block. */
double ribbon_block_fpr(const struct ribbon *ribbon, const struct ribbon_entry *entry,
                        const uint8_t *block);

/* The `census` of kind.h. */
void ribbon_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                   struct census *out);

extern struct variants ribbon_variants;

/*
 * ---- Makes ribbon layers: from a keyset (ribbon_build), or from a layer with more columns
 * (ribbon_drop).
 */

/* `build` of kind_ribbon. The columns come from target->layer (ribbon_to),
 * the rest of the geometry from the keys. If bumped keys would raise the FPR above the layer's
 * fpr_design, the layer gets more columns. */
bool ribbon_build(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err);

/* Bytes of memory that a thread needs, without the keyset's parts of RIBBON_LARGEST hashes. */
uint64_t ribbon_build_memory(void);

/* Makes the target layer from a layer with the same keys and more columns. The target's geometry
 * gives the wanted columns. Like ribbon_build, places the blocks and sets the length. Sets *fpr to
 * the FPR of the layer. */
bool ribbon_drop(const struct target *target, const struct layer *from, const uint8_t *data,
                 double *fpr, struct err *err);

#endif
