/*
 * Checks a whole filter file for damage, and repairs it, for `seen verify`.
 *
 *     struct check c;
 *     if (!check_open(&c, path, repair, threads, &err)) ...
 *     if ((!c.repairs || check_repair(&c, &err)) && check_all(&c, &err))
 *         ... c.n is 0 if the file is sound ...
 *     check_close(&c);
 *
 * Both report progress if the caller has begun it (progress.h).
 */
#ifndef STORE_CHECK_H
#define STORE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/filter.h"

struct check {
    struct filter file;
    unsigned threads;
    bool repairs; /* the file is open for check_repair */
    /* Set by check_repair. */
    bool was_dirty, slot_repaired;
    uint64_t differing; /* pages that had changed since their checksums were made */
    /* Set by check_all. */
    enum filter_health health;
    uint64_t n, offset; /* damage: the number of places, and the first of them in the file */
    char text[200];     /* about that place */
    uint64_t n_pages;   /* of the places, pages */
    bool repairable;    /* all of it may have come from a crash or a failed sync */
    uint64_t unchecked; /* pages that cannot be checked: a writer has touched them */
    bool disagree;      /* the bits hold n_bits keys, but n_counted were counted */
    double n_bits, n_counted;
};

/* With `repair`, opens the file for writing, unless it is immutable: damage to an immutable file
 * cannot be repaired. */
bool check_open(struct check *c, const char *path, bool repair, unsigned threads, struct err *err);

bool check_repair(struct check *c, struct err *err);

/* Fails if the file keeps changing meanwhile. */
bool check_all(struct check *c, struct err *err);

void check_close(struct check *c);

#endif
