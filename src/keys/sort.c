/* SPDX-License-Identifier: MIT */
#include "keys/sort.h"

#include <stdbool.h>
#include <string.h>

/* A loop over hashes is written once, in a STRIDE_INLINE function with a parameter `stride`: 1 for
 * hashes, 2 for hashes that are each followed by another number. Callers pass a constant, so the
 * compiler makes two loops of it. */
#define STRIDE_INLINE static inline __attribute__((always_inline))

STRIDE_INLINE void copy_one(uint64_t *to, const uint64_t *from, size_t stride)
{
    to[0] = from[0];
    if (stride == 2)
        to[1] = from[1];
}

/* Up to this size, insertion sort is fastest. */
enum { FEW = 24 };

/* Bits of a pass. The ends of 2^MAX_BITS buckets fit in the first-level cache. */
enum { MAX_BITS = 11, MIN_BITS = 3 };

STRIDE_INLINE void insertion(uint64_t *a, size_t n, size_t stride)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t h[2];
        copy_one(h, a + i * stride, stride);
        size_t j = i;
        for (; j > 0 && h[0] < a[(j - 1) * stride]; j--)
            copy_one(a + j * stride, a + (j - 1) * stride, stride);
        copy_one(a + j * stride, h, stride);
    }
}

/* More buckets than hashes. Well spread hashes then have a bucket each, and insertion sort of
 * neighbouring buckets is rarely mispredicted. */
static unsigned radix_bits(size_t n, unsigned width)
{
    unsigned bits = MIN_BITS;
    while (bits < MAX_BITS && n >> bits > 0)
        bits++;
    return bits < width ? bits : width;
}

/* The number of low bits in which hashes differ. */
STRIDE_INLINE unsigned width_of(const uint64_t *a, size_t n, size_t stride)
{
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= a[i * stride] ^ a[0];
    return differ != 0 ? 64 - (unsigned)__builtin_clzll(differ) : 0;
}

static unsigned least_width(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

typedef void sort_fn(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move);

/* Sorts a by its bits below `width`, using tmp; the result goes to tmp if `move` is set. Proceeds
 * from the top bits down. Random hashes need two rounds; no hashes need more than 22, since each
 * round handles at least MIN_BITS bits. `again` is this function, for recursion. */
STRIDE_INLINE void sort_body(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move,
                             size_t stride, sort_fn *again)
{
    if (n <= FEW || width == 0) {
        if (width > 0)
            insertion(a, n, stride);
        if (move && n > 0)
            memcpy(tmp, a, n * stride * sizeof *a);
        return;
    }
    uint32_t end[1 << MAX_BITS];
    const unsigned bits = radix_bits(n, width), shift = width - bits;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    memset(end, 0, (size_t)(mask + 1) * sizeof *end);
    for (size_t i = 0; i < n; i++)
        end[a[i * stride] >> shift & mask]++;
    uint32_t sum = 0;
    for (size_t b = 0; b <= mask; b++) {
        uint32_t count = end[b];
        end[b] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t *from = a + i * stride;
        copy_one(tmp + (size_t)end[from[0] >> shift & mask]++ * stride, from, stride);
    }
    uint64_t *to = move ? tmp : a;
    bool has_small = false;
    for (size_t b = 0, begin = 0; b <= mask; begin = end[b++]) {
        size_t count = end[b] - begin;
        uint64_t *bucket = tmp + begin * stride;
        if (count > FEW) {
            unsigned left = width - bits;
            if (count > n / 2)
                left = least_width(width_of(bucket, count, stride), left);
            again(bucket, a + begin * stride, count, left, !move);
            continue;
        }
        has_small = true;
        for (size_t i = begin; !move && i < end[b]; i++)
            copy_one(a + i * stride, tmp + i * stride, stride);
    }
    if (has_small)
        insertion(to, n, stride);
}

static void sort_one(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move)
{
    sort_body(a, tmp, n, width, move, 1, sort_one);
}

static void sort_two(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move)
{
    sort_body(a, tmp, n, width, move, 2, sort_two);
}

void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned width)
{
    sort_one(a, tmp, n, width, 0);
}

void sort_pairs(uint64_t *a, uint64_t *tmp, size_t n, unsigned width)
{
    sort_two(a, tmp, n, width, 0);
}

size_t sort_below(const uint64_t *a, size_t n, size_t stride, uint64_t limit)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (a[middle * stride] < limit)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Groups n hashes by the 2^bits ranges of equal width that they fall into. The hashes of range r
 * become numbers start[r] up to start[r + 1] of `out`, in their old order. */
enum { RANGE_BITS = 12 };

static void group(const uint64_t *a, size_t n, unsigned width, unsigned bits, uint64_t *out,
                  size_t *start)
{
    size_t ranges = (size_t)1 << bits, at[1 << RANGE_BITS];
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

/* Hashes are processed in buckets of about this many: bucket, marks and table fit in the
 * first-level cache. */
enum { BUCKET = 1 << 10, SLOTS = 4 * BUCKET };

static size_t by_sorting(uint64_t *from, size_t n, unsigned width, uint64_t *to)
{
    sort_hashes(from, to, n, width);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || from[i] != from[i - 1])
            to[count++] = from[i];
    return count;
}

/* Uses a hash table, which is fast if a few hashes repeat often. If many are distinct, or they
 * collide more often than by chance, they are sorted instead. */
static size_t by_table(uint64_t *from, size_t n, unsigned width, uint64_t *to)
{
    uint64_t table[SLOTS] = {0};
    bool zero = false; /* the hash 0 is present; in the table, 0 marks an empty slot */
    size_t count = 0, steps = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t h = from[i];
        size_t slot = h % SLOTS;
        for (; table[slot] != 0 && table[slot] != h; steps++)
            slot = (slot + 1) % SLOTS;
        bool is_new = h == 0 ? !zero : table[slot] == 0;
        zero |= h == 0;
        table[slot] = h;
        to[count] = h;
        count += is_new;
        if (count > SLOTS / 2 || steps > SLOTS + 2 * n)
            return by_sorting(from, n, width, to);
    }
    return count;
}

static bool contains(const uint64_t *a, size_t n, uint64_t h)
{
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= a[i] == h;
    return found;
}

/* The same for a bucket of hashes that are mostly distinct. Marks 16 low bits of each hash in a
 * bitmap. Only a hash whose mark is already set is searched for among the others: one in 128 of
 * 1024 distinct hashes. Three times as fast as the table, which takes over if there are more than
 * SUSPECTS of these. */
enum { MARK_BITS = 16, SUSPECTS = 64 };

static size_t by_marks(uint64_t *from, size_t n, unsigned width, uint64_t *to)
{
    uint64_t marks[(1 << MARK_BITS) / 64] = {0};
    uint64_t suspect[SUSPECTS + 1] = {0};
    size_t n_suspects = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t h = from[i];
        uint64_t *word = &marks[h >> 6 & ((1 << (MARK_BITS - 6)) - 1)];
        unsigned marked = (unsigned)(*word >> (h & 63)) & 1;
        *word |= (uint64_t)1 << (h & 63);
        suspect[n_suspects] = h;
        n_suspects += marked;
        to[count] = h;
        count += !marked;
        if (n_suspects > SUSPECTS)
            return by_table(from, n, width, to);
    }
    for (size_t i = 0; i < n_suspects; i++)
        if (!contains(to, count, suspect[i]))
            to[count++] = suspect[i];
    return count;
}

size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned width)
{
    size_t start[(1 << RANGE_BITS) + 1], count = 0;
    if (n > BUCKET)
        width = least_width(width_of(hash, n, 1), width);
    unsigned bits = 0; /* a range for each bucket, as far as possible */
    while (bits < RANGE_BITS && bits < width && n >> bits > BUCKET)
        bits++;
    group(hash, n, width, bits, tmp, start);
    for (size_t r = 0; r < (size_t)1 << bits; r++) {
        uint64_t *from = tmp + start[r], *to = hash + count;
        size_t size = start[r + 1] - start[r];
        count += size <= 2 * BUCKET ? by_marks(from, size, width - bits, to)
                                    : by_table(from, size, width - bits, to);
    }
    return count;
}
