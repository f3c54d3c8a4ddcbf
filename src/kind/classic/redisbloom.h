/* The Bloom filters of the Redis module RedisBloom (BF.RESERVE, BF.ADD), as BF.SCANDUMP gives them:
 * chains of links. Each link is a layer. */
#ifndef KIND_CLASSIC_REDISBLOOM_H
#define KIND_CLASSIC_REDISBLOOM_H

#include "kind/kind.h"

extern const struct kind kind_redisbloom;

#endif
