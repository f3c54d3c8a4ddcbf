/* SPDX-License-Identifier: MIT
 * When hardly any of the first keys that are asked is in a filter: in what do they differ from its
 * keys, and which option fits? Differences from the filter's profile (keys/profile.h) propose other
 * forms of the keys, the filter is asked for these, and what it has is proof. A difference that is
 * clear enough for the number of keys is told without proof; others are not.
 *
 *     struct mismatch m = {.rule = &keyopt.rule};
 *     mismatch_take(&m, chunk);         // until MISMATCH_KEYS, or the end
 *     m.found = ...;
 *     if (mismatch_finds_few(&m)) mismatch_note(&m, store);
 */
#ifndef CMD_MISMATCH_H
#define CMD_MISMATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "keys/batch.h"
#include "keys/profile.h"
#include "keys/source.h"
#include "store/store.h"

enum {
    MISMATCH_KEYS = BATCH_MAX, /* the first keys: those of a batch */
    MISMATCH_TRIED = 16,       /* of them, other forms are asked for, ... */
    MISMATCH_LEN = 1000,       /* ... if they have at most this many bytes */
};

struct mismatch_key {
    size_t len;
    char text[MISMATCH_LEN];
};

struct mismatch {
    const struct key_rule *rule; /* of the command, as adopted from the filter */
    struct profile asked;
    unsigned found; /* of these keys; set by the caller */
    /* The rest is private. */
    unsigned n_tried;
    struct mismatch_key key[MISMATCH_TRIED];
};

/* Takes the records of the next chunk, up to MISMATCH_KEYS. Takes none of keys that are secret, or
 * are digits or digests: these have no form of their own. */
void mismatch_take(struct mismatch *m, const struct chunk *chunk);

/* Are so few of the keys in the filter that it may be by chance? */
bool mismatch_finds_few(const struct mismatch *m);

/* Prints one note, or none, if the keys differ from those of the filter, which has hardly any of
 * them. Call it between store_enter and store_leave. True: it has. */
bool mismatch_note(struct mismatch *m, struct store *s);

/* Were these records cut in another way than the filter's keys, differ from them, and would fit if
 * they were cut as these? Then *err says so, and the options. */
bool mismatch_recut(struct mismatch *m, const struct store *s, const struct chunk *chunk,
                    struct err *err);

#endif
