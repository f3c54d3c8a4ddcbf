/*
 * Makes a file of counted sets (kind_counts) from others: the union, the difference and so on of
 * their keys, or one set with narrower fingerprints.
 *
 *     struct combine c = {.op = COUNTS_ADD, .layer = layers, .data = data, .n = n, ...};
 *     combine_header(&c);                             // the caller may then change c.header
 *     if (!combine_write(&c, &file, name, &err)) ...  // the caller commits
 *
 * The new filter is like the input with the narrowest fingerprints, the first of those, as if the
 * keys of the others had been added to that: it has its design capacity and rate.
 */
#ifndef STORE_COMBINE_H
#define STORE_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"
#include "store/filter.h"
#include "store/format.h"
#include "store/newfile.h"

struct combine {
    enum counts_op op;
    const struct layer *const *layer; /* the inputs, of one kind */
    const uint8_t *const *data;
    unsigned n;
    const struct header *keys; /* of one of the inputs: how keys are prepared and hashed */
    unsigned bits;             /* of fingerprints; 0: as many as the narrowest input has */
    unsigned threads;
    bool reproducible;
    /* Results. */
    struct header header;
    struct counts_seen seen;
};

/* Is the filter one layer of a kind that counts? */
bool combine_counts(const struct header *h);

/* The width of the narrowest fingerprints of n layers. */
unsigned combine_bits(const struct layer *const *layer, unsigned n);

/* Makes the header, but for what depends on the keys. */
void combine_header(struct combine *c);

/* For a file that takes the place of an input: the batches that were applied to this are not to be
 * applied to the result (store/change.h). After combine_header. */
void combine_keep_batches(struct combine *c, const struct header *replaced);

/* Writes all of the file, which is `name` in messages. Counters are the numbers of the result. */
bool combine_write(struct combine *c, struct newfile *file, const char *name, struct err *err);

/* The FPR of the result: the chance that an absent key has the fingerprint of a present one. */
double combine_fpr(const struct combine *c);

#endif
