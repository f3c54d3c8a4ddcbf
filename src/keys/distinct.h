/* Removing repeats from hashes. */
#ifndef KEYS_DISTINCT_H
#define KEYS_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

/* Removes repeats from n hashes of that width (sort.h), n at most SORT_MOST. Leaves the distinct
 * ones at the beginning of `hash`, in no order, and returns their number. tmp has capacity for n
 * too. Takes 3 to 4 ns a hash of one lane; chosen hashes and clusters up to ten times as long. */
size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned lanes, unsigned width);

#endif
