/* The Bloom filter of a PHP class, a bitmap in Redis. */
#ifndef KIND_CLASSIC_PHP_H
#define KIND_CLASSIC_PHP_H

#include "kind/kind.h"

extern const struct kind kind_php;

#endif
