/* Guava's BloomFilter, as its writeTo writes it (com.google.common.hash, release 31.1). */
#ifndef KIND_CLASSIC_GUAVA_H
#define KIND_CLASSIC_GUAVA_H

#include "kind/kind.h"

extern const struct kind kind_guava;

#endif
