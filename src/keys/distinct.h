/* Removing repeats from hashes. */
#ifndef KEYS_DISTINCT_H
#define KEYS_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

/* Leaves the distinct ones of hash[0..n), n at most SORT_MOST (sort.h), which agree in all bits
 * from number `width` (0 to 64) on, at the beginning of `hash`, in no order, and returns how many
 * there are. tmp has room for n too. Takes 3 to 4 ns a hash, chosen ones and crowds of them up to
 * ten times as long. */
size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned width);

#endif
