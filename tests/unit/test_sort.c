#include "sort.h"

#include <stdlib.h>

#include "check.h"
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
    return random_at(i % 7);
}

static uint64_t low_bits_differ(uint64_t i)
{
    return (uint64_t)0xabcdef << 40 | random_at(i) >> 54;
}

/* Half of them crowd together. */
static uint64_t one_crowd(uint64_t i)
{
    return i % 2 ? random_at(i) : (uint64_t)1 << 50 | random_at(i) >> 52;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void check_sorting(uint64_t (*hash)(uint64_t), size_t n, unsigned width)
{
    uint64_t *want = malloc((n + 1) * sizeof *want), *got = malloc((n + 1) * sizeof *got);
    uint64_t *tmp = malloc((n + 1) * sizeof *tmp);
    for (size_t i = 0; i < n; i++)
        want[i] = got[i] = width < 64 ? hash(i) % ((uint64_t)1 << width) | ((uint64_t)5 << width)
                                      : hash(i);
    qsort(want, n, sizeof *want, by_value);
    sort_hashes(got, tmp, n, width);
    CHECK(memcmp(want, got, n * sizeof *want) == 0);
    free(want);
    free(got);
    free(tmp);
}

TEST(all_kinds_of_hashes)
{
    static uint64_t (*const hashes[])(uint64_t) = {random_at, ascending, descending, all_equal,
                                                   many_repeats, low_bits_differ, one_crowd};
    static const size_t numbers[] = {0, 1, 2, 24, 25, 200, 3000, 100000};
    static const unsigned widths[] = {0, 1, 11, 13, 40, 61, 64};
    for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++)
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
                check_sorting(hashes[h], numbers[n], widths[w]);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(all_kinds_of_hashes);
    return check_done();
}
