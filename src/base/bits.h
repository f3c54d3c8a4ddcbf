/* SPDX-License-Identifier: MIT */
/* Bit sets: 64 bits to a word, low bit first. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool bit_of(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static inline void bit_set(uint64_t *bits, size_t i)
{
    bits[i / 64] |= (uint64_t)1 << i % 64;
}

/* The number of set bits among bits [0, n). */
static inline unsigned bits_count(const uint64_t *bits, size_t n)
{
    unsigned count = 0;
    for (size_t w = 0; w < (n + 63) / 64; w++)
        count += (unsigned)__builtin_popcountll(bits[w]);
    return count;
}

/* The next of a row of random bits: SplitMix64 (Steele, Lea and Flood, 2014). */
static inline uint64_t bits_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

#endif
