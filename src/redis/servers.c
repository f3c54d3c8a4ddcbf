/* SPDX-License-Identifier: MIT */
#include "redis/redis.h"

#define NEEDS "hiredis (on Debian, install libhiredis-dev and build it again)"

/* Without hiredis, the functions are not built. */
#ifdef SEEN_HIREDIS
#define REDIS NEEDS, redis_open, redis_prepare, redis_pull, redis_push
#else
#define REDIS NEEDS, NULL, NULL, NULL, NULL
#endif

const struct store_place store_servers[] = {{"redis://", REDIS},      {"rediss://", REDIS},
                                            {"redis+unix://", REDIS}, {"redis-socket://", REDIS},
                                            {"unix://", REDIS},       {.prefix = NULL}};
