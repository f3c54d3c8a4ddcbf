/*
 * Private to this folder: the Redis hash beside a bitmap, in which some libraries store the
 * configuration of the filter (layout_redis.fields).
 */
#ifndef STORE_REDIS_CONFIG_H
#define STORE_REDIS_CONFIG_H

#include "store/redis/place.h"

/* The key of a shard's configuration, for free(); NULL: no memory. */
char *config_key(const struct layout_redis *layout, const struct shard *s, size_t *len);

/* Appends the command that writes a filter's configuration to that key. */
void config_write(struct requests *rq, const struct layout_filter *filter, const char *key,
                  size_t key_len);

#endif
