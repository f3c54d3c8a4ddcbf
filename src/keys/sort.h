/* Sorting of hashes. */
#ifndef KEYS_SORT_H
#define KEYS_SORT_H

#include <stddef.h>
#include <stdint.h>

#define SORT_MOST UINT32_MAX

/* Sorts a[0..n), n at most SORT_MOST, which agree in all bits from number `width` (0 to 64) on. tmp
 * has room for n too. */
void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned width);

/* The least such width of a[0..n), which agree in all bits from number `width` on. */
unsigned sort_width(const uint64_t *a, size_t n, unsigned width);

/* Puts such hashes in the order of the 2^bits ranges of equal width that they fall into, bits being
 * at most SORT_RANGE_BITS and at most `width`: those of range r into out[start[r]..start[r + 1]),
 * in the order that they had. start has 2^bits + 1 elements. */
enum { SORT_RANGE_BITS = 12 };
void sort_by_range(const uint64_t *a, size_t n, unsigned width, unsigned bits, uint64_t *out,
                   size_t *start);

/* The bits with which each range has about `target` of n random hashes, or as few as can be. */
unsigned sort_range_bits(size_t n, size_t target, unsigned width);

#endif
