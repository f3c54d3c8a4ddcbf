/* SPDX-License-Identifier: MIT
 * Private to this folder: a temporary key, in the slot of another key. It later replaces that key,
 * or its bits are united with that key.
 *
 *     struct temporary t = {0};
 *     if (temporary_name(&t, r, shard, &err) && temporary_write(&t, &bits, &err) &&
 *         temporary_rename(&t, shard, until, &err))                // or temporary_unite
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
    char *key; /* NULL: none */
    size_t key_len;
    uint64_t n_set; /* bits that temporary_write has set */
};

/* Finds a name that nobody else uses. */
bool temporary_name(struct temporary *t, struct redis *r, const struct shard *s, struct err *err);
void temporary_free(struct temporary *t);

/* Begins a command on the key, of `words` words, including the command and the key. */
void temporary_command(struct temporary *t, size_t words, const char *command);

/* A command that may make the key goes between these two. In one transaction the key gets its
 * expiry, so that it never stays if this process is killed. */
void temporary_begin(struct temporary *t);
bool temporary_end(struct temporary *t, enum cluster_repeat repeat, struct err *err);

/* Writes the bytes of a bitmap, in chunks. Chunks of zeroes are left out, except for the last.
 * Bytes of ORDER_LOW_FIRST are written as they are, those of ORDER_HIGH_FIRST with their bits
 * reversed. */
bool temporary_write(struct temporary *t, const struct layout_bits *bits, struct err *err);

/* Determines when the new key of a shard expires: in `expire` seconds or, if that is 0, when the
 * existing key would. *until is in milliseconds since 1970, by the server's clock; 0: never. */
bool temporary_life(struct redis *r, const struct shard *s, uint64_t expire, uint64_t *until,
                    struct err *err);

/* Replaces the shard's key by the temporary key, which then expires at `until`. */
bool temporary_rename(struct temporary *t, const struct shard *s, uint64_t until, struct err *err);

/* Unites its bits with those of the shard's key in one step (MULTI, BITOP OR, EXEC), and deletes
 * it. The shard's key then expires at `until`. Fails if bits of the temporary key were lost: a
 * server that evicts keys, or a replica that takes its master's place, may lack some. */
bool temporary_unite(struct temporary *t, const struct shard *s, uint64_t until, struct err *err);

/* Deletes the key. If that fails, it expires. */
void temporary_drop(struct temporary *t);

#endif
