/* Sorts hashes (lanes.h), and removes repeats. `width`, 0 to 64: the first lanes of all hashes
 * agree in bit `width` and above. */
#ifndef KEYS_SORT_H
#define KEYS_SORT_H

#include <stddef.h>
#include <stdint.h>

#define SORT_MOST UINT32_MAX

/* Sorts n hashes, n at most SORT_MOST. tmp has capacity for n too. */
void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned lanes, unsigned width);

/* The smallest width of n hashes, which is known to be at most `width`. */
unsigned sort_width(const uint64_t *a, size_t n, unsigned lanes, unsigned width);

/* Groups n hashes by the 2^bits ranges of equal width that their first lanes fall into. bits is at
 * most SORT_RANGE_BITS and at most `width`. The hashes of range r become numbers start[r] up to
 * start[r + 1] of `out`, in their old order. start has 2^bits + 1 elements. */
enum { SORT_RANGE_BITS = 12 };
void sort_by_range(const uint64_t *a, size_t n, unsigned lanes, unsigned width, unsigned bits,
                   uint64_t *out, size_t *start);

/* The number of bits that gives each range about `target` of n random hashes, or as few as
 * possible. */
unsigned sort_range_bits(size_t n, size_t target, unsigned width);

/* The number of the n ascending hashes whose first lane is below `limit`. */
size_t sort_below(const uint64_t *a, size_t n, unsigned lanes, uint64_t limit);

/* Removes repeats from n hashes of the given width, n at most SORT_MOST. Leaves the
 * distinct hashes at the beginning of `hash`, unordered, and returns their number. tmp has capacity
 * for n too. Takes 3 to 4 ns per hash of one lane; up to ten times as long for chosen or clustered
 * hashes. */
size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned lanes, unsigned width);

#endif
