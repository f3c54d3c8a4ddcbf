/* SPDX-License-Identifier: MIT
 * Plans a counted set (kind_counts) from others, and writes it (assembly.h): the union, difference
 * etc. of their keys, or a copy of one set with narrower fingerprints.
 *
 *     combine_plan(&a, COUNTS_ADD, &parts, 0);        // the caller may then change a.header
 *     if (!combine_write(&a, &err)) ...
 *
 * The new filter takes its design capacity and FPR from the part with the narrowest fingerprints
 * (the first such part), as if the keys of the others had been added to that one.
 */
#ifndef WRITE_COMBINE_H
#define WRITE_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"
#include "write/assembly.h"

/* Is the filter one layer of a kind that counts? */
bool combine_counts(const struct header *h);

/* The width of the narrowest fingerprints of n layers. */
unsigned combine_bits(const struct layer *const *layer, unsigned n);

/* Plans the header, except the fields that depend on the keys, and the layer. The parts are of one
 * kind; keys are prepared and hashed as in the inputs. bits: of a fingerprint; 0: as in the
 * narrowest part. */
void combine_plan(struct assembly *a, enum counts_op op, const struct union_of *parts,
                  unsigned bits);

/* Writes the layer. The counters describe the result. */
bool combine_write(struct assembly *a, struct err *err);

/* The FPR of the result: the chance that an absent key has the fingerprint of a present one. */
double combine_fpr(const struct assembly *a);

/* The part of all fingerprints that parts 1 to n - 1 have; an upper bound if they share keys. */
double combine_taken(const struct assembly *a);

#endif
