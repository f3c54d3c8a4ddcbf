/* SPDX-License-Identifier: MIT
 * Filters in Redis: bitmaps in other programs' layouts. The address (redis/uri.h) names the layout.
 * Commands use them through store.h.
 *
 * Keys are queried and added in batches, one pipeline each. A key's bits are read, or read and set,
 * by one atomic command. So of several processes that add the same key, on any machines, only one
 * is told that it was new.
 *
 * If a connection is lost between request and reply, it is unknown which keys of the batch were
 * new. None of them is reported as added, and adding fails. If the caller does not rely on which
 * keys were new, the batch is sent again. A key is acknowledged when the server has replied;
 * whether the server loses it later depends on the server.
 *
 * Filters of the Bloom module of a server (layout->reserve) are queried and added to in the same
 * way.
 */
#ifndef REDIS_REDIS_H
#define REDIS_REDIS_H

#include "store/store.h"

/* What store.c calls through store_servers; see store.h. */
struct store *redis_open(const char *name, enum store_mode mode, const struct open_options *options,
                         struct err *err);
struct store *redis_prepare(const char *name, const struct store_plan *plan,
                            const struct open_options *options, bool *there, struct err *err);

/* If pushing fails, the temporary key is deleted; if that fails too, it expires. */
bool redis_pull(const char *name, const struct open_options *options, struct layout_filter *filter,
                struct layout_bits *bits, struct err *err);
bool redis_push(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                const struct store_push *options, struct err *err);

#endif
