/* SPDX-License-Identifier: MIT
 * Private to this folder: a temporary key, in the slot of another key. It later replaces that key,
 * or its bits are united with that key.
 *
 *     struct temporary t = {0};
 *     if (temporary_name(&t, r, &key, &err) && temporary_write(&t, &bits, &err) &&
 *         temporary_rename(&t, &key, life, &err))                  // or temporary_unite
 *         ...
 *     else
 *         temporary_drop(&t);
 *     temporary_free(&t);
 */
#ifndef REDIS_TEMPORARY_H
#define REDIS_TEMPORARY_H

#include "redis/place.h"

enum {
    /* Lifetime of a temporary key that could not be deleted. Writing a chunk takes far less. */
    TEMPORARY_MS = 10 * 60 * 1000,
};

struct temporary {
    struct redis *r;
    struct redis_key key; /* name NULL: none */
    uint64_t n_set;       /* bits that temporary_write has set */
};

/* Finds a name in the slot of `key` that nobody else uses. */
bool temporary_name(struct temporary *t, struct redis *r, const struct redis_key *key,
                    struct err *err);
void temporary_free(struct temporary *t);

/* Ends and runs a block that redis_multi began, with a command that may make the key: the key
 * gets its expiry in the same transaction, so that it never stays if this process is killed.
 * Returns the reply to the command, or NULL. */
const struct reply *temporary_exec(struct temporary *t, enum cluster_repeat repeat,
                                   struct err *err);

/* Writes the bytes of a bitmap, in chunks. Chunks of zeroes are left out, except for the last.
 * Bytes of ORDER_LOW_FIRST are written as they are, those of ORDER_HIGH_FIRST with their bits
 * reversed. */
bool temporary_write(struct temporary *t, const struct layout_bits *bits, struct err *err);

/* Replaces the key by the temporary key, which then lives for `life` milliseconds; 0: for ever. */
bool temporary_rename(struct temporary *t, const struct redis_key *key, uint64_t life,
                      struct err *err);

/* Unites its bits with those of the key in one step (MULTI, BITOP OR, EXEC), and deletes it. The
 * key then lives for `life` milliseconds. Fails if bits of the temporary key were lost: a server
 * that evicts keys, or a replica that takes its master's place, may lack some. */
bool temporary_unite(struct temporary *t, const struct redis_key *key, uint64_t life,
                     struct err *err);

/* Deletes the key. If that fails, it expires. */
void temporary_drop(struct temporary *t);

#endif
