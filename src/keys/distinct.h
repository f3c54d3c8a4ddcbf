/* Removing repeats from hashes. */
#ifndef KEYS_DISTINCT_H
#define KEYS_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

/* Removes repeats from n hashes of the given width (sort.h), n at most SORT_MOST. Leaves the
 * distinct hashes at the beginning of `hash`, unordered, and returns their number. tmp has capacity
 * for n too. Takes 3 to 4 ns per hash of one lane; up to ten times as long for chosen or clustered
 * hashes. */
size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned lanes, unsigned width);

#endif
