#include "keys/sort.h"

#include <stdbool.h>
#include <string.h>

/* Up to this size, insertion sort is fastest. */
enum { FEW = 24 };

/* Bits of a pass. The ends of 2^MAX_BITS buckets fit in the first-level cache. */
enum { MAX_BITS = 11, MIN_BITS = 3 };

static void insertion(uint64_t *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t h = a[i];
        size_t j = i;
        for (; j > 0 && a[j - 1] > h; j--)
            a[j] = a[j - 1];
        a[j] = h;
    }
}

/* More buckets than hashes. Well spread hashes then have a bucket each, and insertion sort of
 * neighbouring buckets is rarely mispredicted. */
static unsigned bits_for(size_t n, unsigned width)
{
    unsigned bits = MIN_BITS;
    while (bits < MAX_BITS && n >> bits > 0)
        bits++;
    return bits < width ? bits : width;
}

unsigned sort_width(const uint64_t *a, size_t n, unsigned width)
{
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= a[i] ^ a[0];
    unsigned bits = differ != 0 ? 64 - (unsigned)__builtin_clzll(differ) : 0;
    return bits < width ? bits : width;
}

/* Sorts a by its bits below `width`, using tmp; the result goes to tmp if `move` is set. Goes from
 * the top bits down: random hashes need two rounds, and none more than 22, since each round handles
 * at least MIN_BITS bits. */
static void sort_by(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move)
{
    if (n <= FEW || width == 0) {
        if (width > 0)
            insertion(a, n);
        if (move && n > 0)
            memcpy(tmp, a, n * sizeof *a);
        return;
    }
    uint32_t end[1 << MAX_BITS];
    unsigned bits = bits_for(n, width), shift = width - bits;
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    memset(end, 0, (size_t)(mask + 1) * sizeof *end);
    for (size_t i = 0; i < n; i++)
        end[a[i] >> shift & mask]++;
    uint32_t sum = 0;
    for (size_t b = 0; b <= mask; b++) {
        uint32_t count = end[b];
        end[b] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        tmp[end[a[i] >> shift & mask]++] = a[i];
    uint64_t *to = move ? tmp : a;
    bool has_small = false;
    for (size_t b = 0, begin = 0; b <= mask; begin = end[b++]) {
        size_t count = end[b] - begin;
        if (count > FEW) {
            unsigned left = count > n / 2 ? sort_width(tmp + begin, count, shift) : shift;
            sort_by(tmp + begin, a + begin, count, left, !move);
            continue;
        }
        has_small = true;
        for (size_t i = begin; !move && i < end[b]; i++)
            a[i] = tmp[i];
    }
    if (has_small)
        insertion(to, n);
}

void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned width)
{
    sort_by(a, tmp, n, width, 0);
}

void sort_by_range(const uint64_t *a, size_t n, unsigned width, unsigned bits, uint64_t *out,
                   size_t *start)
{
    size_t ranges = (size_t)1 << bits, at[1 << SORT_RANGE_BITS];
    unsigned shift = bits > 0 ? width - bits : 0;
    uint64_t mask = ranges - 1;
    memset(at, 0, ranges * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[a[i] >> shift & mask]++;
    size_t sum = 0;
    for (size_t r = 0; r < ranges; r++) {
        start[r] = sum;
        sum += at[r];
        at[r] = start[r];
    }
    start[ranges] = sum;
    for (size_t i = 0; i < n; i++)
        out[at[a[i] >> shift & mask]++] = a[i];
}

unsigned sort_range_bits(size_t n, size_t target, unsigned width)
{
    unsigned bits = 0;
    while (bits < SORT_RANGE_BITS && bits < width && n >> bits > target)
        bits++;
    return bits;
}
