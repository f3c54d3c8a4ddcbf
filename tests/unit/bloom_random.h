/* Random hashes from a fixed seed, and empty Bloom filters, for the tests of bloom*.c. */
#ifndef BLOOM_RANDOM_H
#define BLOOM_RANDOM_H

#include <stdlib.h>
#include <string.h>

#include "bloom.h"

static uint64_t hash_state;

/* SplitMix64. */
static uint64_t next_hash(void)
{
    uint64_t z = hash_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

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

#endif
