/* SPDX-License-Identifier: MIT
 * Plans the union or the intersection of filters, and writes it (assembly.h).
 */
#ifndef WRITE_UNITE_H
#define WRITE_UNITE_H

#include <stdbool.h>

#include "base/err.h"
#include "write/assembly.h"

/* The layers of a union, at most. The eleven others that a file can have are for further keys: 170
 * times as many (1.6^11). */
enum { UNITE_LAYERS = 31 };

/* The result may exceed the sum of the inputs' design rates by this factor: the random spread of
 * bits, not more keys. */
#define UNITE_FPR_SLACK 1.01

/* Unites the layers of all inputs where they fit each other; the others become layers of their own.
 * If the rate of the result is above `limit`, those that are too full together stay layers of their
 * own, too. The result does not forget. It grows if an input does. `intersect`: each input is one
 * layer, all of one size; bits that all have are kept. */
bool unite_inputs(struct assembly *a, bool intersect, double limit, struct err *err);

#endif
