/*
 * The size of a filter of one layer, before anything is written: solves wishes about capacity, rate
 * and size for what is missing.
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
    uint64_t size;      /* bytes that the file may take */
    struct layer layer; /* for n keys at p; data_len may be an estimate (kind->size) */
};

#define PLAN_FPR 0.001 /* where none is asked for */

/* Solves for n or p, whichever is 0, from the other and size; with n alone or size alone, p is
 * PLAN_FPR. Fails on wishes that contradict each other or that nothing can fulfil, and says what
 * would be needed. */
bool plan_solve(struct plan *plan, struct err *err);

/* Bytes of the file: header, checksums and all. */
uint64_t plan_file_len(const struct plan *plan);

#endif
