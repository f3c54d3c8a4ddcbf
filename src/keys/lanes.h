/*
 * Hashes of one or two lanes in one array. The lanes of a hash lie side by side: hash i begins at
 * a[i * lanes]. Hashes are ordered by the first lane, then by the second.
 *
 * For sort.c, distinct.c and keyset*.c. A loop over all hashes is written once, in a LANES_INLINE
 * function with a parameter `lanes`. Its callers pass a constant 1 or 2, so that the compiler makes
 * a separate loop for each.
 */
#ifndef KEYS_LANES_H
#define KEYS_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/hash.h"

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE void lanes_copy(uint64_t *to, const uint64_t *from, unsigned lanes)
{
    to[0] = from[0];
    if (lanes > 1)
        to[1] = from[1];
}

LANES_INLINE bool lanes_equal(const uint64_t *a, const uint64_t *b, unsigned lanes)
{
    return a[0] == b[0] && (lanes == 1 || a[1] == b[1]);
}

LANES_INLINE bool lanes_below(const uint64_t *a, const uint64_t *b, unsigned lanes)
{
    return a[0] < b[0] || (lanes > 1 && a[0] == b[0] && a[1] < b[1]);
}

#endif
