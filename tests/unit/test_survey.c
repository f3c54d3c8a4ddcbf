/* SPDX-License-Identifier: MIT */
/* keys/survey.c: how many records and keys a file may bring. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "keys/rule.h"
#include "keys/survey.h"
#include "scratchdir.h"

enum { N = 1 << 21 };

static char name[] = "in", *const path[] = {name, name};
static const struct input_spec spec = {
    .files = path, .n_files = 1, .terminator = '\n', .gzip = true};

/* Numbers 0 to N - 1 in another order. */
static uint64_t scatter(uint64_t i)
{
    uint64_t x = i * 0x9e3779b1 % N;
    x = (x ^ x >> 11) * 0x85ebca6b % N;
    return x ^ x >> 10;
}

/* N records of ten bytes and those before: from record `from` on, each key comes `times` times. */
static void write_records(unsigned times, uint64_t from, const char *before)
{
    FILE *out = fopen("in", "w");
    CHECK(out != NULL);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t key = i < from ? i : N + scatter(i) / times;
        fprintf(out, "%s%09llx\n", before, (unsigned long long)key);
    }
    CHECK(fclose(out) == 0);
}

/* The numbers of records and of keys. */
struct numbers {
    uint64_t n, keys;
};

static struct numbers look(const struct input_spec *of, const struct key_rule *rule)
{
    struct numbers got;
    got.n = survey(of, rule, &got.keys);
    return got;
}

static bool knows_nothing(const struct key_rule *rule)
{
    struct numbers got = look(&spec, rule);
    return got.n == 0 && got.keys == 0;
}

static bool is_near(uint64_t got, double want, double part)
{
    return fabs((double)got - want) <= part * want;
}

TEST(records_are_told_by_their_lengths)
{
    const struct input_spec twice = {.files = path, .n_files = 2, .terminator = '\n'};
    const struct key_rule rule = {.terminator = '\n'};
    write_records(1, 0, "");
    CHECK(is_near(look(&spec, &rule).n, N, 0.001));
    CHECK(is_near(look(&twice, &rule).n, 2 * N, 0.001));
}

TEST(keys_are_told_by_repeats)
{
    const struct key_rule rule = {.terminator = '\n'};
    write_records(1, 0, "");
    struct numbers got = look(&spec, &rule);
    CHECK(got.keys == got.n);
    for (unsigned times = 2; times <= 64; times *= 2) {
        /* A pair of the 32768 records that are looked at is a repeat with a probability of
         * (times - 1) / N, so at least 256 repeats are expected, with a standard deviation of a
         * sixteenth; six of these are allowed for. */
        double k = (double)N / (times - 1);
        write_records(times, 0, "");
        CHECK(is_near(look(&spec, &rule).keys, k * (1 - exp(-N / k)), 0.4));
    }
    /* A part of the keys comes often. */
    write_records(N, N / 2, "");
    CHECK(look(&spec, &rule).keys < N / 2);
}

TEST(keys_are_what_the_rule_says)
{
    const struct key_rule field = {.terminator = '\n', .field = {2}, .delimiter = ' '},
                          other = {.terminator = '\n', .field = {1}, .delimiter = ' '},
                          lacking = {.terminator = '\n', .field = {3}, .delimiter = ' '};
    write_records(1, 0, "a ");
    struct numbers got = look(&spec, &field);
    CHECK(got.keys == got.n && got.n > 0);
    CHECK(look(&spec, &other).keys < N / 100);
    CHECK(look(&spec, &lacking).keys == 0);
    /* A third of the records has a second field. */
    FILE *out = fopen("in", "w");
    CHECK(out != NULL);
    for (unsigned i = 0; i < N; i++)
        fprintf(out, i % 3 == 0 ? "a %x\n" : "%x\n", i);
    CHECK(fclose(out) == 0);
    const struct key_rule skipping = {
        .terminator = '\n', .field = {2}, .delimiter = ' ', .skip_bad = true};
    got = look(&spec, &skipping);
    CHECK(got.keys == got.n && got.n > 0);
}

/* The same for `other`, of n records. */
static void write_other(unsigned n)
{
    FILE *out = fopen("other", "w");
    CHECK(out != NULL);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%09x\n", i);
    CHECK(fclose(out) == 0);
}

TEST(all_files_are_looked_at)
{
    static char second[] = "other", *const paths[] = {name, second}, *const back[] = {second, name};
    const struct input_spec both = {.files = paths, .n_files = 2, .terminator = '\n'},
                            turned = {.files = back, .n_files = 2, .terminator = '\n'};
    const struct key_rule field = {.terminator = '\n', .field = {2}, .delimiter = ' '};
    write_records(1, 0, "a ");
    /* Of the bytes, 12/13 have keys, and then 3/8. */
    write_other(N / 10);
    struct numbers got = look(&both, &field);
    CHECK(is_near(got.n, 1.1 * N, 0.1) && got.keys == got.n);
    got = look(&turned, &field);
    CHECK(got.keys == got.n);
    write_other(2 * N);
    got = look(&both, &field);
    CHECK(is_near(got.n, 3 * N, 0.1));
    CHECK(got.keys == 0 && look(&turned, &field).keys == 0);
    unlink("other");
}

/* Writes n records of CSV. The first of every `every` has `lines` lines between its quotes. */
static void write_csv(unsigned n, unsigned every, unsigned lines)
{
    FILE *out = fopen("in", "w");
    CHECK(out != NULL && fputs("\r\n\xef\xbb\xbfnote,id\n", out) >= 0);
    for (unsigned i = 0; i < n; i++) {
        fputs("\"", out);
        for (unsigned l = i % every == 0 ? lines : 0; l > 0; l--)
            fputs("a line\n", out);
        fprintf(out, "\"\"here\"\", it is\",%x\n", i);
    }
    CHECK(fclose(out) == 0);
}

TEST(records_of_csv_are_not_lines)
{
    static char list[] = "id", wrong[] = "url";
    struct csv *csv = calloc(1, sizeof *csv);
    const struct input_spec of = {
        .files = path, .n_files = 1, .terminator = '\n', .csv = csv, .header = 1};
    const struct key_rule rule = {.terminator = '\n', .csv = csv};
    struct err err;
    CHECK(csv != NULL);
    csv->delimiter = ',';
    CHECK(csv_want(csv, list, &err));
    write_csv(N / 8, 1, 3);
    struct numbers got = look(&of, &rule);
    CHECK(is_near(got.n, N / 8.0, 0.02) && got.keys == got.n);
    /* A field of 70,000 bytes, more than a part has, then about 70,000 bytes of short records. Each
     * of 64 parts lies in one or the other: the share of records has a standard deviation of 1/16.
     */
    write_csv(N / 8, 2800, 10000);
    got = look(&of, &rule);
    CHECK(is_near(got.n, N / 8.0, 0.4));
    CHECK(csv_want(csv, wrong, &err));
    got = look(&of, &rule);
    CHECK(got.n == 0 && got.keys == 0);
    free(csv);
}

TEST(what_cannot_be_looked_at)
{
    const struct key_rule rule = {.terminator = '\n'};
    unlink("in");
    CHECK(knows_nothing(&rule));
    CHECK(mkfifo("in", 0600) == 0);
    CHECK(knows_nothing(&rule));
    unlink("in");
    FILE *out = fopen("in", "w");
    CHECK(out != NULL && knows_nothing(&rule));
    for (int i = 0; i < 100000; i++)
        fputs("one record", out);
    CHECK(fclose(out) == 0);
    struct numbers got = look(&spec, &rule);
    CHECK(got.n == 1 && got.keys == 0);
    out = fopen("in", "w");
    CHECK(out != NULL && fputs("a\n", out) >= 0 && fclose(out) == 0);
    got = look(&spec, &rule);
    CHECK(got.n == 2 && got.keys == 0);
    out = fopen("in", "w"); /* of 700 long records, 500 are looked at */
    CHECK(out != NULL);
    for (int i = 0; i < 700; i++)
        fprintf(out, "%02000d\n", i);
    CHECK(fclose(out) == 0);
    got = look(&spec, &rule);
    CHECK(is_near(got.n, 700, 0.1) && got.keys == 0);
    out = fopen("in", "w");
    CHECK(out != NULL && fputs("\x1f\x8b\x08\x01 and so on\n", out) >= 0 && fclose(out) == 0);
    CHECK(knows_nothing(&rule));
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(records_are_told_by_their_lengths);
    RUN(keys_are_told_by_repeats);
    RUN(keys_are_what_the_rule_says);
    RUN(all_files_are_looked_at);
    RUN(records_of_csv_are_not_lines);
    RUN(what_cannot_be_looked_at);
    scratchdir_leave();
    return check_done();
}
