/* SPDX-License-Identifier: MIT
 * Plans a smaller copy of a filter, without its keys, and writes it (assembly.h).
 */
#ifndef WRITE_SHRINK_H
#define WRITE_SHRINK_H

#include <stdbool.h>

#include "base/err.h"
#include "write/assembly.h"

/* Makes the one input smaller, at a rate of at most p with its present keys; 0: its design rate.
 * Checks the input first.
 *
 * Folds each Bloom layer into the fewest pages with which all layers together keep the rate, each
 * its share. A layer for which there is no such size stays as it is; so do layers of other kinds.
 * Of compact filters and counted sets, drops bits of fingerprints; p is divided among the layers.
 */
bool shrink_input(struct assembly *a, double p, struct err *err);

#endif
