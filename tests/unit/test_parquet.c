/* Parquet's split-block filter: beside what Arrow and DuckDB wrote and answered (tests/vectors),
 * and beside simulations.
 * tags: portable threads */
#include "kind/parquet/parquet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "golden.h"
#include "random.h"

/* Columns of manifest.tsv. */
enum { FILE_NAME, TYPE, BYTES, BLOCKS, HEADER_LEN, KEYS, N_KEYS, ABSENT, ANSWERS, POPCOUNT };

static const char *spec_of(const char *type)
{
    return strcmp(type, "int64") == 0 ? "parquet:type=int64" : "parquet";
}

static struct golden_keys keys_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "keys/%s", name);
    return golden_keys(path);
}

static struct golden file_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "parquet/%s", name);
    return golden_open(path);
}

TEST(the_programs_filters_are_read_and_written_again)
{
    struct golden_table t = golden_table("parquet/manifest.tsv");
    unsigned rows = 0;
    for (; golden_row(&t); rows++) {
        struct err err;
        struct taken taken;
        struct census c;
        struct golden file = file_of(t.field[FILE_NAME]), want = file_of(t.field[ANSWERS]);
        struct golden_keys keys = keys_of(t.field[KEYS]), others = keys_of(t.field[ABSENT]);
        size_t n_keys = (size_t)atoi(t.field[N_KEYS]);
        MUST(golden_take(spec_of(t.field[TYPE]), file.data, file.len, &taken, &err));
        CHECK(parquet_blocks(taken_layer(&taken)) == strtoull(t.field[BLOCKS], NULL, 10));
        CHECK(taken.filter.assumed);
        struct golden got = golden_answer(&taken, &others, others.n);
        struct golden there = golden_answer(&taken, &keys, n_keys);
        struct golden back = golden_write(&taken);
        CHECK(golden_equal(got, want));
        CHECK(memchr(there.data, '0', there.len) == NULL);
        CHECK(golden_equal(back, file));
        kind_parquet.census(taken_layer(&taken), taken.data, 1, &c);
        CHECK(round(c.bits_set * 8 * (double)taken_layer(&taken)->data_len) ==
              strtod(t.field[POPCOUNT], NULL));

        memset(taken.data, 0, (size_t)taken_layer(&taken)->data_len);
        golden_add(&taken, &keys, 0, n_keys);
        struct golden made = golden_write(&taken);
        CHECK(golden_equal(made, file));
        free(made.data);
        free(back.data);
        free(there.data);
        free(got.data);
        free(keys.text.data);
        free(others.text.data);
        free(want.data);
        free(file.data);
        golden_free(&taken);
    }
    CHECK(rows == 7);
    free(t.text.data);
}

TEST(a_file_may_be_the_blocks_alone)
{
    struct err err;
    struct taken taken;
    struct golden file = file_of("pq_str_96.sbbf");
    const struct golden bare = {file.data + 16, file.len - 16};
    MUST(golden_take("parquet:header=no", bare.data, bare.len, &taken, &err));
    CHECK(parquet_blocks(taken_layer(&taken)) == 3);
    struct golden back = golden_write(&taken);
    CHECK(golden_equal(back, bare));
    free(back.data);
    golden_free(&taken);
    CHECK(!golden_take("parquet:header=no", bare.data, bare.len - 1, &taken, &err));
    CHECK(!golden_take("parquet:header=no", bare.data, 0, &taken, &err));
    CHECK(!golden_take("parquet", bare.data, bare.len, &taken, &err));
    free(file.data);
}

/* Where the largest filter does not keep the FPR, the design says which it has. */
TEST(sizes_are_arrows)
{
    struct golden_table t = golden_table("parquet/sizing.tsv");
    unsigned rows = 0, missed = 0;
    for (; golden_row(&t); rows++) {
        struct err err;
        struct layout_spec spec;
        struct layout_filter filter;
        double n = strtod(t.field[0], NULL), p = strtod(t.field[1], NULL);
        uint64_t bytes = strtoull(t.field[2], NULL, 10);
        CHECK(layout_parse("parquet", &spec, &err));
        CHECK(kind_parquet.layout->design(&spec, (uint64_t)n, p, &filter, &err));
        CHECK(filter.layer[0].data_len == bytes && filter.n_design == (uint64_t)n);
        CHECK(kind_parquet.check(&filter.layer[0], &err));
        CHECK(filter.fpr_design == p || (bytes == 134217728 && filter.fpr_design > p));
        missed += filter.fpr_design > p;
    }
    CHECK(rows > 70 && missed > 0);
    free(t.text.data);
}

/* ---- The header. */

enum { BITS = 32 };

static bool reads(const char *header, size_t len, struct err *err)
{
    struct taken taken;
    uint8_t *file = calloc(1, len + BITS);
    memcpy(file, header, len);
    bool ok = golden_take("parquet", file, len + BITS, &taken, err);
    if (ok)
        golden_free(&taken);
    free(file);
    return ok;
}

#define READS(header) reads(header, sizeof(header) - 1, &err)

/* numBytes 32, and the three unions. */
#define NUM   "\x15\x40"
#define UNION "\x1c\x1c\0\0"

TEST(any_form_of_the_header_is_read)
{
    struct err err;
    CHECK(READS(NUM UNION UNION UNION "\0"));
    /* Numbers of fields in full, and out of order. */
    CHECK(READS("\x0c\x04\x1c\0\0"
                "\x05\x02\x40"
                "\x2c\x1c\0\0"
                "\x0c\x08\x0c\x02\0\0\0"));
    /* A number with needless groups. */
    CHECK(READS("\x15\xc0\x80\0" UNION UNION UNION "\0"));
    /* Unknown fields of every type, before the end: truth values, a byte, i16, i32, i64, a double,
     * text, lists, a set, maps, structs. */
    CHECK(READS(NUM UNION UNION UNION
                "\x11\x12\x13\x7f\x14\x80\x01\x15\x02\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                "\x17"
                "12345678"
                "\x18\x03"
                "abc"
                "\x19\x21\x01\x02"
                "\x19\xf3\x10"
                "0123456789abcdef"
                "\x1a\x2c\0\x11\0"
                "\x1b\0"
                "\x1b\x02\x38\x01\x01"
                "x"
                "\x02\0"
                "\x1c\x19\x1c\x11\0\0\0"));
    /* An unknown field inside the empty struct. */
    CHECK(READS(NUM "\x1c\x1c\x11\0\0" UNION UNION "\0"));
}

TEST(no_other_header_is_read)
{
    struct err err;
    CHECK(!READS(""));
    CHECK(!READS("\0"));
    CHECK_STR(err.text, "its header has no numBytes");
    CHECK(!READS("\x2c\x1c\0\0" UNION UNION "\0"));
    CHECK_STR(err.text, "its header has no numBytes");
    CHECK(!READS(NUM UNION UNION "\0"));
    CHECK_STR(err.text, "its header has no compression");
    CHECK(!READS(NUM UNION "\x1c\x2c\0\0" UNION "\0"));
    CHECK_STR(err.text, "its hash is number 2; known is 1, XXH64");
    CHECK(!READS(NUM "\x1c\0" UNION UNION "\0"));
    CHECK_STR(err.text, "its algorithm is number 0; known is 1, split block");
    CHECK(!READS(NUM UNION UNION "\x1c\x1c\0\x1c\0\0"
                                 "\0"));                      /* two members */
    CHECK(!READS(NUM "\x05\x02\x40" UNION UNION UNION "\0")); /* numBytes twice */
    CHECK(!READS("\x16\x40" UNION UNION UNION "\0"));         /* an i64 */
    CHECK(!READS(NUM UNION UNION "\x15\x02"
                                 "\0")); /* a number for a union */
    CHECK(!READS("\x15\0" UNION UNION UNION "\0"));
    CHECK_STR(err.text, "its numBytes is 0, not a multiple of 32 above 0");
    CHECK(!READS("\x15\x3f" UNION UNION UNION "\0"));
    CHECK_STR(err.text, "its numBytes is -32, not a multiple of 32 above 0");
    CHECK(!READS("\x15\x3e" UNION UNION UNION "\0"));
    CHECK(!READS("\x15\x80\x01" UNION UNION UNION "\0"));
    CHECK_STR(err.text, "it is cut short: its header says 64 bytes, and 32 follow");
    CHECK(!READS(NUM UNION UNION UNION "\0\0"));
    CHECK_STR(err.text, "1 bytes follow its bits");
    CHECK(!READS("\x15\x80\x80\x80\x80\x10" UNION UNION UNION "\0")); /* 2^31 */
    CHECK(!READS("\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" UNION UNION UNION "\0"));
    /* Text and lists that go on behind the end; no such type; a field below 0. */
    CHECK(!READS(NUM UNION UNION UNION "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    CHECK(!READS(NUM UNION UNION UNION "\x19\xf1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    CHECK(!READS(NUM UNION UNION UNION "\x1b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x11"));
    CHECK(!READS(NUM UNION UNION UNION "\x1e\0"));
    CHECK(!READS("\x05\x01\x40" NUM UNION UNION UNION "\0"));
}

TEST(a_header_nests_only_so_deep)
{
    struct err err;
    for (unsigned depth = 1; depth < 100000; depth = depth < 40 ? depth + 1 : depth * 10) {
        static char header[250000];
        size_t len = 0;
        memcpy(header, NUM UNION UNION UNION, 14);
        len = 14;
        memset(header + len, 0x1c, depth);
        memset(header + len + depth, 0, depth);
        CHECK(reads(header, len + 2 * (size_t)depth + 1, &err) == (depth <= 16));
    }
}

TEST(headers_are_recognized)
{
    struct golden file = file_of("pq_str_65536.sbbf"), other = golden_open("dcso/dc_data.bloom");
    struct layout_foreign in = {.data = {file.data}, .len = {file.len}};
    CHECK(kind_parquet.layout->recognize(&in));
    in.len[0]--;
    CHECK(!kind_parquet.layout->recognize(&in));
    const struct layout_foreign foreign = {.data = {other.data}, .len = {other.len}};
    CHECK(!kind_parquet.layout->recognize(&foreign));
    free(file.data);
    free(other.data);
}

/* ---- Numbers. */

static struct layer layer_of(uint64_t blocks)
{
    struct layer layer = {.kind = &kind_parquet, .n_design = 1, .fpr_design = 0.5};
    parquet_resize(&layer, blocks);
    return layer;
}

static void add_random(const struct layer *layer, uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = draw(), present = 0;
        kind_parquet.add(layer, data, hashes_of(&hash), 1, &present);
    }
}

/* A key is in the page of its block: with that page set, it is there. In a filter that is large
 * enough for prefetching. */
TEST(a_key_is_in_its_page)
{
    enum { BLOCKS_OF_ALL = 3 * 128 * 30 + 5, N = 200 };
    struct layer layer = layer_of(BLOCKS_OF_ALL);
    uint8_t *data = calloc(1, (size_t)layer.data_len);
    uint64_t hash[N], page[N], present[4] = {0};
    random_restart(1);
    for (size_t i = 0; i < N; i++)
        hash[i] = draw();
    kind_parquet.page(&layer, hashes_of(hash), N, page);
    for (size_t i = 0; i < N; i++) {
        CHECK(page[i] < layer_pages(&layer));
        memset(data + page[i] * LAYER_PAGE, 0xff, layer_page_len(&layer, page[i]));
    }
    kind_parquet.query(&layer, data, hashes_of(hash), N, present);
    for (size_t i = 0; i < N; i++)
        CHECK(present[i / 64] >> i % 64 & 1);
    memset(data, 0, (size_t)layer.data_len);
    kind_parquet.query(&layer, data, hashes_of(hash), N, present);
    memset(present, 0, sizeof present);
    kind_parquet.query(&layer, data, hashes_of(hash), N, present);
    CHECK((present[0] | present[1] | present[2] | present[3]) == 0);
    free(data);
}

/* Loads from next to none to nearly full. An interval fails to hold for 5 % of the filters by
 * design: more than 28 of 200 fail with a chance of 5e-7 for each load. The mean of 200 estimates
 * is within 5 of its deviations, by their intervals, of the truth; in blocks of few keys, where the
 * estimate is raised to what the fullest words prove, within one of a single filter. */
TEST(the_estimate_holds)
{
    static const double loads[] = {0.1, 1, 6, 24, 60, 120, 180};
    enum { Z = 64, RUNS = 200 };
    struct layer layer = layer_of(Z);
    static uint8_t data[Z * PARQUET_BLOCK];
    random_restart(2);
    for (size_t l = 0; l < sizeof loads / sizeof *loads; l++) {
        size_t n = (size_t)(loads[l] * Z);
        unsigned missed = 0;
        double sum = 0, sd = 0;
        for (int run = 0; run < RUNS; run++) {
            struct census c;
            memset(data, 0, sizeof data);
            add_random(&layer, data, n);
            kind_parquet.census(&layer, data, 2, &c);
            CHECK(!c.n_at_least && c.n_low <= c.n && c.n <= c.n_high);
            missed += c.n_low > (double)n || c.n_high < (double)n;
            sum += c.n;
            sd += (c.n_high - c.n_low) / 2 / CENSUS_Z95 / RUNS;
        }
        printf("# load %g: missed %u of %d, mean error %g, deviation %g\n", loads[l], missed, RUNS,
               sum / RUNS - (double)n, sd);
        CHECK(missed <= 28);
        CHECK(fabs(sum / RUNS - (double)n) <= (loads[l] <= 6 ? sd : 5 * sd / sqrt(RUNS)));
        CHECK(loads[l] < 6 || missed > 0); /* the interval is not too wide */
    }
}

TEST(a_full_filter_gives_a_lower_bound_only)
{
    struct layer layer = layer_of(2);
    uint8_t data[2 * PARQUET_BLOCK];
    struct census c;
    memset(data, 0xff, sizeof data);
    kind_parquet.census(&layer, data, 1, &c);
    CHECK(c.n_at_least && c.fpr == 1 && c.n >= 64 && isfinite(c.n));
}

/* The rate by the bits is what queries find: of a million random keys, within 5 deviations (a
 * chance of 6e-7). */
TEST(the_rate_is_what_queries_find)
{
    enum { Z = 300, QUERIES = 1000000 };
    struct layer layer = layer_of(Z);
    static uint8_t data[Z * PARQUET_BLOCK];
    struct census c;
    unsigned hits = 0;
    random_restart(3);
    add_random(&layer, data, 30 * Z);
    kind_parquet.census(&layer, data, 1, &c);
    for (unsigned i = 0; i < QUERIES; i++) {
        uint64_t hash = draw(), present = 0;
        kind_parquet.query(&layer, data, hashes_of(&hash), 1, &present);
        hits += present != 0;
    }
    CHECK(fabs(hits - QUERIES * c.fpr) <= 5 * sqrt(QUERIES * c.fpr));
    CHECK(c.fpr > 0.01 && c.fpr < 0.1);
}

/* One key in a block answers for itself: 2^-32, where eight independent bits would give 2^-40. */
TEST(equal_hashes_count)
{
    struct layer layer = layer_of(1);
    uint8_t data[PARQUET_BLOCK] = {0};
    struct census c;
    random_restart(4);
    add_random(&layer, data, 1);
    kind_parquet.census(&layer, data, 1, &c);
    CHECK(fabs(c.fpr / (0x1p-32 + 0x1p-40) - 1) < 1e-6);
    CHECK(fabs(c.fpr / kind_parquet.fpr_at(&layer, 1) - 1) < 1e-6);
}

/* The mean rate of 100 filters, within 5 deviations, which are taken from the 100. */
TEST(the_predicted_rate_is_the_mean)
{
    static const struct {
        uint64_t blocks;
        size_t n;
    } cases[] = {{1, 20},    {2, 60},    {3, 10},    {50, 200},
                 {50, 1500}, {50, 3190}, {50, 3210}, {40, 6000}};
    static uint8_t data[50 * PARQUET_BLOCK];
    enum { RUNS = 100 };
    random_restart(5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layer layer = layer_of(cases[i].blocks);
        double sum = 0, squares = 0, want = kind_parquet.fpr_at(&layer, (double)cases[i].n);
        for (int run = 0; run < RUNS; run++) {
            struct census c;
            memset(data, 0, sizeof data);
            add_random(&layer, data, cases[i].n);
            kind_parquet.census(&layer, data, 1, &c);
            sum += c.fpr;
            squares += c.fpr * c.fpr;
        }
        double mean = sum / RUNS, sd = sqrt(fmax(0, squares / RUNS - mean * mean) / RUNS);
        printf("# %d blocks, %d keys: predicted %g, mean %g, deviation %g\n", (int)cases[i].blocks,
               (int)cases[i].n, want, mean, sd);
        CHECK(fabs(mean - want) <= 5 * sd + 1e-9);
    }
}

/* Sums over few and closed forms over many agree where one takes over, and rise throughout. */
TEST(the_predicted_rate_rises)
{
    for (uint64_t z = 1; z <= 1 << 26; z *= 4) {
        struct layer layer = layer_of(z);
        double last = 0, per = (double)z;
        for (double load = 0.25; load < 300; load *= 1.1) {
            double now = kind_parquet.fpr_at(&layer, load * per);
            CHECK(now > last && now <= 1);
            last = now;
        }
        CHECK(fabs(kind_parquet.fpr_at(&layer, 64.000001 * per) /
                       kind_parquet.fpr_at(&layer, 63.999999 * per) -
                   1) < 1e-6);
    }
    /* The table of sizes in the mathematics of split blocks: 10.53 bits a key for 1 %, 16.89 for
     * 0.1 %. */
    struct layer layer = layer_of(1 << 20);
    CHECK(fabs(kind_parquet.fpr_at(&layer, (1 << 28) / 10.53) - 0.01) < 2e-5);
    CHECK(fabs(kind_parquet.fpr_at(&layer, (1 << 28) / 16.89) - 0.001) < 2e-6);
}

/* ---- Folding. */

/* A filter of a multiple of the blocks, folded, is the small one with the same keys. */
TEST(layers_of_any_sizes_unite)
{
    enum { SMALL = 5000, FACTOR = 6, N = 20000 };
    struct layer small = layer_of(SMALL), large = layer_of(SMALL * FACTOR), out;
    uint8_t *a = calloc(1, (size_t)small.data_len), *b = calloc(1, (size_t)large.data_len);
    const struct layer *layers[] = {&large, &small};
    const uint8_t *data[] = {b, a};
    struct census alone, folded, threaded;
    random_restart(6);
    add_random(&small, a, N);
    random_restart(6);
    add_random(&large, b, N);
    kind_parquet.census(&small, a, 1, &alone);
    table_census_union(layers, data, 2, 1, &folded);
    table_census_union(layers, data, 2, 3, &threaded);
    CHECK(memcmp(&alone, &folded, sizeof alone) == 0);
    CHECK(memcmp(&threaded, &folded, sizeof threaded) == 0);
    CHECK(kind_parquet.uniting->unite(&small, &large, &out) && out.data_len == small.data_len);
    CHECK(kind_parquet.uniting->unite(&large, &small, &out) && out.data_len == small.data_len);
    out = layer_of(SMALL + 1);
    CHECK(!kind_parquet.uniting->unite(&small, &out, &large));
    free(a);
    free(b);
}

TEST(folding_halves_while_the_rate_lasts)
{
    struct layer layer = layer_of(128 * 3), out;
    const double n = 500;
    kind_parquet.uniting->fold(&layer, n, 1, 0, &out);
    CHECK(parquet_blocks(&out) == 3);
    kind_parquet.uniting->fold(&layer, n, 1, 6 * PARQUET_BLOCK, &out);
    CHECK(parquet_blocks(&out) == 12);
    kind_parquet.uniting->fold(&layer, n, 0, 0, &out);
    CHECK(parquet_blocks(&out) == 128 * 3);
    struct layer some = layer_of(24);
    kind_parquet.uniting->fold(&layer, n, parquet_fpr_at(&some, n), 0, &out);
    CHECK(parquet_blocks(&out) == 24);
}

TEST(geometry_is_checked)
{
    struct err err;
    struct layer layer = layer_of(3);
    CHECK(kind_parquet.check(&layer, &err));
    layer.geometry[0] = 2;
    CHECK(!kind_parquet.check(&layer, &err));
    layer = layer_of(0);
    CHECK(!kind_parquet.check(&layer, &err));
    layer = layer_of((uint64_t)1 << 59); /* 2^64 bytes */
    CHECK(!kind_parquet.check(&layer, &err));
    layer = layer_of((uint64_t)1 << 26); /* 2^31 bytes: more than a header can say */
    CHECK(!kind_parquet.check(&layer, &err));
    layer.geometry[1] = 1;
    CHECK(kind_parquet.check(&layer, &err));
    layer.geometry[1] = 2;
    CHECK(!kind_parquet.check(&layer, &err));
}

static void note_fact(void *ctx, const char *name, const char *value)
{
    snprintf(ctx, 100, "%s: %s", name, value);
}

TEST(the_number_of_blocks_is_a_fact)
{
    struct layout_filter filter = {.n_layers = 1, .layer = {layer_of(64)}};
    char fact[100];
    kind_parquet.layout->facts(&filter, note_fact, fact);
    CHECK_STR(fact, "blocks: 64");
    filter.layer[0] = layer_of(96);
    kind_parquet.layout->facts(&filter, note_fact, fact);
    CHECK_STR(fact, "blocks: 96, no power of two: Arrow refuses it");
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(the_programs_filters_are_read_and_written_again);
    RUN(a_file_may_be_the_blocks_alone);
    RUN(sizes_are_arrows);
    RUN(any_form_of_the_header_is_read);
    RUN(no_other_header_is_read);
    RUN(a_header_nests_only_so_deep);
    RUN(headers_are_recognized);
    RUN(a_key_is_in_its_page);
    RUN(the_estimate_holds);
    RUN(a_full_filter_gives_a_lower_bound_only);
    RUN(the_rate_is_what_queries_find);
    RUN(equal_hashes_count);
    RUN(the_predicted_rate_is_the_mean);
    RUN(the_predicted_rate_rises);
    RUN(layers_of_any_sizes_unite);
    RUN(folding_halves_while_the_rate_lasts);
    RUN(geometry_is_checked);
    RUN(the_number_of_blocks_is_a_fact);
    return check_done();
}
