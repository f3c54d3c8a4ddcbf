/*
 * Hashes of 1 to LANES_MOST lanes in one array. The lanes of a hash lie side by side: hash i begins
 * at a[i * lanes]. Hashes are ordered by the first lane, then by the second, and so on.
 *
 * For sort.c and keyset*.c. A loop over all hashes is written once, in a LANES_INLINE
 * function with a parameter `lanes`. Callers pass a constant 1 or 2, for which the compiler makes
 * separate loops, or else the number of lanes.
 */
#ifndef KEYS_LANES_H
#define KEYS_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/hash.h"

#define LANES_INLINE static inline __attribute__((always_inline))

/* A keyset rounds the number of lanes up to a power of two. */
enum { LANES_MOST = 16 };
_Static_assert((int)HASH_LANES <= (int)LANES_MOST, "hash.h");

LANES_INLINE void lanes_copy(uint64_t *to, const uint64_t *from, unsigned lanes)
{
    to[0] = from[0];
    for (unsigned l = 1; l < lanes; l++)
        to[l] = from[l];
}

LANES_INLINE bool lanes_equal(const uint64_t *a, const uint64_t *b, unsigned lanes)
{
    uint64_t differ = a[0] ^ b[0];
    for (unsigned l = 1; l < lanes; l++)
        differ |= a[l] ^ b[l];
    return differ == 0;
}

LANES_INLINE bool lanes_below(const uint64_t *a, const uint64_t *b, unsigned lanes)
{
    unsigned l = 0;
    while (l + 1 < lanes && a[l] == b[l])
        l++;
    return a[l] < b[l];
}

#endif
