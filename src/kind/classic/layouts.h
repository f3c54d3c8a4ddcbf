/* The layouts of other programs in this folder, one in each file. */
#ifndef KIND_CLASSIC_LAYOUTS_H
#define KIND_CLASSIC_LAYOUTS_H

#include "kind/kind.h"

/* The filters of DCSO's bloom (github.com/DCSO/bloom, release 0.2.4). */
extern const struct kind kind_dcso;

/* go-zero's Bloom filter (core/bloom), a bitmap in Redis. */
extern const struct kind kind_gozero;

/* Guava's BloomFilter, as its writeTo writes it (com.google.common.hash, release 31.1). */
extern const struct kind kind_guava;

/* The Bloom filter of a PHP class, a bitmap in Redis. */
extern const struct kind kind_php;

/* The Bloom filters of the Redis module RedisBloom (BF.RESERVE, BF.ADD), as BF.SCANDUMP gives them:
 * chains of links. Each link is a layer. */
extern const struct kind kind_redisbloom;

/* Redisson's RBloomFilter, a bitmap in Redis. */
extern const struct kind kind_redisson;

#endif
