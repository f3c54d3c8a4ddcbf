/*
 * The keys that a run has put into a file, in case another file takes its place: which of them does
 * the new file lack? The hashes of the first of them are kept, up to KEPT_BYTES. Repeats are
 * removed when that is full of them.
 *
 *     struct kept k = {.lanes = fn->lanes};
 *     kept_before(&k, known, n);                    // the keys whose bit is clear are to be added
 *     ... add them; the first `done` are in the file now ...
 *     kept_after(&k, keys, done);
 *     kept_count(&k, &filter, &n_lacking, &err);    // of k.n distinct keys, and k.n_more others
 *     kept_free(&k);
 */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "store/filter.h"

enum { KEPT_BYTES = 16 << 20 };

struct kept {
    unsigned lanes;
    uint64_t n;      /* keys kept, repeats included until kept_count */
    uint64_t n_more; /* keys not kept, repeats included */
    /* Private. */
    uint64_t *hash; /* key i is hash[i * lanes] and what follows */
    size_t room;
    uint64_t *known; /* of kept_before */
    size_t known_room;
    bool full; /* no more room can be made */
};

/* Notes which of the next n keys are not to be added: those whose bit is set. */
void kept_before(struct kept *k, const uint64_t *known, size_t n);

/* Keeps the first `done` of these keys, except those. */
void kept_after(struct kept *k, struct hashes keys, size_t done);

/* How many of the kept keys does the filter lack? Fails if it is damaged. */
bool kept_count(struct kept *k, struct filter *f, uint64_t *n_lacking, struct err *err);

void kept_free(struct kept *k);

#endif
