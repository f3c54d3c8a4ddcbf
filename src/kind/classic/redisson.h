/* Redisson's RBloomFilter, a bitmap in Redis. */
#ifndef KIND_CLASSIC_REDISSON_H
#define KIND_CLASSIC_REDISSON_H

#include "kind/kind.h"

extern const struct kind kind_redisson;

#endif
