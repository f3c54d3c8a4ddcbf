/*
 * Private to this folder: queries and adds keys by commands for each key, in pipelined batches.
 */
#ifndef STORE_REDIS_LIVE_H
#define STORE_REDIS_LIVE_H

#include "store/redis/place.h"

/* Sets bit i of present if key i is in. */
bool live_ask(struct redis *r, struct hashes keys, size_t n, uint64_t *present, struct err *err);

/* Adds some of the keys [*done, n), as store_add. */
enum add_result live_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                         size_t *done, struct err *err);

#endif
