/*
 * Hashes of one or two lanes in one array: the lanes of a hash lie side by side, so hash i begins
 * at a[i * lanes]. They are in the order of their first lanes, and equal ones in that of the second.
 *
 * For sort.c, distinct.c and keyset*.c, which have loops that run for every key. Such a loop is
 * written once, in a function that is LANES_INLINE and has a parameter `lanes`; this is called with
 * a constant 1 or 2, so each case is compiled for itself.
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
