#include "keys/distinct.h"

#include <stdbool.h>
#include <string.h>

#include "keys/sort.h"

/* Hashes are looked at in buckets of about so many: bucket, marks and table stay in the first-level
 * cache. */
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

/* By a hash table, which suits many repeats of a few. When they are not few, or collide more often
 * than chance has it, they are sorted. */
static size_t by_table(uint64_t *from, size_t n, unsigned width, uint64_t *to)
{
    uint64_t table[SLOTS] = {0};
    bool zero = false; /* the hash 0, which marks an empty slot in the table */
    size_t count = 0, steps = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t h = from[i];
        size_t slot = h % SLOTS;
        for (; table[slot] != 0 && table[slot] != h; steps++)
            slot = (slot + 1) % SLOTS;
        bool is_new = h != 0 ? table[slot] == 0 : !zero;
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

/* The same for a bucket that is mostly distinct: its low 16 bits are marked in a bitmap, and only a
 * hash whose mark was there already is looked for among the others. With 1024 hashes that is one in
 * 128 for distinct ones. Three times as fast as the table; which is the way out when there are
 * more. */
enum { MARK_BITS = 16, SUSPECTS = 64 };

static size_t by_marks(uint64_t *from, size_t n, unsigned width, uint64_t *to)
{
    uint64_t marks[(1 << MARK_BITS) / 64] = {0};
    uint64_t suspect[SUSPECTS + 1] = {0};
    size_t n_suspects = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t h = from[i], *word = &marks[h >> 6 & ((1 << (MARK_BITS - 6)) - 1)];
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
    size_t start[(1 << SORT_RANGE_BITS) + 1], count = 0;
    if (n > BUCKET)
        width = sort_width(hash, n, width);
    unsigned bits = sort_range_bits(n, BUCKET, width);
    sort_by_range(hash, n, width, bits, tmp, start);
    for (size_t r = 0; r < (size_t)1 << bits; r++) {
        uint64_t *bucket = tmp + start[r], *to = hash + count;
        size_t size = start[r + 1] - start[r];
        count += size <= 2 * BUCKET ? by_marks(bucket, size, width - bits, to)
                                    : by_table(bucket, size, width - bits, to);
    }
    return count;
}
