/* SPDX-License-Identifier: MIT
 * Counts the keys that two filters share.
 *
 *     struct compared result;
 *     if (assembly_inputs(&m, paths, 2, "compared", &err) && assembly_check_sound(&m, &err) &&
 *         compare_inputs(&m, &result, &err)) ...              // m.out is NULL
 */
#ifndef WRITE_COMPARE_H
#define WRITE_COMPARE_H

#include <stdbool.h>

#include "base/err.h"
#include "kind/kind.h"
#include "kind/overlap.h"
#include "write/assembly.h"

struct compared {
    const struct kind *kind; /* of both */
    struct overlap overlap;
    bool exact; /* neither `overlap` nor seen.total_smaller is an estimate */
    /* For counted sets only. */
    unsigned bits; /* of a fingerprint; 0: not counted sets */
    struct counts_seen seen;
};

/* Fails if the two cannot be compared. */
bool compare_inputs(const struct assembly *m, struct compared *result, struct err *err);

#endif
