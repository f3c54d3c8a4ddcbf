#include "keys/distinct.h"

#include <stdbool.h>
#include <string.h>

#include "keys/sort.h"

/* Hashes are processed in buckets of about this size: bucket, marks and table fit in the
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

/* The same for a bucket that is mostly distinct. Marks the low 16 bits of each hash in a bitmap.
 * Only a hash whose mark is already set is searched for among the others: one in 128 of 1024
 * distinct hashes. Three times as fast as the table, which takes over if there are more. */
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
