/* SPDX-License-Identifier: MIT
 * Random numbers for tests, by SplitMix64. Every run has the same ones, or those of the seed that
 * is its argument; it prints the seed.
 *
 * A test that depends on chance says at its bound how seldom a seed fails.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RANDOM_STEP 0x9e3779b97f4a7c15

static uint64_t random_seed = 20260401, random_state;

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Number i of the seed's; no two are equal. */
static inline uint64_t random_at(uint64_t i)
{
    return random_mix(random_seed + (i + 1) * RANDOM_STEP);
}

/* From here on draw() gives the numbers of a series: series 0 is that of random_at(). */
static inline void random_restart(uint64_t series)
{
    random_state = random_seed + series;
}

static inline uint64_t draw(void)
{
    return random_mix(random_state += RANDOM_STEP);
}

/* For main(). */
static inline void random_begin(int argc, char **argv)
{
    if (argc > 1)
        random_seed = strtoull(argv[1], NULL, 0);
    printf("# seed %llu\n", (unsigned long long)random_seed);
    random_restart(0);
}

#endif
