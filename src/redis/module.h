/* SPDX-License-Identifier: MIT
 * Private to this folder: filters of the Bloom module of a Redis server (RedisBloom), in layouts
 * with layout->reserve. The module hashes the keys and grows the filter; it is sent the keys
 * themselves.
 *
 *     BF.SCANDUMP key 0                     returns the layout's header, some 100 bytes
 *     BF.MEXISTS key item ...               tells which items are in
 *     BF.INSERT key NOCREATE ITEMS item ... adds items, and tells which were not in
 *
 * A module without BF.SCANDUMP (valkey-bloom) is asked BF.INFO in its place: it describes the
 * filter as well, but nothing gives out its bits.
 *
 * BF.MADD is not used: if the filter does not exist (any more), it would make one with the module's
 * defaults. Commands are atomic, so of several processes that add the same key, only one is told
 * that it was new.
 *
 * Bits are read by BF.SCANDUMP and written by BF.LOADCHUNK. The bits of all links (the module's
 * layers) are one sequence of bytes. An iterator is 1 + an offset in it. BF.SCANDUMP returns bytes
 * up to the end of a link at most, and the iterator after them. BF.LOADCHUNK takes bytes of one
 * link, and the iterator after them.
 */
#ifndef REDIS_MODULE_H
#define REDIS_MODULE_H

#include "redis/place.h"
#include "redis/redis.h"
#include "redis/temporary.h"

/* Opens the filter. *there: the key exists. If `there` is NULL, it must. */
bool module_open(struct redis *r, bool *there, struct err *err);

/* Makes the filter that `filter` describes (layout->design), by BF.RESERVE, unless it exists. */
bool module_create(struct redis *r, const struct layout_filter *filter, struct err *err);

/* Reads the header of the filter. *there: the key exists; if it does not, *filter is not set. The
 * reply is r->replies[0]. */
bool module_look(struct redis *r, struct layout_filter *filter, bool *there, struct err *err);

/* The calls of a store, for such a filter; r->lock is held. module_add adds some of the keys
 * [*done, n); module_check is for the end. */
bool module_ask(struct redis *r, struct hashes keys, size_t n, uint64_t *present, struct err *err);
bool module_census(struct redis *r, unsigned threads, struct census *layer, struct census *all,
                   struct err *err);
bool module_check_options(const struct redis *r, struct err *err);
enum add_result module_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err);
bool module_check(struct redis *r, struct err *err);

/* As redis_pull. */
bool module_pull(struct redis *r, struct layout_filter *filter, struct layout_bits *bits,
                 struct err *err);

/* A key that is there, which will be replaced, must be a filter of the module. Then writes the
 * filter to a temporary key; data[i] is layer i. */
bool module_may_push(struct redis *r, bool merge, struct err *err);
bool module_write(struct temporary *t, const struct layout_filter *filter,
                  const uint8_t *const *data, struct err *err);

#endif
