/* SPDX-License-Identifier: MIT */
/* tags: portable foreign */
#include "foreign/classic.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "design.h"

/* As Redisson computes them. The bytes of these keys are what their codec makes of them. */
TEST(positions_are_those_of_redisson)
{
    static const struct {
        const char *spec, *key;
        uint64_t position[7];
    } keys[] = {
        {"redisson:bits=9585,k=7", "a", {2938, 1673, 4611, 998, 3936, 2671, 3261}},
        {"redisson:bits=9585,k=7",
         "http://www.example.com/",
         {1247, 1727, 2974, 1106, 2353, 485, 1732}},
        {"redisson:bits=9585,k=7", "布隆过滤器", {491, 6620, 7111, 1307, 1798, 5579, 6070}},
        {"redisson:codec=long,bits=8142,k=6", "0", {131, 4149, 4280, 156, 5919, 1795}},
        {"redisson:codec=long,bits=8142,k=6", "-1", {6981, 7562, 6401, 4472, 3311, 1382}},
        {"redisson:codec=kryo5,bits=6235,k=4", "\x03\x82\x61", {3381, 2564, 5945, 5128}},
        {"redisson:codec=json,bits=7298,k=5", "\"a\"", {5091, 845, 5936, 2502, 295}},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct layout_filter f;
        uint64_t position[7] = {0};
        if (!design(keys[i].spec, 1000, 0, &f))
            continue;
        positions_of(&f, keys[i].key, position);
        CHECK(memcmp(position, keys[i].position, sizeof position) == 0);
    }
}

/* A row of sizing.tsv: n, p, m and k, or "refused". */
static void check_size(const char *row)
{
    struct layout_filter f = {0};
    uint64_t n, m;
    double p;
    unsigned k;
    int got = sscanf(row, "%" SCNu64 " %lf %" SCNu64 " %u", &n, &p, &m, &k);
    if (got == 2) {
        CHECK(strstr(row, "refused") != NULL &&
              is_refused("redisson", n, p, "Redisson cannot make a filter "));
        return;
    }
    CHECK(got == 4 && design("redisson", n, p, &f));
    CHECK(classic_of(&f.layer[0]).m == m && classic_of(&f.layer[0]).k == k);
    CHECK(f.n_design == n && f.fpr_design == p && !f.assumed);
}

TEST(sizes_are_those_of_redisson)
{
    FILE *rows = fopen(VECTORS "/redisson/sizing.tsv", "r");
    char row[256];
    int n = 0;
    CHECK(rows != NULL && fgets(row, sizeof row, rows) != NULL);
    for (; rows != NULL && fgets(row, sizeof row, rows) != NULL; n++)
        check_size(row);
    CHECK(n == 117);
    if (rows != NULL)
        fclose(rows);
}

/* Imports an empty bitmap. */
static bool import(const char *text, uint64_t n, double p, struct layout_filter *f, struct err *err)
{
    const struct layout_foreign in = {.name = {"-"}, .data = {(const uint8_t *)""}};
    struct layout_bits bits[LAYOUT_LAYERS];
    struct layout_spec spec;
    if (!layout_parse(text, &spec, err))
        return false;
    spec.n = n;
    spec.p = p;
    return kind_redisson.layout->read(&spec, &in, f, bits, err);
}

TEST(an_import_needs_both_numbers_or_what_they_follow_from)
{
    static const struct {
        const char *spec;
        uint64_t n;
        double p;
        bool ok, assumed;
    } imports[] = {
        {"redisson", 0, 0, false, false},
        {"redisson:bits=9585", 0, 0, false, false},
        {"redisson:k=7", 0, 0, false, false},
        {"redisson", 1000, 0, false, false},
        {"redisson", 0, 0.01, false, false},
        {"redisson:bits=9585", 1000, 0, false, false},
        {"redisson:bits=9585,k=7", 0, 0, true, true},
        {"redisson:bits=9585,k=7", 1000, 0, true, true},
        {"redisson:bits=9585,k=7", 0, 0.01, true, true},
        {"redisson", 1000, 0.01, true, false},
        {"redisson:bits=9585", 1000, 0.01, true, false},
        {"redisson:bits=9585,k=7", 1000, 0.01, true, false},
        {"redisson:bits=9584,k=7", 1000, 0.01, false, false},
        {"redisson:k=6", 1000, 0.01, false, false},
        {"redisson:bits=4294967295,k=7", 0, 0, false, false},
        {"redisson:bits=9585,k=4097", 0, 0, false, false},
    };
    for (size_t i = 0; i < sizeof imports / sizeof *imports; i++) {
        struct layout_filter f;
        struct err err = {.text = ""};
        bool ok = import(imports[i].spec, imports[i].n, imports[i].p, &f, &err);
        CHECK(ok == imports[i].ok && ok == (err.text[0] == '\0'));
        if (ok)
            CHECK(classic_of(&f.layer[0]).m == 9585 && classic_of(&f.layer[0]).k == 7 &&
                  f.assumed == imports[i].assumed);
    }
}

TEST(given_numbers_are_used_for_a_new_filter)
{
    struct layout_filter f;
    CHECK(design("redisson:bits=9585,k=7", 2000, 0, &f));
    CHECK(f.n_design == 2000 && f.fpr_design > 0.1 && f.fpr_design < 0.2);
    CHECK(design("redisson:bits=9585,k=7", 900, 0.01, &f) && f.fpr_design == 0.01);
    CHECK(is_refused("redisson:bits=9585,k=7", 2000, 0.01, "more than 0.01"));
    CHECK(is_refused("redisson:bits=9585", 2000, 0, "its size is unknown"));
    CHECK(is_refused("redisson:k=7", 2000, 0, "its size is unknown"));
    CHECK(design("redisson", 1000, 0, &f) && classic_of(&f.layer[0]).m == 14377);
}

TEST(a_configuration_must_be_what_redisson_writes)
{
    static const struct {
        const char *size, *iterations, *why;
    } rows[] = {
        {"4294967294", "4096", ""},
        {"4294967295", "7",
         "its configuration says size='4294967295', which Redisson does not write"},
        {"9585", "4097",
         "its configuration says hashIterations='4097', which Redisson does not write"},
        {"", "7", "its configuration says size='', which Redisson does not write"},
        {"9585", NULL, "its configuration has no hashIterations"},
    };
    struct layout_spec spec, out;
    struct err err;
    MUST(layout_parse("redisson", &spec, &err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const value[LAYOUT_PARAMS] = {rows[i].size, rows[i].iterations};
        err.text[0] = '\0';
        bool ok = kind_redisson.layout->redis->configure(&spec, value, &out, &err);
        CHECK(ok == (rows[i].why[0] == '\0'));
        CHECK_STR(err.text, rows[i].why);
        CHECK(!ok || (strcmp(out.value[1], rows[i].size) == 0 &&
                      strcmp(out.value[2], rows[i].iterations) == 0));
    }
}

static void append(void *ctx, const char *name, const char *value)
{
    char *text = ctx;
    size_t at = strlen(text);
    snprintf(text + at, 256 - at, "%s=%s;", name, value);
}

static void check_facts(const char *spec, uint64_t n, double p, const char *want)
{
    struct layout_filter f;
    struct err err;
    char text[256] = "";
    MUST(import(spec, n, p, &f, &err));
    kind_redisson.layout->facts(&f, append, text);
    CHECK_STR(text, want);
}

/* falseProbability as Java 19 and later print it. */
TEST(the_configuration_is_what_redisson_writes)
{
    static const struct {
        double p;
        const char *java;
    } rates[] = {
        {0.01, "0.01"},
        {0.001, "0.001"},
        {1e-4, "1.0E-4"},
        {0.5, "0.5"},
        {0.03, "0.03"},
        {0.0009999, "9.999E-4"},
        {0.9999, "0.9999"},
        {2.5e-7, "2.5E-7"},
        {1.0 / 3, "0.3333333333333333"},
        {1e-9, "1.0E-9"},
        {1e-12, "1.0E-12"},
        {0x1p-1074, "4.9E-324"},
        {2e-5, "2.0E-5"},
        {0.1 + 0.2, "0.30000000000000004"},
    };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct layout_filter f;
        char want[256], text[256] = "";
        if (!design("redisson", 12345, rates[i].p, &f))
            continue;
        snprintf(want, sizeof want,
                 "size=%" PRIu64 ";hashIterations=%u;expectedInsertions=12345;"
                 "falseProbability=%s;",
                 classic_of(&f.layer[0]).m, classic_of(&f.layer[0]).k, rates[i].java);
        kind_redisson.layout->facts(&f, append, text);
        CHECK_STR(text, want);
    }
    check_facts("redisson", 1000, 0.01,
                "size=9585;hashIterations=7;expectedInsertions=1000;falseProbability=0.01;");
    check_facts("redisson:bits=9585,k=7", 0, 0, "size=9585;hashIterations=7;");
    check_facts("redisson:bits=9585,k=7", 0, 0.01, "size=9585;hashIterations=7;");
}

TEST(a_spec_comes_back)
{
    static const char *const specs[] = {
        "redisson:codec=string,bits=9585,k=7",        "redisson:codec=long,bits=9585,k=7",
        "redisson:codec=int,bits=9585,k=7",           "redisson:codec=bytes,bits=1,k=1",
        "redisson:codec=json,bits=4294967294,k=1074", "redisson:codec=kryo5,bits=9585,k=7",
        "redisson:codec=kryo5long,bits=9585,k=7",     "redisson:codec=kryo5int,bits=9585,k=7",
        "redisson:codec=kryo5ref,bits=9585,k=7",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct layout_filter f;
        struct err err;
        char text[LAYOUT_TEXT];
        MUST(import(specs[i], 0, 0, &f, &err));
        layout_show(&f, text, sizeof text);
        CHECK_STR(text, specs[i]);
    }
}

/* Of h1, u and h1 + u, each two are independent. */
TEST(up_to_three_positions_have_the_fpr_of_the_formula)
{
    static const char *const specs[] = {
        "redisson:bits=5592,k=1", "redisson:bits=5591,k=1", "redisson:bits=4096,k=1",
        "redisson:bits=5592,k=2", "redisson:bits=5591,k=3", "redisson:bits=4096,k=3",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (double n = 100; n < 1e5; n *= 2) {
            struct layout_filter f;
            struct err err;
            MUST(import(specs[i], 0, 0, &f, &err));
            struct classic c = classic_of(&f.layer[0]);
            double formula = pow(-expm1(-n * c.k / (double)c.m), c.k);
            CHECK(fabs(f.layer[0].kind->fpr_at(&f.layer[0], n) - formula) < 1e-3);
        }
}

int main(void)
{
    RUN(positions_are_those_of_redisson);
    RUN(sizes_are_those_of_redisson);
    RUN(an_import_needs_both_numbers_or_what_they_follow_from);
    RUN(given_numbers_are_used_for_a_new_filter);
    RUN(a_configuration_must_be_what_redisson_writes);
    RUN(the_configuration_is_what_redisson_writes);
    RUN(a_spec_comes_back);
    RUN(up_to_three_positions_have_the_fpr_of_the_formula);
    return check_done();
}
