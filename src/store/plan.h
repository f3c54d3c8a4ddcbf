/*
 * What a filter for given wishes comes to, before anything is written: `seen plan`, and what
 * `seen create` goes by.
 *
 *     struct plan plan = {.kind = &kind_bloom, .n = n, .p = p, .size = size};      // 0: not given
 *     if (!plan_solve(&plan, &err)) ...
 *     plan_layer(&plan, &layer);
 */
#ifndef STORE_PLAN_H
#define STORE_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "kind/bloom/bloom.h"
#include "store/format.h"

struct plan {
    const struct kind
        *kind; /* NULL: as with Bloom, but what only other kinds can do is possible too */
    uint64_t n;              /* distinct keys */
    double p;                /* design FPR */
    uint64_t size;           /* bytes that the file may take */
    struct bloom bloom;      /* no pages: there is none for n and p */
};

#define PLAN_FPR 0.001 /* where none is asked for */

/* Solves for n or p, whichever is 0, from the other and size; with n alone or size alone, p is
 * PLAN_FPR. Fails on wishes that contradict each other or that nothing can fulfil, and says what
 * would be needed. */
bool plan_solve(struct plan *plan, struct err *err);

/* The file of a solved plan: the feature bits and layer of its header; data_len and file_len of a
 * kind whose length depends on the keys are about right. */
void plan_header(const struct plan *plan, struct header *header);

/* Bytes of that file: header, checksums and all. */
uint64_t plan_file_len(const struct plan *plan);

/* A table with a row for each kind of filter, or one JSON object, of a solved plan. */
void plan_show(const struct plan *plan, bool json, FILE *out);

#endif
