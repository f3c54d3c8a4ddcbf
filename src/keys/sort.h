/* SPDX-License-Identifier: MIT */
/* Sorts hashes, and removes repeats. All hashes agree in bit `width`, 0 to 64, and above. */
#ifndef KEYS_SORT_H
#define KEYS_SORT_H

#include <stddef.h>
#include <stdint.h>

#define SORT_MOST UINT32_MAX

/* Sorts n hashes, n at most SORT_MOST. tmp has capacity for n too. */
void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned width);

/* The same for n hashes that are each followed by another number. */
void sort_pairs(uint64_t *a, uint64_t *tmp, size_t n, unsigned width);

/* The number of the n ascending hashes below `limit`. They are `stride` numbers apart. */
size_t sort_below(const uint64_t *a, size_t n, size_t stride, uint64_t limit);

/* Removes repeats from n hashes, n at most SORT_MOST. Leaves the distinct hashes at the beginning
 * of `hash`, unordered, and returns their number. tmp has capacity for n too. Takes 3 to 4 ns per
 * hash; up to ten times as long for chosen or clustered hashes. */
size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned width);

#endif
