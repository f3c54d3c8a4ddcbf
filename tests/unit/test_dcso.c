/* SPDX-License-Identifier: MIT */
/* DCSO's bloom, beside what the program itself wrote and answered (tests/vectors).
 * tags: portable foreign */
#include "foreign/classic.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "check.h"
#include "golden.h"

/* Columns of manifest.tsv. */
enum { FILE_NAME, IS_GZIP, COMMANDS, N, P, K, M, ADDED, DATA_LEN, KEYS, N_KEYS, ABSENT, ANSWERS };

static void path_of(char path[128], const char *name)
{
    snprintf(path, 128, "dcso/%s", name);
}

static struct golden open_row(const struct golden_table *t)
{
    char path[128];
    path_of(path, t->field[FILE_NAME]);
    return strcmp(t->field[IS_GZIP], "true") == 0 ? golden_open_raw(path) : golden_open(path);
}

/* Inflated if it is compressed. */
static struct golden plain(struct golden g)
{
    struct golden out = {malloc(1 << 20), 1 << 20};
    z_stream z = {
        .next_in = g.data, .avail_in = (uInt)g.len, .next_out = out.data, .avail_out = 1 << 20};
    if (g.data[0] != 0x1f) {
        memcpy(out.data, g.data, g.len);
        out.len = g.len;
        return out;
    }
    if (inflateInit2(&z, 16 + 15) != Z_OK || inflate(&z, Z_FINISH) != Z_STREAM_END)
        exit(2);
    out.len = z.total_out;
    inflateEnd(&z);
    return out;
}

static bool same_filter(struct golden a, struct golden b)
{
    struct golden x = plain(a), y = plain(b);
    bool same = golden_equal(x, y) && (a.data[0] == 0x1f) == (b.data[0] == 0x1f);
    free(x.data);
    free(y.data);
    return same;
}

static void check_answers(struct taken *t, const char *absent, const char *answers, size_t n_keys)
{
    char path[128];
    struct golden_keys keys = golden_keys("keys/keys.txt");
    snprintf(path, sizeof path, "keys/%s", absent);
    struct golden_keys others = golden_keys(path);
    path_of(path, answers);
    struct golden want = golden_open(path), got = golden_answer(t, &others, others.n);
    struct golden there = golden_answer(t, &keys, n_keys);
    CHECK(golden_equal(got, want));
    CHECK(memchr(there.data, '0', there.len) == NULL);
    free(there.data);
    free(got.data);
    free(want.data);
    free(others.text.data);
    free(keys.text.data);
}

TEST(the_programs_filters_are_read_and_written_again)
{
    struct golden_table t = golden_table("dcso/manifest.tsv");
    unsigned rows = 0;
    for (; golden_row(&t); rows++) {
        struct err err;
        struct taken taken;
        struct golden file = open_row(&t);
        unsigned from, to;
        size_t n_keys =
            sscanf(t.field[N_KEYS], "%u-%u joined with %u-%u", &from, &to, &from, &to) == 4
                ? to
                : (size_t)atoi(t.field[N_KEYS] + strlen("first "));
        struct golden content = plain(file);
        const struct layout_foreign in = {
            .data = {content.data}, .len = {content.len}, .zipped = content.len != file.len};
        bool ok = golden_take_in("dcso", &in, &taken, &err);
        free(content.data);
        MUST(ok);
        if (!ok)
            continue;
        struct classic c = classic_of(taken_layer(&taken));
        CHECK(taken.filter.n_design == strtoull(t.field[N], NULL, 10));
        CHECK(taken.filter.fpr_design == strtod(t.field[P], NULL) && !taken.filter.assumed);
        CHECK(c.k == strtoul(t.field[K], NULL, 10) && c.m == strtoull(t.field[M], NULL, 10));
        CHECK(c.extra == strtoull(t.field[DATA_LEN], NULL, 10));
        CHECK(taken.filter.n_added == strtoull(t.field[ADDED], NULL, 10));
        check_answers(&taken, t.field[ABSENT], t.field[ANSWERS], n_keys);
        struct golden back = golden_write(&taken);
        CHECK(same_filter(back, file));
        free(back.data);
        free(file.data);
        golden_free(&taken);
    }
    CHECK(rows == 9);
    free(t.text.data);
}

TEST(the_programs_filters_are_made_alike)
{
    struct golden_table t = golden_table("dcso/manifest.tsv");
    struct golden_keys keys = golden_keys("keys/keys.txt");
    unsigned rows = 0;
    while (golden_row(&t)) {
        struct err err;
        struct taken taken;
        if (strstr(t.field[COMMANDS], "join") != NULL || strcmp(t.field[DATA_LEN], "0") != 0)
            continue;
        const char *spec = strcmp(t.field[IS_GZIP], "true") == 0 ? "dcso:gzip=yes" : "dcso";
        MUST(golden_design(spec, strtoull(t.field[N], NULL, 10), strtod(t.field[P], NULL), &taken,
                           &err));
        golden_add(&taken, &keys, 0, (size_t)atoi(t.field[N_KEYS] + strlen("first ")));
        struct golden file = open_row(&t), made = golden_write(&taken);
        CHECK(same_filter(made, file));
        free(made.data);
        free(file.data);
        golden_free(&taken);
        rows++;
    }
    CHECK(rows == 7);
    free(keys.text.data);
    free(t.text.data);
}

TEST(adding_goes_on_where_the_program_stopped)
{
    struct err err;
    struct taken taken;
    struct golden_keys keys = golden_keys("keys/keys.txt");
    struct golden half = golden_open("dcso/dc_n1000_p01_first500.bloom");
    struct golden all = golden_open("dcso/dc_n1000_p01.bloom");
    MUST(golden_take("dcso", half.data, half.len, &taken, &err));
    golden_add(&taken, &keys, 500, 1000);
    struct golden made = golden_write(&taken);
    CHECK(taken.filter.n_added == 997);
    CHECK(golden_equal(made, all));
    free(made.data);
    free(half.data);
    free(all.data);
    free(keys.text.data);
    golden_free(&taken);
}

TEST(positions_are_the_programs)
{
    struct golden_table t = golden_table("dcso/hash_tails.tsv");
    struct layer layer = {.kind = &kind_dcso};
    unsigned rows = 0;
    classic_to(&(struct classic){.m = 1000003, .k = 4}, &layer);
    for (; golden_row(&t); rows++) {
        uint64_t hash = strtoull(t.field[2], NULL, 16), at[4], want[4];
        kind_dcso.layout->positions(&layer, hashes_of(&hash), 1, at);
        CHECK(sscanf(t.field[3], "%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64, &want[0], &want[1],
                     &want[2], &want[3]) == 4);
        CHECK(memcmp(at, want, sizeof at) == 0);
    }
    CHECK(rows == 65);
    free(t.text.data);
}

/* Hashes at and above the chain's modulus, by its definition; and two whose first product is. */
TEST(the_chain_reduces_every_hash)
{
    static const uint64_t hash[] = {0,
                                    1,
                                    UINT64_MAX - 59,
                                    UINT64_MAX - 58,
                                    UINT64_MAX - 57,
                                    UINT64_MAX,
                                    0xa5baa42920969157,
                                    0xa90a4825a455bd6e};
    enum { PER_KEY = 5, HASHES = sizeof hash / sizeof *hash };
    struct layer layer = {.kind = &kind_dcso};
    uint64_t at[HASHES * PER_KEY];
    classic_to(&(struct classic){.m = 999983, .k = PER_KEY}, &layer);
    kind_dcso.layout->positions(&layer, hashes_of(hash), HASHES, at);
    for (size_t i = 0; i < HASHES; i++) {
        uint64_t h = hash[i] % 18446744073709551557U;
        for (size_t j = 0; j < PER_KEY; j++) {
            h = h * 18446744073709550147U % 18446744073709551557U;
            CHECK(at[i * PER_KEY + j] == h % 999983);
        }
    }
}

TEST(sizes_are_the_programs)
{
    struct golden_table t = golden_table("dcso/sizing.tsv");
    unsigned rows = 0;
    for (; golden_row(&t); rows++) {
        struct err err;
        struct layout_spec spec;
        struct layout_filter filter;
        uint64_t n = strtoull(t.field[0], NULL, 10), m = strtoull(t.field[2], NULL, 10);
        double p = strtod(t.field[1], NULL);
        CHECK(layout_parse("dcso", &spec, &err));
        bool made = kind_dcso.layout->design(&spec, n, p, &filter, &err);
        CHECK(made == (m > 0));
        if (!made)
            continue;
        struct classic c = classic_of(&filter.layer[0]);
        CHECK(c.m == m && c.k == strtoul(t.field[4], NULL, 10));
        CHECK(filter.n_design == n && filter.fpr_design == p);
        CHECK(kind_dcso.check(&filter.layer[0], &err));
    }
    CHECK(rows > 80);
    free(t.text.data);
}

TEST(without_a_rate_it_is_the_programs_own)
{
    struct err err;
    struct taken taken;
    MUST(golden_design("dcso", 1000, 0, &taken, &err));
    CHECK(taken.filter.fpr_design == 0.01 && classic_of(taken_layer(&taken)).m == 9585);
    golden_free(&taken);
    CHECK(!golden_design("dcso", UINT64_MAX, 1e-9, &taken, &err));
}

/* What the program accepts and a filter cannot be. */
static bool cannot_be(const char *name)
{
    return strcmp(name, "k = 0") == 0 || strcmp(name, "m = 0") == 0 || strcmp(name, "p = NaN") == 0;
}

TEST(broken_files_are_refused)
{
    struct golden_table t = golden_table("dcso/malformed.tsv");
    unsigned rows = 0;
    for (; golden_row(&t); rows++) {
        struct err err;
        struct taken taken;
        struct golden file = golden_hex(t.field[1]);
        bool good = strcmp(t.field[2], "accepted") == 0 && !cannot_be(t.field[0]);
        bool taken_over = golden_take("dcso", file.data, file.len, &taken, &err);
        if (taken_over != good)
            printf("# %s\n", t.field[0]);
        CHECK(taken_over == good);
        if (!taken_over)
            continue;
        struct golden back = golden_write(&taken);
        memset(file.data + 1, 0, 7); /* which mean nothing, and are lost */
        CHECK(golden_equal(back, file));
        CHECK(taken.filter.assumed == (strcmp(t.field[0], "n = 0") == 0));
        free(back.data);
        golden_free(&taken);
    }
    CHECK(rows == 15);
    free(t.text.data);
}

TEST(bits_beyond_the_last_are_refused)
{
    struct err err;
    struct taken taken;
    struct golden file = golden_open("dcso/dc_n1000_p01.bloom");
    file.data[48 + 9585 / 8] |= 1 << 9585 % 8;
    CHECK(!golden_take("dcso", file.data, file.len, &taken, &err));
    CHECK_STR(err.text, "bit 9585 is set, but there are 9585 bits");
    free(file.data);
}

TEST(what_the_user_says_must_agree)
{
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    struct layout_bits bits;
    struct golden file = golden_open("dcso/dc_n1000_p01.bloom");
    const struct layout_foreign in = {.data = {file.data}, .len = {file.len}};
    CHECK(layout_parse("dcso:gzip=yes", &spec, &err));
    CHECK(!kind_dcso.layout->read(&spec, &in, &filter, &bits, &err));
    CHECK(layout_parse("dcso:gzip=no", &spec, &err));
    spec.n = 1000;
    spec.p = 0.01;
    CHECK(kind_dcso.layout->read(&spec, &in, &filter, &bits, &err));
    spec.n = 999;
    CHECK(!kind_dcso.layout->read(&spec, &in, &filter, &bits, &err));
    spec.n = 0;
    spec.p = 0.02;
    CHECK(!kind_dcso.layout->read(&spec, &in, &filter, &bits, &err));
    free(file.data);
}

TEST(its_files_are_recognized)
{
    static const struct {
        const char *name;
        bool is;
    } files[] = {{"dcso/dc_data.bloom", true},
                 {"dcso/dc_n1_p5.bloom", true},
                 {"redisson/rs_bytes_n1_p5.bitmap", false}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct golden file = golden_open_raw(files[i].name);
        const struct layout_foreign in = {.data = {file.data}, .len = {file.len}};
        CHECK(kind_dcso.layout->recognize(&in) == files[i].is);
        const struct layout_foreign begun = {.data = {file.data}, .len = {47}};
        CHECK(file.len < 48 || !kind_dcso.layout->recognize(&begun));
        const struct layout_foreign zipped = {.data = {file.data}, .len = {48}, .zipped = true};
        CHECK(file.len < 48 || kind_dcso.layout->recognize(&zipped) == files[i].is);
        free(file.data);
    }
}

TEST(only_filters_of_one_design_are_joined)
{
    struct layer a = {.kind = &kind_dcso, .n_design = 1000, .fpr_design = 0.01}, b, out;
    classic_to(&(struct classic){.m = 9585, .k = 7, .extra = 3}, &a);
    b = a;
    classic_to(&(struct classic){.m = 9585, .k = 7}, &b);
    b.geometry[3] = 1;
    CHECK(table_unite(&a, &b, &out) && out.data_len == a.data_len && out.geometry[3] == 0);
    CHECK(table_unite(&b, &a, &out) && out.data_len == b.data_len && out.geometry[3] == 1);
    b.n_design = 1001;
    CHECK(!table_unite(&a, &b, &out));
    b = a;
    b.fpr_design = 0.02;
    CHECK(!table_unite(&a, &b, &out));
    classic_to(&(struct classic){.m = 9586, .k = 7}, &b);
    b.fpr_design = 0.01;
    CHECK(!table_unite(&a, &b, &out));
}

/* However few bits there are, and however few of them are clear. */
TEST(tiny_filters_have_sound_numbers)
{
    for (uint64_t m = 1; m < 64; m++)
        for (unsigned k = 1; k < 4; k++)
            for (uint64_t set = 0; set <= m; set++) {
                struct layer layer = {.kind = &kind_dcso};
                struct census c;
                uint8_t data[8];
                classic_to(&(struct classic){.m = m, .k = k}, &layer);
                put_le64(data, ((uint64_t)1 << set) - 1);
                kind_dcso.census(&layer, data, 1, &c);
                CHECK(c.n_low * k >= (double)set && c.n_low <= c.n && c.n <= c.n_high);
                CHECK(c.fpr >= 0 && c.fpr <= 1);
            }
}

/* Where m is a power of 2, the first position of a key gives all others. */
TEST(the_excess_is_that_of_equal_and_neighbouring_hashes)
{
    const struct classic c = {.m = 1 << 12, .k = 13};
    struct layer layer = {.kind = &kind_dcso};
    classic_to(&c, &layer);
    for (double set = 0.25; set < 1; set += 0.25) {
        double a_bit = -log1p(-set) / c.k; /* keys */
        double excess = kind_dcso.layout->excess(&layer, set);
        CHECK(fabs(excess / (a_bit * (1 + set) / (1 - set)) - 1) < 1e-12);
    }
    CHECK(kind_dcso.layout->excess(&layer, 0) == 0 && kind_dcso.layout->excess(&layer, 1) == 0);
}

int main(void)
{
    RUN(the_programs_filters_are_read_and_written_again);
    RUN(the_programs_filters_are_made_alike);
    RUN(adding_goes_on_where_the_program_stopped);
    RUN(positions_are_the_programs);
    RUN(the_chain_reduces_every_hash);
    RUN(sizes_are_the_programs);
    RUN(without_a_rate_it_is_the_programs_own);
    RUN(broken_files_are_refused);
    RUN(bits_beyond_the_last_are_refused);
    RUN(what_the_user_says_must_agree);
    RUN(its_files_are_recognized);
    RUN(only_filters_of_one_design_are_joined);
    RUN(tiny_filters_have_sound_numbers);
    RUN(the_excess_is_that_of_equal_and_neighbouring_hashes);
    return check_done();
}
