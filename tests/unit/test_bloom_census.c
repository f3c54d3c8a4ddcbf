/* SPDX-License-Identifier: MIT */
/* tags: computing threads */
#include "bloom_new.h"
#include "check.h"
#include "kind/bloom/bloom.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

enum { LINES = BLOOM_PAGE / BLOOM_LINE };

static void insert_random(const struct bloom *bloom, uint8_t *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = draw();
        bloom_insert(bloom, data, 0, &hash, 1);
    }
}

static struct layer layer_of(const struct bloom *bloom)
{
    struct layer layer = {0};
    bloom_to(bloom, &layer);
    return layer;
}

static struct census census_of(const struct bloom *bloom, const uint8_t *data)
{
    struct layer layer = layer_of(bloom);
    struct census census;
    table_census(&layer, data, 1, &census);
    return census;
}

/* Bounds that a binomial count of `runs` at probability 0.95 keeps but for one time in 10^5: 4.4
 * sigma. The estimators are asymptotic, which may cost one point in a hundred besides. */
static bool covers_95(const char *what, unsigned covered, unsigned runs)
{
    double sigma = sqrt(0.95 * 0.05 * runs);
    double low = 0.94 * runs - 4.4 * sigma, high = 0.96 * runs + 4.4 * sigma;
    bool ok = covered >= low && covered <= high;
    if (!ok)
        printf("# %s: %u of %u, want %.0f to %.0f\n", what, covered, runs, low, high);
    return ok;
}

TEST(empty_filter)
{
    struct bloom bloom = {3, 6, 1};
    uint8_t *data = filter_new(&bloom);
    struct census census = census_of(&bloom, data);
    CHECK(census.fpr == 0 && census.n == 0 && census.n_low == 0 && census.n_high == 0);
    CHECK(census.lines == 3 * LINES && census.line_min == 0 && census.line_max == 0);
    CHECK(census.lines_full == 0 && census.bits_set == 0 && !census.n_at_least);
    free(data);
}

TEST(known_bits)
{
    /* One page, three lines with bits: 256, 512 and 1 of them. */
    struct bloom one = {1, 2, 1}, two = {1, 4, 2};
    uint8_t *data = filter_new(&one);
    memset(data, 0x55, BLOOM_LINE);
    memset(data + 5 * BLOOM_LINE, 0xff, BLOOM_LINE);
    data[64 * BLOOM_LINE - 1] = 0x80;
    struct census census = census_of(&one, data);
    CHECK(census.line_min == 0 && census.line_max == 512 && census.lines_full == 1);
    CHECK(fabs(census.bits_set - 769 / 32768.0) < 1e-15);
    CHECK(fabs(census.fpr - (0.25 + 1 + 1 / 262144.0) / 64) < 1e-15);
    /* f = (x/512)^2 of each line, over the ordered pairs of different lines */
    double a = 0.25, b = 1, c = 1 / 262144.0;
    CHECK(fabs(census_of(&two, data).fpr - 2 * (a * b + b * c + a * c) / (64 * 63)) < 1e-13);
    free(data);
}

TEST(full_filter)
{
    struct bloom bloom = {2, 18, 2};
    uint8_t *data = filter_new(&bloom);
    memset(data, 0xff, 2 * BLOOM_PAGE);
    struct census census = census_of(&bloom, data);
    CHECK(census.fpr == 1 && census.bits_set == 1 && census.n_at_least);
    CHECK(census.line_min == 512 && census.lines_full == 2 * LINES);
    CHECK(census.n_high == HUGE_VAL && census.n == census.n_low);
    free(data);
}

TEST(pieces_sum_to_the_whole)
{
    struct bloom bloom = {50, 12, 2};
    uint8_t *data = filter_new(&bloom);
    struct bloom_census whole = {0}, odd = {0}, even = {0};
    random_restart(0);
    insert_random(&bloom, data, 60000);
    const struct layer layer = layer_of(&bloom);
    bloom_table.tally(&layer, data, 0, bloom.pages * BLOOM_PAGE, &whole);
    for (uint64_t at = bloom.pages; at-- > 0;)
        bloom_table.tally(&layer, data + at * BLOOM_PAGE, at * BLOOM_PAGE, BLOOM_PAGE,
                          at & 1 ? &odd : &even);
    bloom_table.add(&odd, &even);
    CHECK(memcmp(&odd, &whole, sizeof whole) == 0);
    free(data);
}

TEST(carry_between_the_words)
{
    struct bloom_census a = {.pair_hits_high = 1, .pair_hits_low = UINT64_MAX};
    struct bloom_census b = {.pair_hits_high = 2, .pair_hits_low = 2};
    bloom_table.add(&a, &b);
    CHECK(a.pair_hits_high == 4 && a.pair_hits_low == 1);
}

/* The intervals of n hold the truth in 95 % of runs. */
TEST(n_is_covered)
{
    static const struct {
        struct bloom bloom;
        uint64_t n;
    } row[] = {
        {{8, 6, 1}, 250},    {{8, 6, 1}, 26000},  {{16, 3, 1}, 100000}, {{8, 9, 1}, 16000},
        {{8, 10, 2}, 2000},  {{8, 12, 2}, 13000}, {{8, 18, 2}, 85},     {{8, 18, 2}, 8400},
        {{4, 18, 2}, 12600}, {{2, 9, 1}, 25200},
    };
    enum { RUNS = 300, ROWS = sizeof row / sizeof *row };
    unsigned covered_in_all = 0;
    random_restart(0);
    for (size_t i = 0; i < ROWS; i++) {
        const struct bloom *bloom = &row[i].bloom;
        uint8_t *data = filter_new(bloom);
        unsigned covered = 0;
        double sum = 0, n = (double)row[i].n;
        for (unsigned run = 0; run < RUNS; run++) {
            memset(data, 0, bloom->pages * BLOOM_PAGE);
            insert_random(bloom, data, row[i].n);
            struct census census = census_of(bloom, data);
            covered += census.n_low <= n && n <= census.n_high;
            sum += census.n;
        }
        char what[80];
        snprintf(what, sizeof what, "n = %.0f, k = %u, G = %u", n, bloom->k, bloom->lines);
        CHECK(covers_95(what, covered, RUNS));
        covered_in_all += covered;
        /* The mean of the runs is unbiased to 0.2 %. */
        CHECK(fabs(sum / RUNS - n) <= 0.002 * n);
        free(data);
    }
    CHECK(covers_95("all together", covered_in_all, RUNS * ROWS));
}

/* The FPR from the bits is what random queries meet. */
TEST(fpr_is_what_queries_meet)
{
    static const struct {
        struct bloom bloom;
        uint64_t n;
    } row[] = {
        {{30, 3, 1}, 200000}, {{30, 6, 1}, 100000}, {{30, 6, 1}, 200000},  {{30, 9, 1}, 63000},
        {{30, 10, 2}, 67000}, {{30, 12, 2}, 80000}, {{30, 18, 2}, 100000},
    };
    enum { QUERIES = 1000000 };
    random_restart(0);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct bloom *bloom = &row[i].bloom;
        uint8_t *data = filter_new(bloom);
        insert_random(bloom, data, row[i].n);
        double p = census_of(bloom, data).fpr, hits = 0;
        for (unsigned q = 0; q < QUERIES / LAYER_BATCH; q++) {
            uint64_t hash[LAYER_BATCH], present[LAYER_BATCH / 64] = {0};
            for (unsigned j = 0; j < LAYER_BATCH; j++)
                hash[j] = draw();
            bloom_query(bloom, data, hash, LAYER_BATCH, present);
            for (unsigned j = 0; j < LAYER_BATCH / 64; j++)
                hits += __builtin_popcountll(present[j]);
        }
        double asked = QUERIES / LAYER_BATCH * LAYER_BATCH;
        double sigma = sqrt(asked * p * (1 - p));
        /* 4.5 sigma: one false alarm in 10^5 */
        bool ok = fabs(hits - asked * p) <= 4.5 * sigma;
        CHECK(ok);
        if (!ok)
            printf("# k = %u, G = %u, n = %llu: %.0f hits, expected %.1f\n", bloom->k, bloom->lines,
                   (unsigned long long)row[i].n, hits, asked * p);
        free(data);
    }
}

/* Of 8 to 20 times the capacity. */
TEST(too_full_says_at_least)
{
    static const struct {
        struct bloom bloom;
        uint64_t n;
    } row[] = {
        {{1, 3, 1}, 54000},  {{3, 10, 2}, 67500}, {{1, 18, 2}, 12600},
        {{8, 6, 1}, 210000}, {{2, 6, 1}, 79000},  {{1, 6, 1}, 75600},
    };
    enum { RUNS = 100 };
    random_restart(0);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        uint8_t *data = filter_new(&row[i].bloom);
        double n = (double)row[i].n;
        unsigned held = 0;
        for (unsigned run = 0; run < RUNS; run++) {
            memset(data, 0, row[i].bloom.pages * BLOOM_PAGE);
            insert_random(&row[i].bloom, data, row[i].n);
            struct census census = census_of(&row[i].bloom, data);
            CHECK(census.n_at_least && census.n == census.n_low && census.n_high == HUGE_VAL);
            CHECK(census.n > 0.4 * n);
            held += census.n <= n;
        }
        CHECK(held >= 90);
        free(data);
    }
}

int main(int argc, char **argv)
{
    /* How bits are set does not matter here, and emulated machines are slow with vectors. */
    variant_use(&bloom_variants, "plain");
    random_begin(argc, argv);
    RUN(empty_filter);
    RUN(known_bits);
    RUN(full_filter);
    RUN(pieces_sum_to_the_whole);
    RUN(carry_between_the_words);
    RUN(n_is_covered);
    RUN(fpr_is_what_queries_meet);
    RUN(too_full_says_at_least);
    return check_done();
}
