/* SPDX-License-Identifier: MIT
 * Layers that are tables of bits: the union of two layers is the or of their bits, their
 * intersection the and. Where a layer is q times as long as another, it folds: the or of each q
 * units that follow each other is one unit of the shorter layer.
 *
 * A kind of such layers has a struct table:
 *
 *     const struct kind kind_name = {.table = &table, .census = table_census, ...};
 *
 * The functions below work on pieces of the tables, with several threads. They add up whole
 * numbers, so the results do not depend on the number of threads.
 */
#ifndef KIND_TABLE_H
#define KIND_TABLE_H

#include "kind/kind.h"

/* The sums over a table's bits: a struct of the kind, of at most this many uint64_t. Zero for no
 * bits. */
enum { TABLE_SUMS = 515 };

struct table {
    size_t unit; /* bytes that fold into one another; a multiple of 8 that divides LAYER_PAGE */

    /* The number of bytes that hold bits, whole units. Other bytes may follow them, and a union
     * copies those of its first part. NULL: all of the layer's data is bits. */
    uint64_t (*len)(const struct layer *layer);

    /* Can the bits of two layers of this kind be or-ed, if necessary after folding? */
    bool (*alike)(const struct layer *a, const struct layer *b);

    /* Makes a layer one of this many units. NULL: layers of this kind do not fold. */
    void (*resize)(struct layer *layer, uint64_t units);

    /* Adds `len` bytes of bits from offset `at` of the layer, whole units, to the sums. */
    void (*tally)(const struct layer *layer, const uint8_t *bits, uint64_t at, size_t len,
                  void *sums);
    void (*add)(void *to, const void *from);

    void (*result)(const struct layer *layer, const void *sums, struct census *out);

    /* The estimated number of keys, for pairs. NAN: too many bits are set. */
    double (*keys)(const struct layer *layer, const void *sums);
    /* The variance of this estimate for n keys: V(n) of overlap.h. */
    double (*variance)(const struct layer *layer, double n);
};

/* The greatest common divisor. */
uint64_t table_divisor(uint64_t a, uint64_t b);

/* Input layers of a union or intersection. */
struct union_of {
    unsigned n;
    const struct layer *const *layer;
    const uint8_t *const *data;
    bool intersect;
};

/* `census` of kind.h. */
void table_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                  struct census *out);

/* The census that the layer would have if it was folded to `folded`. */
void table_census_folded(const struct layer *layer, const uint8_t *data, const struct layer *folded,
                         unsigned threads, struct census *out);

/* A census of the keys of two layers that are alike. False: too many bits are set. */
bool table_pair(const struct layer *const *layer, const uint8_t *const *data, unsigned threads,
                struct pair_census *out);

/* The geometry of the bitwise union (or intersection) of two layers of a kind that unites: that of
 * the shorter one. False if they cannot be united. */
bool table_unite(const struct layer *a, const struct layer *b, struct layer *out);

/* Makes `len` bytes, whole units, of the union of all parts, folded to `layer`, from offset `at`.
 */
void table_make(const struct layer *layer, const struct union_of *parts, uint64_t at, size_t len,
                uint8_t *out);

/* Writes the target layer and takes its census: the union of all parts, with the geometry that
 * table_unite gave, or one part folded. */
bool table_write_union(const struct target *target, const struct union_of *parts,
                       struct census *census, struct err *err);

#endif
