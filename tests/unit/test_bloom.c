/* SPDX-License-Identifier: MIT
 * The page-blocked Bloom filter against its definition: bits where the formulas of bloom.h put
 * them, whichever variant is at work, and as many false positives as the bits say.
 *
 * Where keys are random, the bounds are such that one seed in a million or fewer would fail.
 *
 * tags: computing portable
 */
#include "base/variant.h"
#include "bloom_new.h"
#include "check.h"
#include "kind/bloom/bloom.h"
#include "random.h"
#include "variants.h"

#include <math.h>
#include <stdlib.h>

enum { LINES = BLOOM_PAGE / BLOOM_LINE, LINE_BITS = BLOOM_LINE * 8 };

static uint64_t *some_hashes(size_t n)
{
    uint64_t *hash = malloc((n + 1) * sizeof *hash);
    if (hash == NULL)
        exit(1);
    for (size_t i = 0; i < n; i++)
        hash[i] = draw();
    return hash;
}

/* The definition, with arithmetic of its own. */

static void multiply(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low)
{
    *high = *low = 0;
    for (int i = 0; i < 64; i++)
        if (b >> i & 1) {
            uint64_t sum = *low + (a << i);
            *high += (i > 0 ? a >> (64 - i) : 0) + (sum < *low);
            *low = sum;
        }
}

static uint64_t ref_page(uint64_t hash, uint64_t pages)
{
    uint64_t high, low;
    multiply(hash, pages, &high, &low);
    return high;
}

static unsigned ref_probe(uint64_t hash, unsigned i)
{
    static const uint64_t c[] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                 0xa54ff53a5f1d36f1};
    uint64_t high, low;
    multiply(hash, c[i / 7], &high, &low);
    return (unsigned)((high ^ low) >> 9 * (i % 7) & 511);
}

/* The bit of the filter that probe i of a key looks at. */
static uint64_t ref_bit(const struct bloom *bloom, uint64_t hash, unsigned i)
{
    uint64_t a = hash % 64, b = a ^ (1 + (hash / 64 % 65536 * 63) / 65536);
    bool on_b = bloom->lines == 2 && i >= bloom->k / 2;
    return (ref_page(hash, bloom->pages) * LINES + (on_b ? b : a)) * LINE_BITS + ref_probe(hash, i);
}

static bool ref_query(const struct bloom *bloom, const uint8_t *data, uint64_t hash)
{
    bool all = true;
    for (unsigned i = 0; i < bloom->k; i++) {
        uint64_t bit = ref_bit(bloom, hash, i);
        all = all && (data[bit / 8] >> bit % 8 & 1);
    }
    return all;
}

static void ref_insert(const struct bloom *bloom, uint8_t *data, uint64_t hash)
{
    for (unsigned i = 0; i < bloom->k; i++) {
        uint64_t bit = ref_bit(bloom, hash, i);
        data[bit / 8] = (uint8_t)(data[bit / 8] | 1U << bit % 8);
    }
}

/* The first page boundary's hashes and those around it, and both ends. */
static size_t add_edges(const struct bloom *bloom, uint64_t *hash, size_t room)
{
    uint64_t step = UINT64_MAX / bloom->pages + 1; /* 0 for one page */
    const uint64_t edges[] = {0,
                              UINT64_MAX,
                              1,
                              step,
                              step - 1,
                              step + 1,
                              2 * step - 1,
                              63,
                              64,
                              (uint64_t)1 << 63,
                              ((uint64_t)1 << 63) - 1,
                              0x3fffff,
                              0x3fffc0};
    size_t n = sizeof edges / sizeof *edges;
    memcpy(hash, edges, (n < room ? n : room) * sizeof *hash);
    return n < room ? n : room;
}

/* Every k that a geometry of G lines may have. */
#define FOR_ALL_GEOMETRIES(bloom)                                                                  \
    for (bloom.lines = 1; bloom.lines <= 2; bloom.lines++)                                         \
        for (bloom.k = bloom.lines; bloom.k <= BLOOM_MAX_K; bloom.k += bloom.lines)

TEST(all_that_this_cpu_has_is_listed)
{
    static const struct variant expected[] = {
        {"avx512", cpu_has_avx512_bits},
        {"avx2", cpu_has_avx2},
        {"neon", cpu_has_neon},
        {"plain", NULL},
    };
    CHECK_VARIANTS(&bloom_variants, expected);
}

/* Batches are of LAYER_BATCH = 256. */
static const size_t counts[] = {0, 1, 2, 63, 64, 65, 255, 256, 257, 700};

TEST_EACH_VARIANT(insert_sets_the_bits_of_the_definition, bloom_variants)
{
    static const uint64_t pages[] = {1, 2, 3, 7, 100};
    struct bloom bloom;
    random_restart(0);
    unsigned turn = 0;
    FOR_ALL_GEOMETRIES(bloom)
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++, turn++) {
        bloom.pages = pages[p];
        size_t n = counts[turn % (sizeof counts / sizeof *counts)];
        uint64_t *hash = some_hashes(n);
        add_edges(&bloom, hash, n);
        uint8_t *data = filter_new(&bloom), *ref = filter_new(&bloom);
        bloom_insert(&bloom, data, 0, hash, n);
        for (size_t i = 0; i < n; i++)
            ref_insert(&bloom, ref, hash[i]);
        bool same = memcmp(data, ref, bloom.pages * BLOOM_PAGE) == 0;
        CHECK(same);
        if (!same)
            printf("# pages %llu, k %u, lines %u, n %zu\n", (unsigned long long)bloom.pages,
                   bloom.k, bloom.lines, n);
        free(hash);
        free(data);
        free(ref);
    }
}

/* Random bits of about the density at which a random key is present with this probability. */
static void fill_randomly(const struct bloom *bloom, uint8_t *data, double present)
{
    double density = pow(present, 1.0 / bloom->k);
    for (uint64_t bit = 0; bit < bloom->pages * BLOOM_PAGE * 8; bit++)
        if ((double)(draw() >> 11) * 0x1p-53 < density)
            data[bit / 8] = (uint8_t)(data[bit / 8] | 1U << bit % 8);
}

TEST_EACH_VARIANT(query_answers_as_the_definition, bloom_variants)
{
    struct bloom bloom = {.pages = 3};
    random_restart(0);
    unsigned turn = 0;
    uint64_t n_present = 0, n_all = 0;
    FOR_ALL_GEOMETRIES(bloom)
    {
        uint8_t *data = filter_new(&bloom);
        fill_randomly(&bloom, data, 0.5);
        for (unsigned repeat = 0; repeat < 4; repeat++, turn++) {
            size_t n = counts[turn % (sizeof counts / sizeof *counts)], wrong = 0;
            uint64_t *hash = some_hashes(n);
            add_edges(&bloom, hash, n);
            uint64_t *present = zeroes(8, (n / 64 + 2) * 8);
            bloom_query(&bloom, data, hash, n, present);
            for (size_t i = 0; i < n; i++) {
                bool got = present[i / 64] >> i % 64 & 1;
                wrong += got != ref_query(&bloom, data, hash[i]);
                n_present += got;
            }
            n_all += n;
            CHECK(wrong == 0);
            /* Nothing behind the last, and bits that were set stay. */
            for (size_t i = n; i < (n / 64 + 2) * 64; i++)
                wrong += present[i / 64] >> i % 64 & 1;
            CHECK(wrong == 0);
            memset(present, 0xff, (n + 63) / 64 * 8);
            bloom_query(&bloom, data, hash, n, present);
            for (size_t w = 0; w < (n + 63) / 64; w++)
                CHECK(present[w] == UINT64_MAX);
            free(present);
            free(hash);
        }
        free(data);
    }
    /* Both answers were seen often, or the comparison is worth nothing. */
    CHECK(n_present > n_all / 4 && n_present < n_all / 4 * 3);
}

/* Layers of all geometries, asked together, have the keys that any of them has; also those that
 * were found before stay. */
TEST_EACH_VARIANT(layers_answer_as_each_of_them, bloom_variants)
{
    enum { LAYERS = 5 };
    struct layer layers[LAYERS] = {0};
    const struct layer *layer[LAYERS];
    const uint8_t *data[LAYERS];
    uint64_t n_present = 0, n_all = 0;
    random_restart(0);
    for (unsigned turn = 0; turn < 500; turn++) {
        const size_t n = counts[turn % (sizeof counts / sizeof *counts)];
        const unsigned n_layers = turn % (LAYERS + 1);
        uint64_t *hash = some_hashes(n), *got = zeroes(8, (n / 64 + 1) * 8), wrong = 0;
        struct bloom bloom[LAYERS];
        for (unsigned l = 0; l < n_layers; l++) {
            unsigned lines = 1 + (unsigned)(draw() % 2);
            bloom[l] = (struct bloom){1 + draw() % 3, lines * (3 + (unsigned)(draw() % 8)), lines};
            uint8_t *pages = filter_new(&bloom[l]);
            bloom_to(&bloom[l], &layers[l]);
            layer[l] = &layers[l];
            data[l] = pages;
            fill_randomly(&bloom[l], pages, 0.25);
        }
        uint64_t before =
            n > 0 ? draw() & draw() & (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX) : 0;
        got[0] = before;
        kind_bloom.query_layers(layer, data, n_layers, hashes_of(hash), n, got);
        for (size_t i = 0; i < n; i++) {
            bool want = i < 64 && (before >> i & 1);
            for (unsigned l = 0; l < n_layers; l++)
                want |= ref_query(&bloom[l], data[l], hash[i]);
            wrong += want != (got[i / 64] >> i % 64 & 1);
            n_present += want;
        }
        for (size_t i = n; i < (n / 64 + 1) * 64; i++)
            wrong += got[i / 64] >> i % 64 & 1;
        CHECK(wrong == 0);
        n_all += n;
        for (unsigned l = 0; l < n_layers; l++)
            free((void *)(uintptr_t)data[l]);
        free(got);
        free(hash);
    }
    CHECK(n_present > n_all / 4 && n_present < n_all / 4 * 3);
}

/* One missing bit is enough, wherever it is. */
TEST_EACH_VARIANT(query_looks_at_every_probe, bloom_variants)
{
    struct bloom bloom = {.pages = 2};
    random_restart(0);
    FOR_ALL_GEOMETRIES(bloom)
    {
        uint8_t *data = filter_new(&bloom);
        memset(data, 0xff, bloom.pages * BLOOM_PAGE);
        for (unsigned i = 0; i < bloom.k; i++) {
            uint64_t hash = draw(), present = 0, bit = ref_bit(&bloom, hash, i);
            bloom_query(&bloom, data, &hash, 1, &present);
            CHECK(present == 1);
            data[bit / 8] = (uint8_t)(data[bit / 8] & ~(1U << bit % 8));
            present = 0;
            bloom_query(&bloom, data, &hash, 1, &present);
            CHECK(present == 0);
            data[bit / 8] = 0xff;
        }
        free(data);
    }
}

TEST_EACH_VARIANT(part_of_a_filter_is_addressed_by_its_first_page, bloom_variants)
{
    struct bloom bloom = {.pages = 50, .k = 9, .lines = 1};
    const uint64_t first = 20, n_pages = 7;
    random_restart(0);
    for (bloom.lines = 1; bloom.lines <= 2; bloom.lines++, bloom.k++) {
        uint8_t *whole = filter_new(&bloom), *part = zeroes(BLOOM_LINE, n_pages * BLOOM_PAGE);
        uint64_t here[600], n = 0;
        while (n < 600) {
            uint64_t hash = draw();
            bloom_insert(&bloom, whole, 0, &hash, 1);
            here[n] = hash;
            n += ref_page(hash, bloom.pages) - first < n_pages;
        }
        bloom_insert(&bloom, part, first, here, n);
        CHECK(memcmp(part, whole + first * BLOOM_PAGE, n_pages * BLOOM_PAGE) == 0);
        free(whole);
        free(part);
    }
}

TEST_EACH_VARIANT(add_answers_in_order, bloom_variants)
{
    struct bloom bloom = {.pages = 2};
    random_restart(0);
    uint64_t n_present = 0;
    FOR_ALL_GEOMETRIES(bloom)
    {
        uint8_t *data = filter_new(&bloom), *ref = filter_new(&bloom);
        for (unsigned round = 0; round < 8; round++) {
            uint64_t hash[LAYER_BATCH], present[LAYER_BATCH / 64] = {0};
            size_t n = round == 0 ? 1 : round == 1 ? 65 : LAYER_BATCH;
            for (size_t i = 0; i < n; i++)
                hash[i] = i >= 10 && i % 5 == 0 ? hash[i - 10] : draw();
            struct layer layer;
            bloom_to(&bloom, &layer);
            kind_bloom.add(&layer, data, hashes_of(hash), n, present);
            for (size_t i = 0; i < n; i++) {
                bool was = ref_query(&bloom, ref, hash[i]);
                ref_insert(&bloom, ref, hash[i]);
                CHECK((present[i / 64] >> i % 64 & 1) == was);
                n_present += was;
            }
        }
        CHECK(memcmp(data, ref, bloom.pages * BLOOM_PAGE) == 0);
        free(data);
        free(ref);
    }
    CHECK(n_present > 1000);
}

TEST_EACH_VARIANT(no_false_negatives, bloom_variants)
{
    struct bloom bloom = {.pages = 30};
    enum { N = 30000 };
    random_restart(0);
    FOR_ALL_GEOMETRIES(bloom)
    {
        uint8_t *data = filter_new(&bloom);
        uint64_t *hash = some_hashes(N), present[N / 64 + 1] = {0}, missing = 0;
        bloom_insert(&bloom, data, 0, hash, N);
        bloom_query(&bloom, data, hash, N, present);
        for (size_t i = 0; i < N; i++)
            missing += !(present[i / 64] >> i % 64 & 1);
        CHECK(missing == 0);
        free(hash);
        free(data);
    }
}

/* Pages [first, first + n) of a filter folded to `to`. */
static void fold(const struct bloom *from, const uint8_t *data, const struct bloom *to,
                 uint64_t first, uint64_t n, uint8_t *pages)
{
    struct layer in = {0}, out = {0};
    const struct layer *layer = &in;
    bloom_to(from, &in);
    bloom_to(to, &out);
    table_make(&out, &(struct union_of){.n = 1, .layer = &layer, .data = &data}, first * BLOOM_PAGE,
               n * BLOOM_PAGE, pages);
}

TEST(fold_is_what_the_smaller_filter_would_be)
{
    static const struct {
        uint64_t pages, q;
    } cases[] = {{1, 1}, {2, 2}, {12, 3}, {12, 12}, {70, 7}, {96, 2}, {81, 27}};
    random_restart(0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (unsigned lines = 1; lines <= 2; lines++) {
            struct bloom from = {.pages = cases[c].pages, .k = 8, .lines = lines}, to = from;
            to.pages = from.pages / cases[c].q;
            uint8_t *data = filter_new(&from), *small = filter_new(&to), *folded = filter_new(&to);
            uint64_t *hash = some_hashes(2000);
            add_edges(&from, hash, 2000);
            bloom_insert(&from, data, 0, hash, 2000);
            bloom_insert(&to, small, 0, hash, 2000);
            fold(&from, data, &to, 0, to.pages, folded);
            CHECK(memcmp(folded, small, to.pages * BLOOM_PAGE) == 0);
            /* Page by page too, whatever is there. */
            for (uint64_t page = 0; page < to.pages; page++) {
                uint8_t one[BLOOM_PAGE] = {0xff};
                fold(&from, data, &to, page, 1, one);
                CHECK(memcmp(one, small + page * BLOOM_PAGE, BLOOM_PAGE) == 0);
            }
            free(data);
            free(small);
            free(folded);
            free(hash);
        }
}

TEST(folding_past_a_divisor_loses_no_key)
{
    struct bloom from = {.pages = 60, .k = 6, .lines = 1}, to = from;
    uint8_t *data = filter_new(&from);
    random_restart(0);
    uint64_t *hash = some_hashes(20000);
    bloom_insert(&from, data, 0, hash, 20000);
    for (to.pages = 1; to.pages <= 60; to.pages++) {
        if (from.pages % to.pages != 0)
            continue;
        uint8_t *folded = filter_new(&to);
        fold(&from, data, &to, 0, to.pages, folded);
        uint64_t present[20000 / 64 + 1] = {0}, missing = 0;
        bloom_query(&to, folded, hash, 20000, present);
        for (size_t i = 0; i < 20000; i++)
            missing += !(present[i / 64] >> i % 64 & 1);
        CHECK(missing == 0);
        free(folded);
    }
    free(hash);
    free(data);
}

/*
 * Independence of a key's page, lines and probes: probes that take bits which have chosen the line
 * see only part of it. Each test throws hashes into a table of 64 x 64 cells and sums up the
 * squares of what is not as expected (chi squared). With f = 63 * 63 degrees of freedom, mean f and
 * variance 2f, independent values pass f + 6 sqrt(2f) = 4504 once in 10^8 times.
 */
enum { CELLS = 64, THROWS = 200000 };

static double chi_squared(uint32_t table[CELLS][CELLS])
{
    double row[CELLS] = {0}, column[CELLS] = {0}, n = 0, sum = 0;
    for (int i = 0; i < CELLS; i++)
        for (int j = 0; j < CELLS; j++) {
            row[i] += table[i][j];
            column[j] += table[i][j];
            n += table[i][j];
        }
    for (int i = 0; i < CELLS; i++)
        for (int j = 0; j < CELLS; j++) {
            double expected = row[i] * column[j] / n;
            double off = table[i][j] - expected;
            sum += expected > 0 ? off * off / expected : off * off;
        }
    return sum;
}

static bool independent(const char *what, unsigned i, uint32_t table[CELLS][CELLS])
{
    double freedom = (CELLS - 1) * (CELLS - 1), limit = freedom + 6 * sqrt(2 * freedom);
    double got = chi_squared(table);
    if (got <= limit)
        return true;
    printf("# %s %u: chi squared %.0f, limit %.0f\n", what, i, got, limit);
    return false;
}

/* Where probe i of a key went, found by the bit that a filter with i + 1 probes has beyond one with
 * i; false when that was set already. In one line of 512 bits; `bloom` has one line and one page.
 */
static bool find_probe(uint64_t hash, unsigned i, unsigned *line, unsigned *probe)
{
    static uint8_t before[BLOOM_PAGE] __attribute__((aligned(64)));
    static uint8_t after[BLOOM_PAGE] __attribute__((aligned(64)));
    struct bloom with = {.pages = 1, .k = i + 1, .lines = 1}, without = with;
    size_t at = (hash & 63) * BLOOM_LINE;
    bool found = false;
    without.k = i;
    memset(before + at, 0, BLOOM_LINE);
    memset(after + at, 0, BLOOM_LINE);
    if (i > 0)
        bloom_insert(&without, before, 0, &hash, 1);
    bloom_insert(&with, after, 0, &hash, 1);
    for (unsigned byte = 0; byte < BLOOM_LINE; byte++) {
        unsigned differs = before[at + byte] ^ after[at + byte];
        if (differs == 0)
            continue;
        *line = (unsigned)(at / BLOOM_LINE);
        *probe = byte * 8 + (unsigned)__builtin_ctz(differs);
        found = true;
    }
    return found;
}

TEST(probes_do_not_depend_on_line_or_page)
{
    static uint32_t line_low[CELLS][CELLS], line_high[CELLS][CELLS], page_low[CELLS][CELLS],
        page_high[CELLS][CELLS];
    for (unsigned i = 0; i < BLOOM_MAX_K; i++) {
        memset(line_low, 0, sizeof line_low);
        memset(line_high, 0, sizeof line_high);
        memset(page_low, 0, sizeof page_low);
        memset(page_high, 0, sizeof page_high);
        random_restart(i);
        for (unsigned t = 0; t < THROWS; t++) {
            uint64_t hash = draw();
            unsigned line = 0, probe = 0;
            if (!find_probe(hash, i, &line, &probe))
                continue;
            line_low[line][probe % 64]++;
            line_high[line][probe / 8]++;
            page_low[hash >> 58][probe % 64]++;
            page_high[hash >> 58][probe / 8]++;
        }
        CHECK(independent("line and low bits of probe", i, line_low));
        CHECK(independent("line and high bits of probe", i, line_high));
        CHECK(independent("page and low bits of probe", i, page_low));
        CHECK(independent("page and high bits of probe", i, page_high));
    }
}

TEST(probes_do_not_depend_on_each_other)
{
    static uint32_t low[CELLS][CELLS], high[CELLS][CELLS];
    for (unsigned j = 1; j < BLOOM_MAX_K; j++)
        for (unsigned i = j >= 7 ? j - 7 : 0; i < j; i += 3) {
            memset(low, 0, sizeof low);
            memset(high, 0, sizeof high);
            random_restart(100 * j + i);
            for (unsigned t = 0; t < THROWS; t++) {
                uint64_t hash = draw();
                unsigned p = ref_probe(hash, i), q = ref_probe(hash, j);
                low[p % 64][q % 64]++;
                high[p / 8][q / 8]++;
            }
            CHECK(independent("low bits of two probes, the second", j, low));
            CHECK(independent("high bits of two probes, the second", j, high));
        }
}

TEST(the_second_line_is_another_one_and_any_other)
{
    struct bloom bloom = {.pages = 1, .k = 2, .lines = 2};
    static uint32_t pairs[CELLS][CELLS];
    uint8_t *data = filter_new(&bloom);
    uint32_t same = 0, low = UINT32_MAX, high = 0;
    random_restart(0);
    enum { N = 64 * 63 * 100 };
    for (unsigned t = 0; t < N; t++) {
        uint64_t hash = draw();
        unsigned a = hash & 63, b = 64;
        bloom_insert(&bloom, data, 0, &hash, 1);
        for (unsigned line = 0; line < LINES; line++)
            for (unsigned byte = 0; line != a && byte < BLOOM_LINE; byte++)
                if (data[line * BLOOM_LINE + byte] != 0)
                    b = line;
        same += b == 64;
        pairs[a][b % 64] += b != 64;
        memset(data + a * BLOOM_LINE, 0, BLOOM_LINE);
        memset(data + b % 64 * BLOOM_LINE, 0, BLOOM_LINE);
    }
    CHECK(same == 0);
    for (unsigned a = 0; a < CELLS; a++)
        for (unsigned b = 0; b < CELLS; b++)
            if (a != b) {
                low = pairs[a][b] < low ? pairs[a][b] : low;
                high = pairs[a][b] > high ? pairs[a][b] : high;
            }
    /* 100 expected in each of 4032 cells, with a deviation of 10: 6.5 of them in all. */
    CHECK(low > 35 && high < 165);
    free(data);
}

static void census_of(const struct bloom *bloom, const uint8_t *data, unsigned threads,
                      struct census *census)
{
    struct layer layer = {0};
    bloom_to(bloom, &layer);
    layer.kind->census(&layer, data, threads, census);
}

static uint64_t count_hits(const struct bloom *bloom, const uint8_t *data, uint64_t queries)
{
    uint64_t hash[LAYER_BATCH], hits = 0;
    for (uint64_t asked = 0; asked < queries; asked += LAYER_BATCH) {
        uint64_t present[LAYER_BATCH / 64] = {0};
        for (size_t i = 0; i < LAYER_BATCH; i++)
            hash[i] = draw();
        bloom_query(bloom, data, hash, LAYER_BATCH, present);
        for (size_t w = 0; w < LAYER_BATCH / 64; w++)
            hits += (unsigned)__builtin_popcountll(present[w]);
    }
    return hits;
}

/* Asks for random keys until about `wanted` false positives are to be expected, whose number then
 * spreads by sqrt(wanted). Beyond 5 of these, one run in 2 million. */
static bool rate_is_as_counted(const struct bloom *bloom, const uint8_t *data, double wanted)
{
    struct census census;
    census_of(bloom, data, 1, &census);
    uint64_t queries = (uint64_t)(wanted / census.fpr) / LAYER_BATCH * LAYER_BATCH + LAYER_BATCH;
    double expected = (double)queries * census.fpr;
    double hits = (double)count_hits(bloom, data, queries);
    bool ok = fabs(hits - expected) <= 5 * sqrt(expected);
    if (!ok)
        printf("# pages %llu, k %u, lines %u: %.0f of %llu random keys present, expected %.1f\n",
               (unsigned long long)bloom->pages, bloom->k, bloom->lines, hits,
               (unsigned long long)queries, expected);
    return ok;
}

TEST_EACH_VARIANT(as_many_false_positives_as_the_bits_say, bloom_variants)
{
    /* Random keys to ask for grow as wanted / p: the sum here is about 50 million. */
    static const struct {
        double p, wanted;
    } cases[] = {{0.3, 40000}, {1e-2, 40000}, {1e-3, 10000}, {8e-4, 10000}, {1e-4, 1500}};
    bool slow = check_is_brief();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bloom bloom;
        enum { N = 100000 };
        random_restart(c);
        CHECK(bloom_size(N, cases[c].p, &bloom));
        CHECK(bloom.lines == (cases[c].p < 8.9e-4 ? 2 : 1));
        uint8_t *data = filter_new(&bloom);
        uint64_t *hash = some_hashes(N);
        bloom_insert(&bloom, data, 0, hash, N);
        CHECK(rate_is_as_counted(&bloom, data, slow ? cases[c].wanted / 20 : cases[c].wanted));
        free(hash);
        free(data);
    }
}

/* A filter of `n` random keys; how its FPR compares with the designed one. */
static double rate_to_design(const struct bloom *bloom, unsigned n)
{
    struct census census;
    uint8_t *data = filter_new(bloom);
    uint64_t *hash = some_hashes(n);
    bloom_insert(bloom, data, 0, hash, n);
    census_of(bloom, data, 1, &census);
    CHECK(census.n_low <= census.n && census.n <= census.n_high);
    /* The interval is one of 95 %: 2.6 times as wide it is one of 5 sigma. */
    CHECK(fabs(census.n - n) < 2.6 * (census.n_high - census.n));
    CHECK(census.n_high - census.n < 0.02 * n);
    free(hash);
    free(data);
    return census.fpr / bloom_fpr(bloom, n);
}

/* The mean of 16 filters, against its own standard error. A t value of 15 degrees of freedom passes
 * 8 once in a million times. Loads being taken for Poisson where they are binomial may cost 0.1 %.
 */
TEST(as_many_false_positives_as_designed)
{
    static const double rates[] = {1e-1, 1e-2, 1e-3, 5e-4, 1e-5};
    enum { RUNS = 16, N = 50000 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct bloom bloom;
        double sum = 0, squares = 0;
        CHECK(bloom_size(N, rates[i], &bloom));
        random_restart(i);
        for (unsigned run = 0; run < RUNS; run++) {
            double ratio = rate_to_design(&bloom, N);
            sum += ratio;
            squares += ratio * ratio;
        }
        double mean = sum / RUNS;
        double error = sqrt((squares / RUNS - mean * mean) / (RUNS - 1));
        bool as_designed = fabs(mean - 1) <= 8 * error + 0.001 && error < 0.01;
        CHECK(as_designed);
        if (!as_designed)
            printf("# p %g: FPR is %.4f of that, standard error %.4f\n", rates[i], mean, error);
    }
}

TEST(census_does_not_depend_on_threads)
{
    struct bloom bloom = {.pages = 1000, .k = 10, .lines = 2};
    uint8_t *data = filter_new(&bloom);
    struct census one, more;
    random_restart(0);
    uint64_t *hash = some_hashes(100000);
    bloom_insert(&bloom, data, 0, hash, 100000);
    census_of(&bloom, data, 1, &one);
    for (unsigned threads = 2; threads <= 9; threads++) {
        census_of(&bloom, data, threads, &more);
        CHECK(more.fpr == one.fpr && more.n == one.n && more.n_low == one.n_low &&
              more.n_high == one.n_high && more.bits_set == one.bits_set &&
              more.lines_full == one.lines_full && more.line_min == one.line_min &&
              more.line_max == one.line_max);
    }
    free(hash);
    free(data);
}

static struct layer layer_of(uint64_t pages, unsigned k, unsigned lines)
{
    struct layer layer = {.n_design = 1000, .fpr_design = 0.01};
    struct bloom bloom = {pages, k, lines};
    bloom_to(&bloom, &layer);
    return layer;
}

TEST(geometry_survives_a_layer)
{
    struct layer layer = layer_of(17, 12, 2);
    struct bloom bloom = bloom_of(&layer);
    CHECK(bloom.pages == 17 && bloom.k == 12 && bloom.lines == 2);
    CHECK(layer.kind == &kind_bloom && layer.data_len == 17 * BLOOM_PAGE);
    CHECK(kind_by_id(kind_bloom.id) == &kind_bloom);
}

static bool geometry_holds(struct layer layer, unsigned field, uint64_t value)
{
    struct err err;
    layer.geometry[field] = value;
    return kind_bloom.check(&layer, &err);
}

TEST(false_geometry_is_refused)
{
    struct layer layer = layer_of(17, 12, 2);
    struct err err;
    CHECK(kind_bloom.check(&layer, &err));
    CHECK(!geometry_holds(layer, 0, 0) && !geometry_holds(layer, 0, 16) &&
          !geometry_holds(layer, 0, 18) && !geometry_holds(layer, 0, UINT64_MAX) &&
          !geometry_holds(layer, 0, ((uint64_t)1 << 52) + 17));
    CHECK(!geometry_holds(layer, 1, 0) && !geometry_holds(layer, 1, 11) &&
          !geometry_holds(layer, 1, BLOOM_MAX_K + 2) &&
          !geometry_holds(layer, 1, ((uint64_t)1 << 32) + 12));
    CHECK(geometry_holds(layer, 1, 2) && geometry_holds(layer, 1, BLOOM_MAX_K));
    CHECK(!geometry_holds(layer, 2, 0) && !geometry_holds(layer, 2, 3) &&
          !geometry_holds(layer, 2, ((uint64_t)1 << 32) + 2));
    CHECK(!geometry_holds(layer, 3, 1));
    layer.data_len++;
    CHECK(!kind_bloom.check(&layer, &err));
}

TEST(layers_unite_when_one_folds_to_the_other)
{
    struct layer a = layer_of(12, 8, 2), b = layer_of(4, 8, 2), out;
    CHECK(table_unite(&a, &b, &out) && out.geometry[0] == 4 && out.data_len == b.data_len);
    CHECK(table_unite(&b, &a, &out) && out.geometry[0] == 4);
    CHECK(table_unite(&a, &a, &out) && out.geometry[0] == 12);
    b = layer_of(8, 8, 2);
    CHECK(!table_unite(&a, &b, &out) && !table_unite(&b, &a, &out));
    b = layer_of(12, 10, 2);
    CHECK(!table_unite(&a, &b, &out));
    b = layer_of(12, 8, 1);
    CHECK(!table_unite(&a, &b, &out));
}

TEST(the_deciding_page_is_the_one_of_the_definition)
{
    static const uint64_t pages[] = {1, 2, 3, 1000, 4294967297, (uint64_t)1 << 42};
    uint64_t hash[1001 + 1], page[1001 + 1], n = 0;
    for (; n <= 1000; n++)
        hash[n] = n * (UINT64_MAX / 1000);
    hash[n++] = UINT64_MAX;
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++) {
        struct layer layer = layer_of(pages[p], 6, 1);
        kind_bloom.page(&layer, hashes_of(hash), n, page);
        for (unsigned i = 0; i < n; i++)
            CHECK((i == 0 || page[i] >= page[i - 1]) && page[i] == ref_page(hash[i], pages[p]));
        CHECK(page[0] == 0 && page[n - 1] == pages[p] - 1);
    }
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(all_that_this_cpu_has_is_listed);
    RUN(insert_sets_the_bits_of_the_definition);
    RUN(query_answers_as_the_definition);
    RUN(layers_answer_as_each_of_them);
    RUN(query_looks_at_every_probe);
    RUN(part_of_a_filter_is_addressed_by_its_first_page);
    RUN(add_answers_in_order);
    RUN(no_false_negatives);
    RUN(fold_is_what_the_smaller_filter_would_be);
    RUN(folding_past_a_divisor_loses_no_key);
    if (!check_is_brief()) {
        RUN(probes_do_not_depend_on_line_or_page);
        RUN(probes_do_not_depend_on_each_other);
        RUN(the_second_line_is_another_one_and_any_other);
    }
    RUN(as_many_false_positives_as_the_bits_say);
    RUN(as_many_false_positives_as_designed);
    RUN(census_does_not_depend_on_threads);
    RUN(geometry_survives_a_layer);
    RUN(false_geometry_is_refused);
    RUN(layers_unite_when_one_folds_to_the_other);
    RUN(the_deciding_page_is_the_one_of_the_definition);
    return check_done();
}
