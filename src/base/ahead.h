/* Addresses for prefetching. They may lie outside any object, where C has no valid pointers. */
#ifndef BASE_AHEAD_H
#define BASE_AHEAD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline const void *ahead_of(const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p + bytes;
    const void *to;
    memcpy(&to, &at, sizeof to);
    return to;
}

#endif
