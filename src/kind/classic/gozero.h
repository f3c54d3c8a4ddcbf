/* go-zero's Bloom filter (core/bloom), a bitmap in Redis. */
#ifndef KIND_CLASSIC_GOZERO_H
#define KIND_CLASSIC_GOZERO_H

#include "kind/kind.h"

extern const struct kind kind_gozero;

#endif
