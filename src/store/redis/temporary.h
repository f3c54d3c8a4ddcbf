/*
 * Private to this folder: a temporary key, in the slot of another key. It later replaces that key,
 * or its bits are united with that key.
 *
 *     struct temporary t = {0};
 *     if (temporary_name(&t, r, shard, &err) && temporary_write(&t, &bits, &err) &&
 *         ... commands with temporary_command, temporary_key ... )
 *         ...
 *     else
 *         temporary_drop(r, &t, 1);
 *     temporary_free(&t);
 */
#ifndef STORE_REDIS_TEMPORARY_H
#define STORE_REDIS_TEMPORARY_H

#include "store/redis/place.h"

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

/* Appends the key to a command as a further word. */
void temporary_key(struct temporary *t);

/* A command that may make the key goes between these two. In one transaction the key gets its
 * expiry, so that it never stays if this process is killed. */
void temporary_begin(struct temporary *t);
bool temporary_end(struct temporary *t, enum cluster_repeat repeat, struct err *err);

/* Writes the bytes of a bitmap, in chunks. Chunks of zeroes are left out, except for the last.
 * Bytes of ORDER_LOW_FIRST are written as they are, those of ORDER_HIGH_FIRST with their bits
 * reversed. */
bool temporary_write(struct temporary *t, const struct layout_bits *bits, struct err *err);

/* Takes the reply to BITCOUNT. Fails if bits that temporary_write has set are missing. */
bool temporary_whole(const struct temporary *t, const struct reply *count, struct err *err);

/* Determines when the new key of a shard expires: in `expire` seconds or, if that is 0, when the
 * existing key would. *until is in milliseconds since 1970, by the server's clock; 0: never. */
bool temporary_life(struct redis *r, const struct shard *s, uint64_t expire, uint64_t *until,
                    struct err *err);

/* Replaces the shard's key by the temporary key, which then expires at `until`. */
bool temporary_rename(struct temporary *t, const struct shard *s, uint64_t until, struct err *err);

/* Deletes n keys, NULL for none. If that fails, or takes longer than a few seconds, they expire. */
void temporary_drop(struct redis *r, struct temporary *t, size_t n);

/* ---- Unites bitmaps in temporary keys with those of shards, each in one step
 * (MULTI, BITOP OR, EXEC), which can also return the previous contents. The shard keeps its time to
 * live. The step counts the bits of the temporary key, since a server that evicts keys, or a
 * replica that takes its master's place, may have lost some. The temporary key is not deleted.
 *
 *     requests_clear(&r->rq);
 *     unite_queue(&temporary, shard, until, true);      // for each; until: by temporary_life
 *     redis_run(r, CLUSTER_ONCE, &err)
 *     unite_take(&temporary, shard, 0, n, &before, &err) // for each: its n replies, from 0 on */

/* Appends the commands of a step, REDIS_STEP at most; returns their number. `tell`: the previous
 * contents are wanted. `until`: when the shard's key expires; 0: never. */
size_t unite_queue(struct temporary *t, const struct shard *s, uint64_t until, bool tell);

/* Takes the replies to a step of n commands, which begin at r->replies[at]. *before becomes the
 * previous contents; before is NULL if they were not wanted. Fails if the step was not executed, if
 * the bitmap was replaced by a shorter one, or if bits of the temporary key were lost. */
bool unite_take(struct temporary *t, struct shard *s, size_t at, size_t n,
                const struct reply **before, struct err *err);

#endif
