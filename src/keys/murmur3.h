/*
 * MurmurHash3 x64 128, which some other programs use: a hash function of two lanes. Lane 0 is the
 * first eight bytes of its output as a little-endian number, lane 1 the last eight. Both halves of
 * the state begin with the 64-bit seed; the reference allows only seeds below 2^32.
 */
#ifndef KEYS_MURMUR3_H
#define KEYS_MURMUR3_H

#include "keys/hash.h"

extern const struct hash_fn hash_murmur3_128;

#endif
