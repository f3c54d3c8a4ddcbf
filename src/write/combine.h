/* SPDX-License-Identifier: MIT
 * Makes a counted set (kind_counts) from others: the union, difference etc. of their keys, or a
 * copy of one set with narrower fingerprints.
 *
 *     struct combine c = {.op = COUNTS_ADD, .layer = layers, .data = data, .n = n, ...};
 *     combine_header(&c);                             // the caller may then change c.header
 *     if (!combine_write(&c, &file, name, &err)) ...  // the caller commits c.header
 *
 * The new filter takes its design capacity and FPR from the input with the narrowest fingerprints
 * (the first such input), as if the keys of the others had been added to that one.
 */
#ifndef WRITE_COMBINE_H
#define WRITE_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"
#include "file/format.h"
#include "file/newfile.h"

struct combine {
    enum counts_op op;
    const struct layer *const *layer; /* the inputs, of one kind */
    const uint8_t *const *data;
    unsigned n;
    const struct header *keys; /* of one of the inputs: how keys are prepared and hashed */
    unsigned bits;             /* of a fingerprint; 0: as in the narrowest input */
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

/* Makes the header, except the fields that depend on the keys. */
void combine_header(struct combine *c);

/* For a result that replaces an input: copies the input's batch IDs, so that these batches are not
 * applied again (write/change.h). Call it after combine_header. */
void combine_keep_batches(struct combine *c, const struct header *replaced);

/* Writes the layer into the file, called `name` in messages. The counters describe the result. */
bool combine_write(struct combine *c, struct newfile *file, const char *name, struct err *err);

/* The FPR of the result: the chance that an absent key has the fingerprint of a present one. */
double combine_fpr(const struct combine *c);

/* The part of all fingerprints that inputs 1 to n - 1 have; an upper bound if they share keys. */
double combine_taken(const struct combine *c);

#endif
