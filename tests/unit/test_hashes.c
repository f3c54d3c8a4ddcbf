/* What is done with arrays of hashes: keys/sort.h.
 * tags: computing portable */
#include <stdlib.h>

#include "check.h"
#include "keys/sort.h"
#include "random.h"

static uint64_t ascending(uint64_t i)
{
    return i;
}

static uint64_t descending(uint64_t i)
{
    return UINT64_MAX - i;
}

static uint64_t all_equal(uint64_t i)
{
    (void)i;
    return 0x123456789abcdef0;
}

static uint64_t many_repeats(uint64_t i)
{
    return i % 7 ? random_at(i % 7) : 0;
}

static uint64_t low_bits_differ(uint64_t i)
{
    return (uint64_t)0xabcdef << 40 | random_at(i) >> 54;
}

/* Half of them crowd together. */
static uint64_t one_crowd(uint64_t i)
{
    return i % 2 ? random_at(i) : (uint64_t)1 << 50 | random_at(i) >> 48;
}

/* More of them than distinct() has room for in its table, with a zero among them, and all of them
 * want the same place there. */
static uint64_t colliding(uint64_t i)
{
    return i % 9 ? (i * i) << 32 : 0;
}

/* As many as make it give up its marks, but not its table. */
static uint64_t each_twice(uint64_t i)
{
    return random_at(i / 2);
}

static int by_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int by_both(const void *a, const void *b)
{
    int first = by_first(a, b);
    return first != 0 ? first : by_first((const uint64_t *)a + 1, (const uint64_t *)b + 1);
}

enum { MANY_LANES = 16 };

static int by_many(const void *a, const void *b)
{
    int order = 0;
    for (unsigned l = 0; l < MANY_LANES && order == 0; l++)
        order = by_first((const uint64_t *)a + l, (const uint64_t *)b + l);
    return order;
}

/* Hashes, the same sorted, and the distinct ones of these. */
struct arrays {
    uint64_t *hash, *sorted, *distinct, *tmp;
    size_t n, n_distinct, size; /* of a hash, in bytes */
    unsigned lanes, width;
    int (*order)(const void *a, const void *b);
};

/* Which lanes have the hashes; a second lane that does not is one of a few. With MANY, the first is
 * the same for all, and others have hashes: sixteen lanes are compared. */
enum which { FIRST_ALONE, FIRST, SECOND, BOTH, MANY, N_WHICH };

static void make_one(uint64_t *to, uint64_t (*hash)(uint64_t), size_t i, enum which which,
                     unsigned width)
{
    uint64_t first = which != SECOND && which != MANY ? hash(i) : 0x5555;
    to[0] = width < 64 ? first % ((uint64_t)1 << width) | ((uint64_t)5 << width) : first;
    if (which == MANY) {
        memset(to + 1, 0, (MANY_LANES - 1) * sizeof *to);
        to[i % 2 ? 3 : MANY_LANES - 1] = hash(i);
    } else if (which != FIRST_ALONE) {
        to[1] = which == FIRST ? i % 3 : hash(i);
    }
}

static struct arrays make(uint64_t (*hash)(uint64_t), size_t n, enum which which, unsigned width)
{
    unsigned lanes = which == FIRST_ALONE ? 1 : which == MANY ? MANY_LANES : 2;
    size_t bytes = (n + 1) * lanes * sizeof(uint64_t);
    struct arrays a = {
        malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), n, 0, lanes * sizeof(uint64_t),
        lanes,         width,         by_first};
    if (lanes > 1)
        a.order = lanes == 2 ? by_both : by_many;
    for (size_t i = 0; i < n; i++)
        make_one(a.hash + i * lanes, hash, i, which, width);
    memcpy(a.sorted, a.hash, n * a.size);
    qsort(a.sorted, n, a.size, a.order);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *h = a.sorted + i * lanes;
        if (i == 0 || memcmp(h, h - lanes, a.size) != 0)
            memcpy(a.distinct + a.n_distinct++ * lanes, h, a.size);
    }
    return a;
}

static void done_with(struct arrays *a)
{
    free(a->hash);
    free(a->sorted);
    free(a->distinct);
    free(a->tmp);
}

static void check_sorting(struct arrays *a)
{
    sort_hashes(a->hash, a->tmp, a->n, a->lanes, a->width);
    CHECK(memcmp(a->sorted, a->hash, a->n * a->size) == 0);
}

static void check_ranges(struct arrays *a)
{
    size_t start[(1 << SORT_RANGE_BITS) + 1];
    unsigned bits = sort_range_bits(a->n, 50, a->width), shift = a->width - bits;
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    CHECK(bits == a->width || bits == SORT_RANGE_BITS || a->n >> bits <= 50);
    sort_by_range(a->hash, a->n, a->lanes, a->width, bits, a->tmp, start);
    CHECK(start[0] == 0 && start[mask + 1] == a->n);
    size_t wrong = 0;
    for (size_t r = 0; bits > 0 && r <= mask; r++)
        for (size_t i = start[r]; i < start[r + 1]; i++)
            wrong += (a->tmp[i * a->lanes] >> shift & mask) != r;
    CHECK(wrong == 0);
    qsort(a->tmp, a->n, a->size, a->order);
    CHECK(memcmp(a->sorted, a->tmp, a->n * a->size) == 0);
}

static void check_distinct(struct arrays *a)
{
    size_t n = distinct(a->hash, a->tmp, a->n, a->lanes, a->width);
    CHECK(n == a->n_distinct);
    qsort(a->hash, n, a->size, a->order);
    CHECK(n != a->n_distinct || memcmp(a->distinct, a->hash, n * a->size) == 0);
}

static void for_all_kinds(void (*check)(struct arrays *a))
{
    static uint64_t (*const hashes[])(uint64_t) = {random_at,       ascending,  descending,
                                                   all_equal,       each_twice, many_repeats,
                                                   low_bits_differ, one_crowd,  colliding};
    static const size_t numbers[] = {0, 1, 2, 24, 25, 200, 3000, 100000};
    static const unsigned widths[] = {0, 1, 11, 13, 40, 61, 64};
    bool brief = check_is_brief();
    for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++)
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            for (enum which which = 0; which < N_WHICH; which++)
                for (size_t w = 0; w < sizeof widths / sizeof *widths; w += which != 0 ? 3 : 1) {
                    size_t most = brief ? 3000 : which == MANY ? 10000 : 100000;
                    if (brief && h == 0 && w == 0 && which != MANY)
                        most = 20000; /* sorted in several passes */
                    size_t some = numbers[n] < most ? numbers[n] : most;
                    struct arrays a = make(hashes[h], some, which, widths[w]);
                    check(&a);
                    done_with(&a);
                }
}

TEST(hashes_are_sorted)
{
    for_all_kinds(check_sorting);
}

TEST(hashes_are_put_into_ranges)
{
    for_all_kinds(check_ranges);
}

TEST(repeats_are_removed)
{
    for_all_kinds(check_distinct);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(hashes_are_sorted);
    RUN(hashes_are_put_into_ranges);
    RUN(repeats_are_removed);
    return check_done();
}
