/* XXH64 of the xxHash library: the hash function of Apache Parquet's split-block Bloom filters. */
#ifndef KEYS_XXH64_H
#define KEYS_XXH64_H

#include "keys/hash.h"

extern const struct hash_fn hash_xxh64;

#endif
