/*
 * Private to this folder: unites bitmaps in temporary keys with those of shards, each in one step
 * (MULTI, BITOP OR, EXEC), which can also return the previous contents. The shard keeps its time to
 * live. The step counts the bits of the temporary key, since a server that evicts keys, or a
 * replica that takes its master's place, may have lost some. The temporary key is not deleted.
 *
 *     requests_clear(&r->rq);
 *     unite_queue(&temporary, shard, until, true);      // for each; until: by temporary_life
 *     redis_run(r, CLUSTER_ONCE, &err)
 *     unite_take(&temporary, shard, 0, n, &before, &err) // for each: its n replies, from 0 on
 */
#ifndef STORE_REDIS_UNITE_H
#define STORE_REDIS_UNITE_H

#include "store/redis/temporary.h"

/* Appends the commands of a step, REDIS_STEP at most; returns their number. `tell`: the previous
 * contents are wanted. `until`: when the shard's key expires; 0: never. */
size_t unite_queue(struct temporary *t, const struct shard *s, uint64_t until, bool tell);

/* Takes the replies to a step of n commands, which begin at r->replies[at]. *before becomes the
 * previous contents; before is NULL if they were not wanted. Fails if the step was not executed, if
 * the bitmap was replaced by a shorter one, or if bits of the temporary key were lost. */
bool unite_take(struct temporary *t, struct shard *s, size_t at, size_t n,
                const struct reply **before, struct err *err);

#endif
