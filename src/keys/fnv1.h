/* FNV-1 of 64 bits (Fowler, Noll and Vo; RFC 9923): the hash function of the Bloom filters of the
 * repository DCSO/bloom. The seed is ignored. */
#ifndef KEYS_FNV1_H
#define KEYS_FNV1_H

#include "keys/hash.h"

extern const struct hash_fn hash_fnv1_64;

#endif
