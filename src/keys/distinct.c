#include "keys/distinct.h"

#include <stdbool.h>
#include <string.h>

#include "keys/lanes.h"
#include "keys/sort.h"

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
