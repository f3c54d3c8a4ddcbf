#include "keys/sort.h"

#include <stdbool.h>
#include <string.h>

#include "keys/lanes.h"

/* Up to this size, insertion sort is fastest. */
enum { FEW = 24 };

/* Bits of a pass. The ends of 2^MAX_BITS buckets fit in the first-level cache. */
enum { MAX_BITS = 11, MIN_BITS = 3 };

LANES_INLINE void insertion(uint64_t *a, size_t n, unsigned lanes)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t h[LANES_MOST];
        lanes_copy(h, a + i * lanes, lanes);
        size_t j = i;
        for (; j > 0 && lanes_below(h, a + (j - 1) * lanes, lanes); j--)
            lanes_copy(a + j * lanes, a + (j - 1) * lanes, lanes);
        lanes_copy(a + j * lanes, h, lanes);
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

/* The smallest width of one lane; a[0] is this lane of the first hash. */
LANES_INLINE unsigned width_of_lane(const uint64_t *a, size_t n, unsigned lanes)
{
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= a[i * lanes] ^ a[0];
    return differ != 0 ? 64 - (unsigned)__builtin_clzll(differ) : 0;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned sort_width(const uint64_t *a, size_t n, unsigned lanes, unsigned width)
{
    return least(lanes == 1 ? width_of_lane(a, n, 1) : width_of_lane(a, n, lanes), width);
}

/* From here to sort_two(), a width covers both lanes: 64 plus the width of the first lane, or, if
 * that is zero, the width of the second. */

LANES_INLINE unsigned width_of_all(const uint64_t *a, size_t n, unsigned lanes)
{
    unsigned first = width_of_lane(a, n, lanes);
    if (lanes == 1)
        return first;
    return first > 0 ? 64 + first : width_of_lane(a + 1, n, lanes);
}

typedef void sort_fn(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move);

/* Sorts a by its bits below `width`, using tmp; the result goes to tmp if `move` is set. Proceeds
 * from the top bits down. Random hashes need two rounds; no hashes need more than 22 per lane,
 * since each round handles at least MIN_BITS bits. `again` is this function, for recursion. */
LANES_INLINE void sort_body(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move,
                            unsigned lanes, sort_fn *again)
{
    if (n <= FEW || width == 0) {
        if (width > 0)
            insertion(a, n, lanes);
        if (move && n > 0)
            memcpy(tmp, a, n * lanes * sizeof *a);
        return;
    }
    uint32_t end[1 << MAX_BITS];
    const unsigned second = lanes > 1 && width <= 64, below = lanes > 1 && !second ? 64 : 0;
    const unsigned bits = bits_for(n, width - below), shift = width - below - bits;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    memset(end, 0, (size_t)(mask + 1) * sizeof *end);
    for (size_t i = 0; i < n; i++)
        end[a[i * lanes + second] >> shift & mask]++;
    uint32_t sum = 0;
    for (size_t b = 0; b <= mask; b++) {
        uint32_t count = end[b];
        end[b] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t *from = a + i * lanes;
        lanes_copy(tmp + (size_t)end[from[second] >> shift & mask]++ * lanes, from, lanes);
    }
    uint64_t *to = move ? tmp : a;
    bool has_small = false;
    for (size_t b = 0, begin = 0; b <= mask; begin = end[b++]) {
        size_t count = end[b] - begin;
        uint64_t *bucket = tmp + begin * lanes;
        if (count > FEW) {
            unsigned left = width - bits;
            if (count > n / 2)
                left = least(width_of_all(bucket, count, lanes), left);
            again(bucket, a + begin * lanes, count, left, !move);
            continue;
        }
        has_small = true;
        for (size_t i = begin; !move && i < end[b]; i++)
            lanes_copy(a + i * lanes, tmp + i * lanes, lanes);
    }
    if (has_small)
        insertion(to, n, lanes);
}

static void sort_one(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move)
{
    sort_body(a, tmp, n, width, move, 1, sort_one);
}

static void sort_two(uint64_t *a, uint64_t *tmp, size_t n, unsigned width, int move)
{
    sort_body(a, tmp, n, width, move, 2, sort_two);
}

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Merges hashes [0, middle) of a with hashes [middle, n). */
static void merge(const uint64_t *a, size_t middle, size_t n, uint64_t *to, unsigned lanes)
{
    size_t i = 0, j = middle;
    for (; i < middle && j < n; to += lanes) {
        bool second = lanes_below(a + j * lanes, a + i * lanes, lanes);
        lanes_copy(to, a + (second ? j : i) * lanes, lanes);
        j += second;
        i += !second;
    }
    memcpy(to, a + i * lanes, (middle - i) * lanes * sizeof *a);
    memcpy(to + (middle - i) * lanes, a + j * lanes, (n - j) * lanes * sizeof *a);
}

/* A merge sort for hashes of more than two lanes: sort_body() could recurse hundreds of times. */
static void sort_many(uint64_t *a, uint64_t *tmp, size_t n, unsigned lanes)
{
    uint64_t *from = a, *to = tmp;
    for (size_t i = 0; i < n; i += FEW)
        insertion(a + i * lanes, least_of(n - i, FEW), lanes);
    for (size_t run = FEW; run < n; run *= 2) {
        for (size_t i = 0; i < n; i += 2 * run)
            merge(from + i * lanes, least_of(n - i, run), least_of(n - i, 2 * run), to + i * lanes,
                  lanes);
        uint64_t *merged = to;
        to = from;
        from = merged;
    }
    if (from != a)
        memcpy(a, from, n * lanes * sizeof *a);
}

void sort_hashes(uint64_t *a, uint64_t *tmp, size_t n, unsigned lanes, unsigned width)
{
    if (lanes == 1)
        sort_one(a, tmp, n, width, 0);
    else if (lanes == 2)
        sort_two(a, tmp, n, 64 + width, 0);
    else
        sort_many(a, tmp, n, lanes);
}

size_t sort_below(const uint64_t *a, size_t n, unsigned lanes, uint64_t limit)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (a[middle * lanes] < limit)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

LANES_INLINE void by_range_body(const uint64_t *a, size_t n, unsigned width, unsigned bits,
                                uint64_t *out, size_t *start, unsigned lanes)
{
    size_t ranges = (size_t)1 << bits, at[1 << SORT_RANGE_BITS];
    unsigned shift = bits > 0 ? width - bits : 0;
    uint64_t mask = ranges - 1;
    memset(at, 0, ranges * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[a[i * lanes] >> shift & mask]++;
    size_t sum = 0;
    for (size_t r = 0; r < ranges; r++) {
        start[r] = sum;
        sum += at[r];
        at[r] = start[r];
    }
    start[ranges] = sum;
    for (size_t i = 0; i < n; i++) {
        const uint64_t *from = a + i * lanes;
        lanes_copy(out + at[from[0] >> shift & mask]++ * lanes, from, lanes);
    }
}

void sort_by_range(const uint64_t *a, size_t n, unsigned lanes, unsigned width, unsigned bits,
                   uint64_t *out, size_t *start)
{
    if (lanes == 1)
        by_range_body(a, n, width, bits, out, start, 1);
    else if (lanes == 2)
        by_range_body(a, n, width, bits, out, start, 2);
    else
        by_range_body(a, n, width, bits, out, start, lanes);
}

unsigned sort_range_bits(size_t n, size_t target, unsigned width)
{
    unsigned bits = 0;
    while (bits < SORT_RANGE_BITS && bits < width && n >> bits > target)
        bits++;
    return bits;
}

/* Hashes are processed in buckets of about this many lanes: bucket, marks and table fit in the
 * first-level cache. */
enum { BUCKET = 1 << 10, SLOTS = 4 * BUCKET };

/* Decides the slot of a hash in the table, and its mark. */
LANES_INLINE uint64_t all_of(const uint64_t *h, unsigned lanes)
{
    uint64_t bits = lanes == 1 ? h[0] : h[0] ^ h[1];
    /* With many lanes, two may be equal, and XOR alone would cancel them. The multiplier is odd,
     * otherwise arbitrary. */
    for (unsigned l = 2; l < lanes; l++)
        bits = (bits ^ h[l]) * 0x9e3779b97f4a7c15;
    return lanes > 2 ? bits ^ bits >> 32 : bits;
}

LANES_INLINE bool is_zero(const uint64_t *h, unsigned lanes)
{
    uint64_t bits = h[0];
    for (unsigned l = 1; l < lanes; l++)
        bits |= h[l];
    return bits == 0;
}

LANES_INLINE size_t by_sorting(uint64_t *from, size_t n, unsigned width, uint64_t *to,
                               unsigned lanes)
{
    sort_hashes(from, to, n, lanes, width);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !lanes_equal(from + i * lanes, from + (i - 1) * lanes, lanes))
            lanes_copy(to + count++ * lanes, from + i * lanes, lanes);
    return count;
}

/* Uses a hash table, which is fast if a few hashes repeat often. If many are distinct, or they
 * collide more often than by chance, they are sorted instead. */
LANES_INLINE size_t by_table(uint64_t *from, size_t n, unsigned width, uint64_t *to, unsigned lanes)
{
    uint64_t table[SLOTS] = {0};
    const size_t slots = SLOTS / lanes;
    bool zero = false; /* the hash 0 is present; in the table, 0 marks an empty slot */
    size_t count = 0, steps = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t *h = from + i * lanes;
        size_t slot = all_of(h, lanes) % slots;
        uint64_t *at = table + slot * lanes;
        for (; !is_zero(at, lanes) && !lanes_equal(at, h, lanes); steps++) {
            slot = (slot + 1) % slots;
            at = table + slot * lanes;
        }
        bool is_new = is_zero(h, lanes) ? !zero : is_zero(at, lanes);
        zero |= is_zero(h, lanes);
        lanes_copy(at, h, lanes);
        lanes_copy(to + count * lanes, h, lanes);
        count += is_new;
        if (count > slots / 2 || steps > slots + 2 * n)
            return by_sorting(from, n, width, to, lanes);
    }
    return count;
}

LANES_INLINE bool contains(const uint64_t *a, size_t n, const uint64_t *h, unsigned lanes)
{
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= lanes_equal(a + i * lanes, h, lanes);
    return found;
}

/* The same for a bucket of hashes of one or two lanes that are mostly distinct. Marks 16 low bits
 * of each hash in a bitmap. Only a hash whose mark is already set is searched for among the others:
 * one in 128 of 1024 distinct hashes. Three times as fast as the table, which takes over if there
 * are more than SUSPECTS of these. */
enum { MARK_BITS = 16, SUSPECTS = 64 };

LANES_INLINE size_t by_marks(uint64_t *from, size_t n, unsigned width, uint64_t *to, unsigned lanes)
{
    uint64_t marks[(1 << MARK_BITS) / 64] = {0};
    uint64_t suspect[(SUSPECTS + 1) * 2] = {0};
    size_t n_suspects = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t *h = from + i * lanes, bits = all_of(h, lanes);
        uint64_t *word = &marks[bits >> 6 & ((1 << (MARK_BITS - 6)) - 1)];
        unsigned marked = (unsigned)(*word >> (bits & 63)) & 1;
        *word |= (uint64_t)1 << (bits & 63);
        lanes_copy(suspect + n_suspects * lanes, h, lanes);
        n_suspects += marked;
        lanes_copy(to + count * lanes, h, lanes);
        count += !marked;
        if (n_suspects > SUSPECTS)
            return by_table(from, n, width, to, lanes);
    }
    for (size_t i = 0; i < n_suspects; i++)
        if (!contains(to, count, suspect + i * lanes, lanes))
            lanes_copy(to + count++ * lanes, suspect + i * lanes, lanes);
    return count;
}

LANES_INLINE size_t distinct_body(uint64_t *hash, uint64_t *tmp, size_t n, unsigned width,
                                  unsigned lanes)
{
    const size_t bucket = BUCKET / lanes;
    size_t start[(1 << SORT_RANGE_BITS) + 1], count = 0;
    if (n > bucket)
        width = sort_width(hash, n, lanes, width);
    unsigned bits = sort_range_bits(n, bucket, width);
    sort_by_range(hash, n, lanes, width, bits, tmp, start);
    for (size_t r = 0; r < (size_t)1 << bits; r++) {
        uint64_t *from = tmp + start[r] * lanes, *to = hash + count * lanes;
        size_t size = start[r + 1] - start[r];
        count += size <= 2 * bucket && lanes <= 2 ? by_marks(from, size, width - bits, to, lanes)
                                                  : by_table(from, size, width - bits, to, lanes);
    }
    return count;
}

size_t distinct(uint64_t *hash, uint64_t *tmp, size_t n, unsigned lanes, unsigned width)
{
    return lanes == 1   ? distinct_body(hash, tmp, n, width, 1)
           : lanes == 2 ? distinct_body(hash, tmp, n, width, 2)
                        : distinct_body(hash, tmp, n, width, lanes);
}
