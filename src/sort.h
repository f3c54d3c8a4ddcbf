/* Sorting of hashes. */
#ifndef SORT_H
#define SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts a[0..n), n below 2^32, which agree in all bits from number `width` (0 to 64) on. tmp has
 * room for n too. */
void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned width);

#endif
