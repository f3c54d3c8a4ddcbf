/* Sorting of hashes. */
#ifndef KEYS_SORT_H
#define KEYS_SORT_H

#include <stddef.h>
#include <stdint.h>

#define SORT_MOST UINT32_MAX

/* Sorts a[0..n), n at most SORT_MOST. The hashes agree in all bits from number `width` (0 to 64)
 * on. tmp has capacity for n too. */
void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned width);

/* The smallest `width` such that a[0..n) agree in all bits from that number on. They are known to
 * agree from the given `width` on. */
unsigned sort_width(const uint64_t *a, size_t n, unsigned width);

/* Groups such hashes by the 2^bits ranges of equal width that they fall into. bits is at most
 * SORT_RANGE_BITS and at most `width`. The hashes of range r go to out[start[r]..start[r + 1]), in
 * their old order. start has 2^bits + 1 elements. */
enum { SORT_RANGE_BITS = 12 };
void sort_by_range(const uint64_t *a, size_t n, unsigned width, unsigned bits, uint64_t *out,
                   size_t *start);

/* The number of bits that gives each range about `target` of n random hashes, or as few as
 * possible. */
unsigned sort_range_bits(size_t n, size_t target, unsigned width);

#endif
