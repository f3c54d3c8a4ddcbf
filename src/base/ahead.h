/* SPDX-License-Identifier: MIT
 * Prefetching: tells the CPU which memory will be read soon.
 *
 * gcc removes calls of functions that only prefetch, unless they are forced inline: declare such
 * functions AHEAD_INLINE.
 */
#ifndef BASE_AHEAD_H
#define BASE_AHEAD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AHEAD_INLINE static inline __attribute__((always_inline))

/* Prefetches the cache line at p into L2, whose queue of misses is longer than that of L1. A query
 * of URLs in a Bloom filter of 20 MB takes 1/8 less time than with prefetches into L1. */
AHEAD_INLINE void ahead_fetch(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* The address p + bytes, for a prefetch or for a masked load that reads no lane outside the object.
 * The address may lie outside any object, where C has no valid pointers. */
static inline const void *ahead_of(const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p + bytes;
    const void *to;
    memcpy(&to, &at, sizeof to);
    return to;
}

#endif
