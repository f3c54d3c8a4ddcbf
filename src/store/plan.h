/*
 * Plans a filter of one layer before anything is written. From the given values of capacity, FPR
 * and file size, computes the missing ones.
 *
 *     struct plan plan = {.kind = kind_usual(), .n = n, .p = p, .size = size};    // 0: not given
 *     if (!plan_solve(&plan, &err)) ...
 *     ... plan.n, plan.p, plan.layer, plan_file_len(&plan) ...
 */
#ifndef STORE_PLAN_H
#define STORE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"

struct plan {
    const struct kind *kind;
    uint64_t n;         /* distinct keys */
    double p;           /* design FPR */
    uint64_t size;      /* limit for the file, in bytes */
    struct layer layer; /* for n keys at p; data_len may be an estimate (kind->size) */
};

/* Computes n or p, whichever is 0, from the other one and size. With n alone or size alone, p is
 * LAYER_FPR. Fails if the values contradict each other or cannot be achieved; the error says what
 * would be needed. */
bool plan_solve(struct plan *plan, struct err *err);

/* The FPR of n keys (at least 1) if only their 64-bit hashes are stored: n / 2^64. */
double plan_least_fpr(uint64_t n);

/* Bytes of the whole file, including header and checksums. */
uint64_t plan_file_len(const struct plan *plan);

#endif
