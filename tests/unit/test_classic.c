/* SPDX-License-Identifier: MIT */
/* tags: computing portable foreign */
#include "foreign/classic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "check.h"
#include "design.h"
#include "foreign/hash.h"
#include "foreign/java.h"

/* A generator for test numbers: splitmix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

TEST(the_modulus_is_exact)
{
    static const uint64_t edges[] = {1,
                                     2,
                                     3,
                                     63,
                                     64,
                                     65,
                                     9585,
                                     0xffffffff,
                                     0x100000000,
                                     (uint64_t)1 << 45,
                                     UINT64_MAX / 3,
                                     UINT64_MAX - 58,
                                     UINT64_MAX};
    uint64_t state = 1;
    for (size_t i = 0; i < 1000; i++) {
        uint64_t m = i < sizeof edges / sizeof *edges ? edges[i] : next(&state) >> i % 64;
        const struct modulus by = modulus_of(m > 0 ? m : 1);
        for (int j = 0; j < 100; j++) {
            uint64_t x = next(&state) >> j % 64;
            CHECK(modulo(x, by) == x % by.m);
        }
        CHECK(modulo(UINT64_MAX, by) == UINT64_MAX % by.m);
        CHECK(modulo(by.m - 1, by) == by.m - 1);
        CHECK(modulo(by.m, by) == 0);
    }
}

/* A Guava layer of m bits. */
static struct layer layer_of(uint64_t m, unsigned k)
{
    struct layer layer = {.kind = &kind_guava, .n_design = 1, .fpr_design = 0.5};
    classic_to(&(struct classic){.m = m, .k = k, .variant = 1}, &layer);
    return layer;
}

TEST(query_and_add_agree_with_the_positions)
{
    enum { N = 3000, M = 64 * 300 };
    uint64_t state = 2;
    for (unsigned k = 1; k <= 255; k += 127) {
        struct layer layer = layer_of(M, k);
        static uint64_t hash[2 * N];
        static uint8_t data[M / 8], plain[M / 8];
        for (size_t i = 0; i < 2 * N; i++)
            hash[i] = next(&state);
        memset(data, 0, sizeof data);
        memset(plain, 0, sizeof plain);
        for (size_t at = 0; at < N; at += 100) {
            const struct hashes keys = {hash + at, N, NULL};
            uint64_t present[2] = {0}, now[2] = {0};
            static uint64_t position[100 * 255];
            kind_guava.layout->positions(&layer, keys, 100, position);
            kind_guava.add(&layer, data, keys, 100, present);
            for (size_t i = 0; i < 100; i++) {
                bool had = true;
                for (unsigned j = 0; j < k; j++) {
                    uint64_t x = position[i * k + j];
                    CHECK(x < M);
                    had &= plain[x / 8] >> x % 8 & 1;
                    plain[x / 8] |= (uint8_t)(1U << x % 8);
                }
                CHECK((present[i / 64] >> i % 64 & 1) == had);
            }
            CHECK(memcmp(data, plain, sizeof data) == 0);
            kind_guava.query(&layer, data, keys, 100, now);
            CHECK(now[0] == UINT64_MAX && now[1] == ((uint64_t)1 << 36) - 1);
        }
    }
}

/* Of a filter beyond the cache, the first bits of all keys are looked at before the others. */
TEST(query_of_a_large_filter_agrees_with_the_positions)
{
    enum { N = 640, LEN = 1 << 19 };
    static uint8_t data[LEN];
    static uint64_t hash[2 * N], position[N * 10];
    uint64_t state = 8;
    for (size_t i = 0; i < LEN; i++)
        data[i] = (uint8_t)(next(&state) | next(&state));
    for (size_t i = 0; i < 2 * N; i++)
        hash[i] = next(&state);
    const struct hashes keys = {hash, N, NULL};
    for (unsigned k = 3; k <= 10; k++) {
        const struct layer layer = layer_of(8 * LEN, k);
        uint64_t present[N / 64] = {0};
        kind_guava.layout->positions(&layer, keys, N, position);
        kind_guava.query(&layer, data, keys, N, present);
        for (size_t i = 0; i < N; i++) {
            bool all = true;
            for (const uint64_t *x = position + i * k; x < position + (i + 1) * k; x++)
                all &= data[*x / 8] >> *x % 8 & 1;
            CHECK((present[i / 64] >> i % 64 & 1) == all);
        }
    }
}

TEST(samples_are_of_the_positions_that_keys_have)
{
    static const char *const layouts[] = {"bitsandblooms",     "dcso",      "guava",
                                          "guava:strategy=32", "redisson",  "spark",
                                          "spark:version=2",   "redisbloom"};
    enum { N = 100, MOST_K = 20 };
    uint64_t state = 5;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        struct err err;
        struct layout_spec spec;
        struct layout_filter filter;
        uint64_t hash[4][N], position[N * MOST_K];
        MUST(layout_parse(layouts[l], &spec, &err));
        MUST(spec.kind->layout->design(&spec, 100000, 1e-4, &filter, &err));
        const struct layout *layout = spec.kind->layout;
        const struct classic c = classic_of(&filter.layer[0]);
        MUST(c.k <= MOST_K && layout->value != NULL);
        /* Of Spark, a lane has 32 bits. Two of four lanes of a sample follow from the others. */
        for (size_t i = 0; i < N; i++) {
            hash[0][i] = next(&state) >> (strncmp(layouts[l], "spark", 5) == 0 ? 32 : 0);
            hash[1][i] = next(&state) >> (strncmp(layouts[l], "spark", 5) == 0 ? 32 : 0);
            hash[2][i] = hash[0][i], hash[3][i] = hash[1][i];
            hash[2][i] = bits_draw(&hash[2][i]), hash[3][i] = bits_draw(&hash[3][i]);
        }
        layout->positions(&filter.layer[0], (struct hashes){hash[0], N, NULL}, N, position);
        unsigned wrong_ones = 0;
        for (size_t i = 0; i < N; i++)
            for (unsigned j = 0; j < c.k; j++)
                wrong_ones += layout->value(c.variant, hash[0][i], hash[1][i], j) % c.m !=
                              position[i * c.k + j];
        CHECK(wrong_ones == 0);
        if (!check_ok)
            printf("# %s: %u\n", layouts[l], wrong_ones);
    }
}

static bool note_page(void *ctx, uint64_t page)
{
    ((bool *)ctx)[page] = true;
    return true;
}

TEST(pages_are_those_of_the_positions)
{
    enum { PAGES = 9, K = 7 };
    struct layer layer = layer_of(PAGES * 8 * LAYER_PAGE, K);
    uint64_t state = 3, position[K];
    for (int i = 0; i < 1000; i++) {
        uint64_t hash[2] = {next(&state), next(&state)};
        bool needed[PAGES] = {false}, pages[PAGES] = {false};
        kind_guava.layout->positions(&layer, (struct hashes){hash, 1, NULL}, 1, position);
        for (unsigned j = 0; j < K; j++)
            pages[position[j] / 8 / LAYER_PAGE] = true;
        kind_guava.pages(&layer, NULL, (struct hashes){hash, 1, NULL}, 1, note_page, needed);
        CHECK(memcmp(pages, needed, sizeof pages) == 0);
    }
}

/* Seed 4: fixed, so the numbers are the same in every run. The estimate's standard deviation at
 * half full is below 0.5 % here; the interval fails to hold in 5 % of the cases by design, so of
 * 200 filters at most 25 may miss (a chance below 1e-5). */
TEST(the_estimate_holds)
{
    enum { M = 64 * 4096, K = 7, N = 30000 };
    struct layer layer = layer_of(M, K);
    static uint8_t data[M / 8];
    uint64_t state = 4;
    unsigned missed = 0;
    for (int run = 0; run < 200; run++) {
        struct census c;
        memset(data, 0, sizeof data);
        for (size_t i = 0; i < N; i += 100) {
            uint64_t hash[200], present[2] = {0};
            for (size_t j = 0; j < 200; j++)
                hash[j] = next(&state);
            kind_guava.add(&layer, data, (struct hashes){hash, 100, NULL}, 100, present);
        }
        kind_guava.census(&layer, data, 2, &c);
        CHECK(fabs(c.n / N - 1) < 0.03);
        missed += c.n_low > N || c.n_high < N;
        CHECK(fabs(c.fpr / kind_guava.fpr_at(&layer, N) - 1) < 0.1);
    }
    CHECK(missed <= 25);
}

/* The number of 2^22 random hashes that are in the layer. */
static double count_random(const struct layer *layer, const uint8_t *data, uint64_t *state)
{
    enum { N = 64 };
    double count = 0;
    for (int i = 0; i < (1 << 22) / N; i++) {
        uint64_t hash[2 * N], present = 0;
        for (int j = 0; j < 2 * N; j++)
            hash[j] = next(state);
        layer->kind->query(layer, data, (struct hashes){hash, N, NULL}, N, &present);
        count += __builtin_popcountll(present);
    }
    return count;
}

/* 300 keys in 5760 bits at 13 positions each, as for an FPR of 1e-4. The positions of a key depend
 * on each other, and the FPR is 1.3 to 4 times the formula's; of DCSO, where a power of 2 divides
 * m, up to 200 times. The sample is of 2^24 hashes: for a
 * rate of at least 1e-4, five standard deviations of the sample and of the count together are at
 * most 5 / sqrt(2^22 1e-4) sqrt(1 + 1/4), 27 %, at which an error has a probability below 1e-6.
 * Seed 5. */
TEST(the_fpr_of_small_filters_is_measured)
{
    enum { M = 64 * 90, K = 13, KEYS = 300 };
    static const struct {
        const struct kind *kind;
        uint64_t variant, m;
    } cases[] = {{&kind_guava, 1, M},    {&kind_guava, 0, M},      {&kind_redisbloom, 0, M},
                 {&kind_redisson, 0, M}, {&kind_dcso, 0, 1 << 12}, {&kind_dcso, 0, 3 << 10}};
    uint64_t state = 5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layer layer = {.kind = cases[i].kind};
        struct classic c = {.m = cases[i].m, .k = K, .variant = cases[i].variant};
        uint8_t data[M / 8] = {0};
        uint64_t present = 0;
        struct census census;
        classic_to(&c, &layer);
        for (int key = 0; key < KEYS; key++) {
            uint64_t hash[2] = {next(&state), next(&state)};
            layer.kind->add(&layer, data, (struct hashes){hash, 1, NULL}, 1, &present);
        }
        layer.kind->census(&layer, data, 1, &census);
        double fpr = layer.kind->sampled_fpr(&layer, data, 1, census.bits_set);
        printf("# %s %d: %g, by the formula %g\n", layer.kind->name, (int)c.m, fpr,
               pow(census.bits_set, K));
        CHECK(fpr > 1e-4 && fpr > 1.2 * pow(census.bits_set, classic_of(&layer).k));
        CHECK(layer.kind->sampled_fpr(&layer, data, 2, census.bits_set) == fpr);
        CHECK(fabs(count_random(&layer, data, &state) / (1 << 22) / fpr - 1) < 0.27);
    }
}

/* The excess of Guava's two strategies and of RedisBloom, with m a power of 2, thrice one, and with
 * few common factors. For a table of m bits it is a number divided by m, so small filters show what
 * it is in large ones: their formula gives about 1e-6, and the excess is 3e-5 to 3e-4. In two
 * filters 2^23 hashes are tried, and 260 to 2300 hit. Hits come in threes or so, so that six
 * standard deviations are 6 sqrt(3 / hits); the estimate has an error of its own of a tenth. */
TEST(the_excess_is_the_estimated_one)
{
    enum { K = 20, FILTERS = 2, MOST = 4096 };
    static const uint64_t sizes[] = {4096, 3072, 3008};
    static const struct {
        const struct kind *kind;
        uint64_t variant;
    } cases[] = {{&kind_guava, 1}, {&kind_guava, 0}, {&kind_redisbloom, 4 << 6}};
    uint64_t state = 6;
    for (size_t i = 0; i < 9; i++) {
        struct layer layer = {.kind = cases[i / 3].kind};
        struct classic c = {.m = sizes[i % 3], .k = K, .variant = cases[i / 3].variant};
        double hits = 0, expected = 0;
        classic_to(&c, &layer);
        for (int filter = 0; filter < FILTERS; filter++) {
            uint8_t data[MOST / 8] = {0};
            struct census census;
            uint64_t present = 0;
            for (uint64_t key = 0; key < c.m * 69 / 100 / K; key++) {
                uint64_t hash[2] = {next(&state), next(&state)};
                layer.kind->add(&layer, data, (struct hashes){hash, 1, NULL}, 1, &present);
            }
            layer.kind->census(&layer, data, 1, &census);
            expected += census.fpr * (1 << 22);
            hits += count_random(&layer, data, &state);
        }
        printf("# %s %d: %.0f hits, %.0f expected\n", layer.kind->name, (int)c.m, hits, expected);
        CHECK(fabs(hits / expected - 1) < 0.1 + 6 * sqrt(3 / expected));
    }
}

static uint64_t n_looks;

/* Too many of them end early. */
static uint64_t look(uint64_t variant, uint64_t h1, uint64_t h2, unsigned i)
{
    (void)variant;
    return ++n_looks > (uint64_t)1 << 27 ? 0 : h1 + i * h2;
}

/* A file may state that keys have thousands of positions, with nearly all bits set. */
TEST(samples_take_a_limited_time)
{
    enum { M = 64 * 4096 };
    static uint8_t data[M / 8];
    struct layout layout = {.value = look};
    struct kind kind = kind_guava;
    struct layer layer = layer_of(M, 4096);
    double set = pow(3e-5, 1.0 / 4096);
    kind.layout = &layout;
    layer.kind = &kind;
    memset(data, 0xff, sizeof data);
    for (unsigned bit = 0; bit < M; bit += 394)
        data[bit / 8] &= (uint8_t) ~(1 << bit % 8);
    n_looks = 0;
    CHECK(classic_sample(&layer, data, 1, set) == pow(set, 4096));
    classic_sample(&layer, data, 1, 1);
    CHECK(n_looks < (uint64_t)1 << 27);
}

/* So only the first ones are compared with each other. */
TEST(coincidences_take_a_limited_time)
{
    double excess[2];
    for (unsigned i = 0; i < 2; i++) {
        struct classic c = {.m = 192, .k = i == 0 ? 256 : 4096};
        struct layer layer = {.kind = &kind_guava};
        classic_to(&c, &layer);
        excess[i] = kind_guava.layout->excess(&layer, 0.01);
    }
    CHECK(excess[0] > 0 && excess[0] == excess[1]);
}

/* With m bits, the FPR is above the formula by about 1/m. */
TEST(the_fpr_of_large_filters_follows_from_the_bits)
{
    struct layer layer = layer_of((uint64_t)1 << 20, 10);
    CHECK(kind_guava.sampled_fpr(&layer, NULL, 1, 0.5) == pow(0.5, 10));
    CHECK(kind_guava.sampled_fpr(&layer, NULL, 1, 0) == 0);
}

TEST(a_full_filter_gives_a_lower_bound_only)
{
    struct layer layer = layer_of(64, 3);
    uint8_t data[8];
    struct census c;
    memset(data, 0xff, sizeof data);
    kind_guava.census(&layer, data, 1, &c);
    CHECK(c.n_at_least && c.fpr == 1 && c.n > 0 && isfinite(c.n));
}

TEST(bits_behind_the_last_do_not_count)
{
    static const struct {
        uint64_t m, set;
    } cases[] = {{65, 1}, {66, 2}, {96, 2}, {100, 6}, {104, 10}, {128, 10}};
    const uint8_t data[16] = {1, [8] = 2, [12] = 0xff};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layer layer = layer_of(cases[i].m, 3);
        struct census c;
        kind_guava.census(&layer, data, 1, &c);
        CHECK(fabs(c.bits_set * (double)cases[i].m - (double)cases[i].set) < 1e-9);
    }
}

TEST(a_size_that_the_bits_contradict)
{
    struct err err;
    /* 2^-29 is above 1e-9, 2^-30 is not. */
    MUST(classic_check_size(4000, 29, 2000, &err));
    CHECK(!classic_check_size(4000, 30, 2000, &err));
    CHECK_STR(err.text,
              "all 30 set bits are among the first 2000 of 4000: the filter was made with fewer "
              "bits");
    MUST(classic_check_size(4000, 4000, 4000, &err));
    MUST(classic_check_size(4000, 4000, 4008, &err));
    MUST(classic_check_size(4000, 0, 0, &err));
    MUST(classic_check_size(4000, 0, 8, &err));
}

TEST(a_spec_is_parsed_or_refused_with_what_is_known)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"", "no layout ''"},
        {"Guava", "no layout 'Guava'"},
        {"guava:", "has no parameter ''"},
        {"guava:utf16", "has no parameter 'utf16'; did you mean funnel=utf16?"},
        {"guava:funnel", "funnel is '', but can be utf8"},
        {"guava:funnel=", "funnel is '', but can be utf8"},
        {"guava:funnel=utf", "can be utf8, utf16, bytes, int, long"},
        {"guava:funnel=utf8,funnel=utf8", "given twice"},
        {"guava:funnels=utf8", "funnel, strategy, k"},
    };
    struct layout_spec spec;
    struct err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!layout_parse(bad[i].text, &spec, &err));
        CHECK(strstr(err.text, bad[i].error) != NULL);
    }
    char text[LAYOUT_TEXT + 1] = "guava:";
    memset(text + strlen(text), 'x', LAYOUT_TEXT - strlen(text));
    CHECK(!layout_parse(text, &spec, &err));
    CHECK_STR(err.text, "the layout is longer than 255 bytes");
    text[LAYOUT_TEXT - 1] = '\0';
    CHECK(!layout_parse(text, &spec, &err));
    CHECK(strstr(err.text, "has no parameter 'xxx") != NULL);
    CHECK(layout_parse("guava:strategy=32,funnel=long", &spec, &err));
    CHECK(spec.kind == &kind_guava && layout_choice(&spec, 0) == 4 &&
          layout_choice(&spec, 1) == 1 && layout_choice(&spec, 2) == 0);
}

TEST(bits_come_back_from_every_order)
{
    uint8_t bytes[24], there[24], back[24];
    uint64_t state = 5;
    for (int order = ORDER_LOW_FIRST; order <= ORDER_BIG_WORDS; order++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)next(&state);
        struct layout_bits bits = {
            .data = bytes, .len = sizeof bytes, .order = (enum layout_order)order};
        layout_take(&bits, 0, there, sizeof there);
        bits.data = there;
        layout_take(&bits, 0, back, sizeof back);
        CHECK(memcmp(bytes, back, sizeof bytes) == 0);
    }
    const struct layout_bits high = {
        .data = (const uint8_t *)"\x80\x01", .len = 2, .order = ORDER_HIGH_FIRST};
    layout_take(&high, 0, there, 8);
    CHECK(memcmp(there, "\x01\x80\0\0\0\0\0\0", 8) == 0);
}

/* Geometry that no file of the layout has. The first row of each kind is sound. */
TEST(what_no_layout_can_have_is_refused)
{
    static const struct {
        const struct kind *kind;
        uint64_t m, k, variant, extra, form; /* form: geometry[3] */
        const char *why;
    } rows[] = {
        {&kind_bitsandblooms, 6400, 14, 0, 8, 64 << 2 | 3, NULL},
        {&kind_bitsandblooms, 6400, 14, 1, 0, 0, "its geometry is not one of bits-and-blooms"},
        {&kind_bitsandblooms, 6400, 14, 0, 0, 1 << 2, "its geometry is not one of bits-and-blooms"},
        {&kind_bitsandblooms, 6400, 14, 0, 0, 2, "its geometry is not one of bits-and-blooms"},
        {&kind_bitsandblooms, CLASSIC_MAX_M + 1, 14, 0, 0, 0,
         "its geometry is not one of bits-and-blooms"},
        {&kind_bitsandblooms, CLASSIC_MAX_M, 14, 0, 8, 1 << 2,
         "its geometry is not one of bits-and-blooms"},
        {&kind_dcso, 6400, 14, 0, 5, 1, NULL},
        {&kind_dcso, 0, 14, 0, 0, 0, "its number of bits is out of range"},
        {&kind_dcso, CLASSIC_MAX_M + 1, 14, 0, 0, 0, "its number of bits is out of range"},
        {&kind_dcso, 6400, 0, 0, 0, 0, "its number of positions is out of range"},
        {&kind_dcso, 6400, CLASSIC_MAX_K + 1, 0, 0, 0, "its number of positions is out of range"},
        {&kind_dcso, 6400, 14, 1, 0, 0, "its geometry has an unknown field"},
        {&kind_dcso, 6400, 14, 0, 0, 2, "its geometry has an unknown field"},
        {&kind_gozero, (uint64_t)1 << 32, 14, 0, 0, 0, NULL},
        {&kind_gozero, ((uint64_t)1 << 32) + 1, 14, 0, 0, 0,
         "its geometry is not one of go-zero's"},
        {&kind_gozero, 6400, 13, 0, 0, 0, "its geometry is not one of go-zero's"},
        {&kind_gozero, 6400, 14, 1, 0, 0, "its geometry is not one of go-zero's"},
        {&kind_gozero, 6400, 14, 0, 8, 0, "its geometry is not one of go-zero's"},
        {&kind_gozero, 6400, 14, 0, 0, 1, "its geometry is not one of go-zero's"},
        {&kind_gozero, 0, 14, 0, 0, 0, "its number of bits is out of range"},
        {&kind_guava, 64 * (uint64_t)INT32_MAX, 255, 1, 8, 1, NULL},
        {&kind_guava, 64 * ((uint64_t)INT32_MAX + 1), 14, 1, 0, 0,
         "its geometry is not one of Guava's"},
        {&kind_guava, 6401, 14, 1, 0, 0, "its geometry is not one of Guava's"},
        {&kind_guava, 6400, 256, 1, 0, 0, "its geometry is not one of Guava's"},
        {&kind_guava, 6400, 14, 2, 0, 0, "its strategy is unknown"},
        {&kind_guava, 6400, 14, 1, 0, 2, "its geometry is not one of Guava's"},
        {&kind_guava, 6400, 14, 1, 8, 0, "its geometry is not one of Guava's"},
        {&kind_php, (uint64_t)1 << 32, PHP_MOST, 0, 0, 0, NULL},
        {&kind_php, (uint64_t)1 << 31, 3, 0, 0, 0, "its geometry is not one of the PHP class"},
        {&kind_php, (uint64_t)1 << 32, PHP_MOST + 1, 0, 0, 0,
         "its geometry is not one of the PHP class"},
        {&kind_php, (uint64_t)1 << 32, 3, 1, 0, 0, "its geometry is not one of the PHP class"},
        {&kind_php, (uint64_t)1 << 32, 3, 0, 8, 0, "its geometry is not one of the PHP class"},
        {&kind_php, (uint64_t)1 << 32, 3, 0, 0, 1, "its geometry is not one of the PHP class"},
        {&kind_redisson, 6401, 14, 0, 0, 0, NULL},
        {&kind_redisson, 0, 14, 0, 0, 0, "its number of bits is out of range"},
        {&kind_redisson, (uint64_t)1 << 33, 14, 0, 0, 0, "its geometry is not one of Redisson's"},
        {&kind_redisson, 6400, 14, 1, 0, 0, "its geometry is not one of Redisson's"},
        {&kind_redisson, 6400, 14, 0, 8, 0, "its geometry is not one of Redisson's"},
        {&kind_redisson, 6400, 14, 0, 0, 1, "its geometry is not one of Redisson's"},
        {&kind_spark, 64 * (uint64_t)INT32_MAX, 14, 2, 0, 0, NULL},
        {&kind_spark, 64 * ((uint64_t)INT32_MAX + 1), 14, 2, 0, 0,
         "its geometry is not one of Spark's"},
        {&kind_spark, 6400, 14, 0, 0, 0, "its geometry is not one of Spark's"},
        {&kind_spark, 6400, 14, 3, 0, 0, "its geometry is not one of Spark's"},
        {&kind_spark, 6401, 14, 1, 0, 0, "its geometry is not one of Spark's"},
        {&kind_spark, 6400, 14, 1, 8, 0, "its geometry is not one of Spark's"},
        {&kind_spark, 6400, 14, 1, 0, 1, "its geometry is not one of Spark's"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {.text = ""};
        struct layer layer = {.kind = rows[i].kind, .n_design = 1, .fpr_design = 0.5};
        classic_to(&(struct classic){.m = rows[i].m,
                                     .k = (unsigned)rows[i].k,
                                     .variant = rows[i].variant,
                                     .extra = rows[i].extra},
                   &layer);
        layer.geometry[3] = rows[i].form;
        bool sound = layer.kind->check(&layer, &err);
        CHECK(sound == (rows[i].why == NULL));
        CHECK_STR(err.text, sound ? "" : rows[i].why);
        layer.data_len += 8;
        CHECK(!layer.kind->check(&layer, &err));
        if (sound)
            CHECK_STR(err.text, "its number of bits does not fit its length");
    }
}

/* What is wrong with a file of these bytes; "" if it is read. */
static const char *wrong(const char *layout, const void *bytes, size_t len)
{
    static struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    const struct layout_foreign in = {.data = {bytes}, .len = {len}, .name = {"it"}};
    err.text[0] = '\0';
    MUST(layout_parse(layout, &spec, &err));
    if (!spec.kind->layout->read(&spec, &in, &filter, bits, &err))
        return err.text;
    struct err why;
    MUST(spec.kind->check(&filter.layer[0], &why));
    free((void *)(uintptr_t)bits[0].owned);
    return "";
}

#define FILE_OF(bytes) bytes, sizeof bytes - 1

TEST(what_is_wrong_with_a_file_is_said)
{
    static const struct {
        const char *layout, *bytes;
        size_t len;
        const char *why;
    } rows[] = {
        {"guava", FILE_OF("\1\1\0\0\0\1........"), ""},
        {"guava:strategy=64", FILE_OF("\1\1\0\0\0\1........"), ""},
        {"guava", FILE_OF("\1\1\0\0\0"), "it ends within its header"},
        {"guava", FILE_OF("\2\1\0\0\0\1........"), "its strategy is 2; known are 0 and 1"},
        {"guava:strategy=32", FILE_OF("\1\1\0\0\0\1........"), "its strategy is MURMUR128_MITZ_64"},
        {"guava:strategy=64", FILE_OF("\0\1\0\0\0\1........"), "its strategy is MURMUR128_MITZ_32"},
        {"guava", FILE_OF("\1\0\0\0\0\1........"), "its number of positions is 0"},
        {"guava", FILE_OF("\1\1\0\0\0\0"), "its number of words is 0"},
        {"guava", FILE_OF("\1\1\x80\0\0\0"), "its number of words is -2147483648"},
        {"guava", FILE_OF("\1\1\0\0\0\1......."), "it is cut short: 1 words need 14 bytes"},
        {"guava", FILE_OF("\1\1\0\0\0\1.........."),
         "2 bytes follow its bits: 'head -c 14' drops them"},
        {"spark", FILE_OF("\0\0\0\1\0\0\0\1\0\0\0\1........"), ""},
        {"spark:version=2,seed=-1", FILE_OF("\0\0\0\2\0\0\0\1\xff\xff\xff\xff\0\0\0\1........"),
         ""},
        {"spark:version=2,seed=4294967295",
         FILE_OF("\0\0\0\2\0\0\0\1\xff\xff\xff\xff\0\0\0\1........"), ""},
        {"spark:version=2,seed=-2147483648", FILE_OF("\0\0\0\2\0\0\0\1\x80\0\0\0\0\0\0\1........"),
         ""},
        {"spark", FILE_OF("\0\0\0\1\0\0\0\1\0\0\0"), "it ends within its header"},
        {"spark", FILE_OF("\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0"), "it ends within its header"},
        {"spark", FILE_OF("\0\0\0\0\0\0\0\1\0\0\0\1........"),
         "its version is 0; known are 1 and 2"},
        {"spark", FILE_OF("\0\0\0\3\0\0\0\1\0\0\0\1........"),
         "its version is 3; known are 1 and 2"},
        {"spark", FILE_OF("AAAA............"), "it is base64, which 'seen import --base64' reads"},
        {"spark", FILE_OF("\0\0\0\1\0\0\0\1\0\0\0\0"), "its number of words is 0"},
        {"spark", FILE_OF("\0\0\0\1\0\0\0\1\x80\0\0\0"), "its number of words is -2147483648"},
        {"spark", FILE_OF("\0\0\0\1\0\0\0\0\0\0\0\1........"),
         "its number of positions is 0, not from 1 to 4096"},
        {"spark", FILE_OF("\0\0\0\1\0\0\x10\1\0\0\0\1........"),
         "its number of positions is 4097, not from 1 to 4096"},
        {"spark:version=2", FILE_OF("\0\0\0\1\0\0\0\1\0\0\0\1........"),
         "its version is 1: leave out version="},
        {"spark:seed=1", FILE_OF("\0\0\0\2\0\0\0\1\xff\xff\xff\xff\0\0\0\1........"),
         "its seed is -1: leave out seed="},
        {"spark:seed=4294967296", FILE_OF("\0\0\0\1\0\0\0\1\0\0\0\1........"),
         "layout spark: seed is '4294967296', but must be an integer of 32 bits"},
        {"spark", FILE_OF("\0\0\0\1\0\0\0\1\0\0\0\1......."),
         "it has 19 bytes, but 64 bits make 20"},
        {"dcso", FILE_OF("\1\0\0\0\0\0\0\0"), "it ends within its header"},
        {"bitsandblooms",
         FILE_OF("\0\0\0\0\0\0\0\x3f\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x3f"
                 "\0\0\0\0\0\0\0\0"),
         ""},
        {"bitsandblooms", FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"), ""},
        {"bitsandblooms",
         FILE_OF("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x40"
                 "........"),
         "its number of bits is 0, not from 1 to 2^45"},
        {"bitsandblooms",
         FILE_OF("\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x3f"
                 "........"),
         "its set has 63 bits, for positions below 64"},
        {"bitsandblooms",
         FILE_OF("\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\1\0\0\x20\0\0\0\0\1"
                 "........"),
         "its set has 35184372088833 bits, for positions below 64"},
        {"bitsandblooms",
         FILE_OF("\0\0\0\0\0\0\0\x3f\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x3f"
                 "\x80\0\0\0\0\0\0\0"),
         "bit 63 is set, but there are 63 bits"},
        {"bitsandblooms", FILE_OF("{\"m\":063,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "it is not JSON as the program writes it"},
        {"bitsandblooms", FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"]"),
         "it is not JSON as the program writes it"},
        {"bitsandblooms", FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAA.AA==\"}"),
         "it is not base64 as the program writes it"},
        {"bitsandblooms", FILE_OF("{\"n\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "it is not JSON as the program writes it"},
        {"bitsandblooms", FILE_OF("{\"m\":64,\"K\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "it is not JSON as the program writes it"},
        {"bitsandblooms", FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAA.EAAAAAAAAAAAA==\"}"),
         "it is not JSON as the program writes it"},
        {"php:functions=JSHash+Hash", FILE_OF(""),
         "layout php: no hash function 'Hash': there are BKDRHash, SDBMHash, JSHash, DJBHash, "
         "DEKHash, FNVHash, ELFHash and PJWHash"},
        {"php:functions=JSHash+JSHash", FILE_OF(""), "layout php: JSHash is given twice"},
        {"bitsandblooms:bits=x", FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "layout bitsandblooms: bits is 'x', but must be a number from 1 to 35184372088832"},
        {"bitsandblooms:bits=65,k=1",
         FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "it has bits=64 and k=1: leave both out"},
        {"bitsandblooms:bits=64,k=2",
         FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "it has bits=64 and k=1: leave both out"},
        {"bitsandblooms:json=no", FILE_OF("{\"m\":64,\"k\":1,\"b\":\"AAAAAAAAAEAAAAAAAAAAAA==\"}"),
         "it is JSON: leave out json="},
        {"bitsandblooms:json=yes",
         FILE_OF("\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x40"
                 "........"),
         "it is not JSON: leave out json="},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_STR(wrong(rows[i].layout, rows[i].bytes, rows[i].len), rows[i].why);
    uint8_t java[JAVA_HEADER + 8 + JAVA_TAIL] = {0};
    size_t len = JAVA_HEADER + 8 + java_tail(1, true, java + JAVA_HEADER + 8);
    java_put(java, 1, 1);
    CHECK_STR(wrong("guava", java, len), "");
    CHECK_STR(wrong("guava:funnel=utf16", java, len), "");
    CHECK_STR(wrong("guava:funnel=int", java, len), "its funnel is not int");
    CHECK_STR(wrong("guava:strategy=32", java, len), "its strategy is MURMUR128_MITZ_64");
    CHECK_STR(wrong("guava", java, JAVA_HEADER + 7), "it is cut short: 1 words need 234 bytes");
    CHECK_STR(wrong("guava", java, len - 1),
              "it does not end in its strategy, as a filter alone does");
    java_put(java, 0, 1);
    CHECK_STR(wrong("guava", java, len), "its number of positions is 0");
    CHECK_STR(wrong("guava", java, JAVA_HEADER), "its number of positions is 0");
    java_put(java, 255, 1);
    CHECK_STR(wrong("guava", java, len), "");
    CHECK_STR(wrong("guava", java, JAVA_HEADER + 8),
              "it does not end in its strategy, as a filter alone does");
    java_put(java, 256, 1);
    CHECK_STR(wrong("guava", java, len), "its number of positions is 256");
    java_put(java, 1, 0);
    CHECK_STR(wrong("guava", java, len), "its number of words is 0");
    java_put(java, 1, UINT32_MAX);
    CHECK_STR(wrong("guava", java, len), "its number of words is -1");
}

TEST(what_the_program_cannot_make_is_refused)
{
    static const struct {
        const char *layout;
        uint64_t n;
        double p;
        const char *why;
    } rows[] = {
        {"bitsandblooms", (uint64_t)1 << 45, 0.01, "the filter would have more than 2^45 bits"},
        {"bitsandblooms:bits=64,k=0", 1, 0.01,
         "layout bitsandblooms: k is '0', but must be a number from 1 to 4096"},
        {"gozero:bits=0", 1, 0.01,
         "layout gozero: bits is '0', but must be a number from 1 to 4294967296"},
        {"redisson:k=4097", 1, 0.01,
         "layout redisson: k is '4097', but must be a number from 1 to 4096"},
        {"bitsandblooms:bits=64", 1, 0.01,
         "layout bitsandblooms: give both or none of bits=M and k=K"},
        {"gozero", (uint64_t)1 << 32, 0,
         "it would need more than 2^32 bits, which Redis cannot hold"},
        {"guava", 1, 1e-200, "Guava cannot make a filter with more than 255 positions a key"},
        {"guava", (uint64_t)1 << 40, 0.01,
         "Guava cannot make a filter of more than 137438953408 bits"},
        {"guava", 1, 0.9, "Guava cannot make a filter for so few keys at an FPR of 0.9"},
        {"php", (uint64_t)1 << 32, 0,
         "it holds at most 992348157 keys: half of its bits are set then"},
        {"spark:seed=5x", 1000, 0.01,
         "layout spark: seed is '5x', but must be an integer of 32 bits"},
        {"spark:seed=x", 1000, 0.01,
         "layout spark: seed is 'x', but must be an integer of 32 bits"},
        {"spark", (uint64_t)1 << 40, 0.01,
         "Spark cannot make a filter of more than 137438953408 bits"},
        {"redisson", (uint64_t)1 << 40, 0.01,
         "Redisson cannot make a filter of more than 4294967294 bits"},
        {"dcso", (uint64_t)1 << 45, 0.01,
         "DCSO's bloom cannot make a filter of more than 35184372088832 bits"},
        {"spark:seed=1,version=1", 1000, 0.01, "layout spark: seed=S needs version=2"},
        {"redisbloom:expansion=0", 1000, 0.01,
         "layout redisbloom: expansion is '0', but must be a number from 1 to 4294967295"},
        {"redisbloom:expansion=2,scaling=no", 1000, 0.01,
         "layout redisbloom: expansion=N needs scaling=yes"},
        {"redisbloom:seed=32", 1000, 0.01, "layout redisbloom: seed=32 is for import only"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {.text = ""};
        struct layout_spec spec;
        struct layout_filter filter;
        MUST(layout_parse(rows[i].layout, &spec, &err));
        CHECK(!spec.kind->layout->design(&spec, rows[i].n, rows[i].p, &filter, &err));
        CHECK_STR(err.text, rows[i].why);
    }
    CHECK(design("guava", 1000, 0x1p-255, &(struct layout_filter){0}));
    CHECK(design("php", 992348157, 0, &(struct layout_filter){0}));
}

/* A sink that takes `left` pieces, and no more. */
static bool take_some(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    unsigned *left = ctx;
    (void)file, (void)data, (void)len;
    return (*left)-- > 0 || fail(err, "full");
}

TEST(a_piece_that_cannot_be_written_ends_it)
{
    static const char *const layouts[] = {
        "bitsandblooms", "bitsandblooms:json=yes", "dcso",       "dcso:gzip=yes",
        "gozero",        "guava:serialized=yes",   "guava",      "redisson",
        "spark",         "spark:version=2",        "redisbloom",
    };
    enum { BYTES = 1 << 18 };
    static uint8_t data[BYTES];
    uint64_t state = 7;
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)next(&state);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct err err;
        struct layout_spec spec;
        struct layout_filter filter;
        const uint8_t *bits[] = {data};
        MUST(layout_parse(layouts[i], &spec, &err));
        MUST(spec.kind->layout->design(&spec, 100000, 0.01, &filter, &err));
        CHECK(filter.layer[0].data_len < BYTES);
        unsigned pieces = 0, wrong_ones = 0, left;
        const struct layout_sink sink = {.write = take_some, .ctx = &left, .name = "it"};
        for (bool done = false; !done && pieces < 200; pieces++) {
            left = pieces;
            err.text[0] = '\0';
            done = spec.kind->layout->write(&filter, bits, &sink, &err);
            wrong_ones += done ? left != 0 : strcmp(err.text, "full") != 0;
        }
        CHECK(pieces > 2 && wrong_ones == 0);
    }
}

int main(void)
{
    RUN(the_modulus_is_exact);
    RUN(query_and_add_agree_with_the_positions);
    RUN(query_of_a_large_filter_agrees_with_the_positions);
    RUN(samples_are_of_the_positions_that_keys_have);
    RUN(pages_are_those_of_the_positions);
    RUN(the_estimate_holds);
    RUN(the_fpr_of_small_filters_is_measured);
    RUN(the_excess_is_the_estimated_one);
    RUN(samples_take_a_limited_time);
    RUN(coincidences_take_a_limited_time);
    RUN(the_fpr_of_large_filters_follows_from_the_bits);
    RUN(a_full_filter_gives_a_lower_bound_only);
    RUN(bits_behind_the_last_do_not_count);
    RUN(a_size_that_the_bits_contradict);
    RUN(a_spec_is_parsed_or_refused_with_what_is_known);
    RUN(bits_come_back_from_every_order);
    RUN(what_no_layout_can_have_is_refused);
    RUN(what_is_wrong_with_a_file_is_said);
    RUN(a_piece_that_cannot_be_written_ends_it);
    RUN(what_the_program_cannot_make_is_refused);
    return check_done();
}
