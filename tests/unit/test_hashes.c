/* SPDX-License-Identifier: MIT */
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

/* Hashes, the same sorted, and the distinct ones of these. In pairs, each is followed by its
 * number.
 */
struct arrays {
    uint64_t *hash, *sorted, *distinct, *tmp;
    size_t n, n_distinct, size; /* of a hash, in bytes */
    bool pairs;
    unsigned width;
};

static struct arrays make(uint64_t (*hash)(uint64_t), size_t n, bool pairs, unsigned width)
{
    size_t stride = pairs ? 2 : 1, bytes = (n + 1) * stride * sizeof(uint64_t);
    struct arrays a = {
        malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), n, 0, stride * sizeof(uint64_t),
        pairs,         width};
    for (size_t i = 0; i < n; i++) {
        a.hash[i * stride] =
            width < 64 ? hash(i) % ((uint64_t)1 << width) | ((uint64_t)5 << width) : hash(i);
        if (pairs)
            a.hash[i * stride + 1] = i;
    }
    memcpy(a.sorted, a.hash, n * a.size);
    qsort(a.sorted, n, a.size, pairs ? by_both : by_first);
    for (size_t i = 0; i < n && !pairs; i++)
        if (i == 0 || a.sorted[i] != a.sorted[i - 1])
            a.distinct[a.n_distinct++] = a.sorted[i];
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
    size_t wrong = 0;
    if (a->pairs)
        sort_pairs(a->hash, a->tmp, a->n, a->width);
    else
        sort_hashes(a->hash, a->tmp, a->n, a->width);
    for (size_t i = 0, stride = a->size / sizeof(uint64_t); i < a->n; i++)
        wrong += a->hash[i * stride] != a->sorted[i * stride];
    CHECK(wrong == 0);
    if (a->pairs) /* those of equal hashes come in any order */
        qsort(a->hash, a->n, a->size, by_both);
    CHECK(memcmp(a->sorted, a->hash, a->n * a->size) == 0);
}

static void check_distinct(struct arrays *a)
{
    size_t n = distinct(a->hash, a->tmp, a->n, a->width);
    CHECK(n == a->n_distinct);
    qsort(a->hash, n, a->size, by_first);
    CHECK(n != a->n_distinct || memcmp(a->distinct, a->hash, n * a->size) == 0);
}

static void for_all_kinds(void (*check)(struct arrays *a), bool pairs)
{
    static uint64_t (*const hashes[])(uint64_t) = {random_at,       ascending,  descending,
                                                   all_equal,       each_twice, many_repeats,
                                                   low_bits_differ, one_crowd,  colliding};
    static const size_t numbers[] = {0, 1, 2, 24, 25, 200, 3000, 100000};
    static const unsigned widths[] = {0, 1, 11, 13, 40, 61, 64};
    bool brief = check_is_brief();
    for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++)
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w += pairs ? 3 : 1) {
                size_t most = brief ? 3000 : 100000;
                if (brief && h == 0 && w == 0)
                    most = 20000; /* sorted in several passes */
                size_t some = numbers[n] < most ? numbers[n] : most;
                struct arrays a = make(hashes[h], some, pairs, widths[w]);
                check(&a);
                done_with(&a);
            }
}

TEST(hashes_are_sorted)
{
    for_all_kinds(check_sorting, false);
    for_all_kinds(check_sorting, true);
}

TEST(the_hashes_below_a_limit)
{
    static const uint64_t hash[] = {3, 100, 5, 101, 5, 102, 9, 103};
    static const uint64_t limits[] = {0, 3, 4, 5, 6, 9, 10};
    static const size_t below[] = {0, 0, 1, 1, 3, 3, 4};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        CHECK(sort_below(hash, 4, 2, limits[i]) == below[i]);
    CHECK(sort_below(hash, 0, 1, 4) == 0 && sort_below(hash, 1, 1, 4) == 1);
}

TEST(repeats_are_removed)
{
    for_all_kinds(check_distinct, false);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(hashes_are_sorted);
    RUN(the_hashes_below_a_limit);
    RUN(repeats_are_removed);
    return check_done();
}
