/*
 * Private to this folder: unites bitmaps that have been written to temporary keys with those of
 * shards, each in one step (MULTI, BITOP OR, EXEC), which also tells what was there before. A time
 * to live is kept. The step counts the bits of the temporary key: a server that evicts keys, or a
 * replica that takes its master's place, may have lost some. The temporary key stays.
 *
 *     requests_clear(&r->rq);
 *     unite_queue(&temporary, shard, until, true);      // for each; until: by temporary_life
 *     redis_run(r, CLUSTER_ONCE, &err)
 *     unite_take(&temporary, shard, 0, n, &before, &err) // for each: its n replies, from 0 on
 */
#ifndef STORE_REDIS_UNITE_H
#define STORE_REDIS_UNITE_H

#include "store/redis/temporary.h"

/* Appends the commands of a step, REDIS_STEP at most; returns how many. `tell`: what was there
 * before is wanted. `until`: when the key is to expire; 0: never. */
size_t unite_queue(struct temporary *t, const struct shard *s, uint64_t until, bool tell);

/* Takes the replies to a step of n commands, which are r->replies[at] on. *before is what was
 * there, or NULL if that was not wanted. Fails if the step was not carried out, or on another
 * bitmap, or without some of the bits. */
bool unite_take(struct temporary *t, struct shard *s, size_t at, size_t n,
                const struct reply **before, struct err *err);

#endif
