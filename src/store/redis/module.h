/*
 * Private to this folder: filters of the Bloom module of a Redis server (RedisBloom), of layouts
 * with layout->module. The module hashes and grows; it is sent the keys themselves.
 *
 *     BF.SCANDUMP key 0                     what it is: the layout's header, some 100 bytes
 *     BF.MEXISTS key item ...               which are in
 *     BF.INSERT key NOCREATE ITEMS item ... adds, and tells which were not in
 *
 * BF.MADD would make a filter of the module's own if there is none (any more), so it is not used. A
 * command is carried out as a whole, so of several processes that add one key, one alone is told
 * that it was new.
 *
 * Bits come and go by BF.SCANDUMP and BF.LOADCHUNK: the bits of all links are one sequence of
 * bytes, and an iterator is 1 + the offset in it. BF.SCANDUMP answers with the iterator behind what
 * it returns, which is no more than the link's rest; BF.LOADCHUNK takes the iterator behind its
 * bytes, which are of one link.
 */
#ifndef STORE_REDIS_MODULE_H
#define STORE_REDIS_MODULE_H

#include "store/redis/place.h"
#include "store/redis/redis.h"

/* Does the address say that the filter is of that layout? */
bool module_is_meant(const struct redis *r);

/* Opens the filter. */
bool module_open(struct redis *r, struct err *err);

/* Makes the filter that `filter` describes, as layout->design does, by BF.RESERVE. If anything is
 * there it stays, and *made is false. */
bool module_create(struct redis *r, const struct layout_filter *filter, bool *made,
                   struct err *err);

/* Asks what is there. *there: anything at all; else *filter is not set. The reply is
 * r->replies[0]. */
bool module_look(struct redis *r, struct layout_filter *filter, bool *there, struct err *err);

/* The bytes in a reply to BF.SCANDUMP; NULL: it is another. */
const struct reply *module_chunk(const struct reply *reply);

/* Does it say that the key is not there? */
bool module_is_missing(const struct reply *reply);

/* Fails with what the reply says, which is not what was expected. */
bool module_refused(const struct redis *r, const struct reply *reply, struct err *err);

/* As redis_pull and redis_push (redis.h); data[i] is layer i. */
bool module_pull(struct redis *r, struct layout_filter *filter, struct layout_bits *bits,
                 struct err *err);
bool module_push(struct redis *r, const struct layout_filter *filter, const uint8_t *const *data,
                 const struct redis_push *options, struct err *err);

#endif
