/*
 * Private to this folder: a local copy of all bitmaps of a filter, which is searched for keys, or
 * to which keys are added. Bits are in the order of Redis: bit x is in byte x / 8, at place
 * 7 - x mod 8.
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

/* All bits are zero at first. copy_end must be called, also after a failure. */
bool copy_begin(struct copy *c, const struct redis *r, struct err *err);
void copy_end(struct copy *c);

/* Copies the bitmaps from the server, in chunks. Of keys that are added meanwhile, some bits may be
 * included. */
bool copy_fetch(struct copy *c, struct redis *r, struct err *err);

/* Sets bit i of present if key i is in. Any number of threads may ask. */
void copy_ask(const struct copy *c, const struct redis *r, struct hashes keys, size_t n,
              uint64_t *present);

/* Adds those of n keys whose bit is not set in `known`. Sets the bits in `known` of keys that were
 * already in. Sets set[s] to the number of bits that became set in shard s, and new[s] to the
 * number of new keys. */
void copy_add(struct copy *c, const struct redis *r, struct hashes keys, size_t n, uint64_t *known,
              uint64_t *set, uint64_t *new);

/* Are these k bits of a shard set? */
bool copy_has(const struct copy *c, const struct redis *r, unsigned shard,
              const uint64_t *position);

/* How many bits are set in a shard. */
uint64_t copy_count(const struct copy *c, unsigned shard);

#endif
