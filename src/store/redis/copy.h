/*
 * Private to this folder: a copy of all bitmaps of a filter on this machine, and keys asked of it
 * or added to it. Bits are in the order of Redis: bit x is in byte x / 8, at place 7 - x mod 8.
 *
 *     struct copy c;
 *     if (copy_begin(&c, r, &err) && copy_fetch(&c, r, &err))
 *         copy_ask(&c, r, keys, n, present);
 *     copy_end(&c);
 */
#ifndef STORE_REDIS_COPY_H
#define STORE_REDIS_COPY_H

#include "store/redis/place.h"

struct copy {
    uint8_t **bits; /* of each shard: (m + 7) / 8 bytes */
    unsigned n_shards;
    uint64_t len;
};

/* All bits zero. After failure, too, copy_end is to be called. */
bool copy_begin(struct copy *c, const struct redis *r, struct err *err);
void copy_end(struct copy *c);

/* Copies what is on the server, in chunks. Of keys that are added meanwhile some bits may be there.
 */
bool copy_fetch(struct copy *c, struct redis *r, struct err *err);

/* Sets bit i of present if key i is in. Any number of threads may ask. */
void copy_ask(const struct copy *c, const struct redis *r, struct hashes keys, size_t n,
              uint64_t *present);

/* Adds those of n keys whose bit is not set in `known`; sets the bits of those that were in. Their
 * bits are set in `also`, too, unless that is NULL. set[s] counts the bits that become set in shard
 * s, and new[s] the keys; either can be NULL. */
void copy_add(struct copy *c, struct copy *also, const struct redis *r, struct hashes keys,
              size_t n, uint64_t *known, uint64_t *set, uint64_t *new);

/* How many bits are set in a shard. */
uint64_t copy_count(const struct copy *c, unsigned shard);

#endif
