/* SPDX-License-Identifier: MIT */
/* Empty Bloom filters, for the tests of bloom*.c. */
#ifndef BLOOM_NEW_H
#define BLOOM_NEW_H

#include <stdlib.h>
#include <string.h>

#include "kind/bloom/bloom.h"

/* For free(). */
static void *zeroes(size_t align, size_t bytes)
{
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (p == NULL)
        exit(1);
    memset(p, 0, bytes);
    return p;
}

static uint8_t *filter_new(const struct bloom *bloom)
{
    return zeroes(BLOOM_LINE, bloom->pages * BLOOM_PAGE);
}

/* Sets bit i of present if hash[i] is in the filter. */
static inline void bloom_query(const struct bloom *bloom, const uint8_t *data, const uint64_t *hash,
                               size_t n, uint64_t *present)
{
    struct layer layer = {0};
    bloom_to(bloom, &layer);
    kind_bloom.query(&layer, data, hashes_of(hash), n, present);
}

#endif
