/*
 * Filters in Redis: bitmaps of other programs' layouts, under an address (redis/uri.h) with the
 * layout in it. Commands use them through store.h.
 *
 * Keys are asked for and added in batches, one pipeline each. A key's bits are read, or read and
 * set, by one command, which Redis carries out as a whole. So of several processes that add one key,
 * on whatever machines, one alone is told that it was new.
 *
 * A connection that is lost between sending and answer leaves a batch of which nobody knows which
 * keys were new; what is known of its first keys is told, and adding fails. If the caller does not
 * rely on what was new, the batch is sent again. What a server has answered is what is promised: how
 * well it keeps that is its own affair.
 */
#ifndef STORE_REDIS_H
#define STORE_REDIS_H

#include "store/store.h"

struct store *redis_open(const char *name, enum store_mode mode, struct err *err);

#endif
