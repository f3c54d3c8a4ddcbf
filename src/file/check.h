/* SPDX-License-Identifier: MIT
 * Checks a whole filter file for damage, for `seen verify`.
 *
 *     struct check c = {.threads = threads};
 *     if (!filter_open(&c.file, path, FILTER_READ, &err)) ...
 *     if (check_all(&c, &err))
 *         ... c.n is 0 if the file is sound ...
 *     filter_close(&c.file);
 *
 * Reports progress if the caller has begun it (progress.h).
 */
#ifndef FILE_CHECK_H
#define FILE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/filter.h"

struct check {
    struct filter file;
    unsigned threads;
    /* Set by check_all. */
    enum filter_health health;
    uint64_t n, offset; /* damage: the number of places, and the first of them in the file */
    char text[200];     /* about that place */
    uint64_t n_pages;   /* of the places, pages */
    bool repairable;    /* the file is dirty, or was left, and nothing else is wrong with it */
    uint64_t unchecked; /* pages that cannot be checked: a writer has touched them */
    bool disagree;      /* the bits hold n_bits keys, but n_counted were counted */
    double n_bits, n_counted;
};

/* Fails if the file keeps changing meanwhile. */
bool check_all(struct check *c, struct err *err);

#endif
