/* SPDX-License-Identifier: MIT */
/* tags: portable foreign */
#include "foreign/classic.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "design.h"
#include "foreign/files.h"

/* As go-zero computes them, for 20000 bits. */
TEST(positions_are_those_of_go_zero)
{
    static const struct {
        const char *key;
        uint64_t position[14];
    } keys[] = {
        {"a",
         {5213, 9199, 5204, 12137, 2110, 11016, 17555, 19683, 8082, 18909, 4716, 17652, 13586,
          1792}},
        {"http://www.example.com/",
         {12044, 10717, 14597, 11613, 10563, 15699, 1860, 19209, 9979, 7804, 2546, 10625, 13865,
          4753}},
        {"布隆过滤器",
         {15575, 6261, 13954, 11249, 1774, 11879, 10794, 1951, 17802, 17366, 12518, 447, 14383,
          1347}},
    };
    struct layout_filter f;
    CHECK(design("gozero:bits=20000", 1000, 0, &f));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t position[14];
        positions_of(&f, keys[i].key, position);
        CHECK(memcmp(position, keys[i].position, sizeof position) == 0);
    }
}

static uint64_t bits(uint64_t n, double p)
{
    struct layout_filter f = {0};
    design("gozero", n, p, &f);
    return f.layer[0].geometry[0];
}

TEST(without_a_rate_there_are_20_bits_a_key)
{
    struct layout_filter f;
    CHECK(design("gozero", 1000, 0, &f));
    CHECK(classic_of(&f.layer[0]).m == 20000 && classic_of(&f.layer[0]).k == 14);
    CHECK(f.n_design == 1000 && !f.assumed);
    /* (1 - e^(-14/20))^14 */
    CHECK(fabs(f.fpr_design / 6.7135e-5 - 1) < 1e-4);
    CHECK(bits(214748364, 0) == 4294967280);
    CHECK(is_refused("gozero", 214748365, 0, "more than 2^32 bits"));
    CHECK(is_refused("gozero", UINT64_MAX, 0, "more than 2^32 bits"));
}

/* (1 - e^(-14n/m))^14 */
static double formula(double n, double m)
{
    return pow(-expm1(-14 * n / m), 14);
}

TEST(a_rate_gives_the_fewest_bits_that_have_it)
{
    static const uint64_t n[] = {1, 2, 1000, 12345, 10000000};
    static const double p[] = {0.9, 0.5, 0.01, 0.001, 1e-6, 1e-12};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 6; j++) {
            uint64_t m = bits(n[i], p[j]);
            CHECK(formula((double)n[i], (double)m) <= p[j] * (1 + 1e-9));
            CHECK(formula((double)n[i], (double)m - 1) > p[j] * (1 - 1e-9));
        }
    CHECK(bits(1, 1e-100) < (uint64_t)1 << 32);
    CHECK(is_refused("gozero", 1000, 1e-300, "more than 2^32 bits"));
}

TEST(given_bits_are_used_or_refused)
{
    struct layout_filter f;
    CHECK(design("gozero:bits=4294967296", 1, 0, &f));
    CHECK(design("gozero:bits=64", 1000000, 0, &f));
    CHECK(f.fpr_design < 1);
    CHECK(design("gozero:bits=20000", 1000, 1e-4, &f));
    CHECK(f.fpr_design == 1e-4);
    CHECK(is_refused("gozero:bits=20000", 1000, 1e-5, "more than 1e-05"));
    CHECK(is_refused("gozero:bits=4294967297", 1, 0, "from 1 to 4294967296"));
    CHECK(is_refused("gozero:bits=0", 1, 0, "from 1 to 4294967296"));
    CHECK(is_refused("gozero:bits=x", 1, 0, "from 1 to 4294967296"));
}

static bool is_sound(uint64_t m, unsigned k, uint64_t other)
{
    struct err err;
    struct layer layer = {.kind = &kind_gozero};
    classic_to(&(struct classic){.m = m, .k = k}, &layer);
    layer.geometry[3] = other;
    return kind_gozero.check(&layer, &err);
}

TEST(a_layer_has_fourteen_positions_and_at_most_2_32_bits)
{
    CHECK(is_sound(1, 14, 0) && is_sound((uint64_t)1 << 32, 14, 0));
    CHECK(!is_sound(0, 14, 0) && !is_sound(((uint64_t)1 << 32) + 1, 14, 0));
    CHECK(!is_sound(64, 13, 0) && !is_sound(64, 15, 0) && !is_sound(64, 14, 1));
}

/* Some network file systems set the time of a file long after it was written. */
TEST(a_pipe_is_copied_to_a_file_that_may_change_its_time)
{
    static const struct timespec later[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    const char *tmp = getenv("TMPDIR");
    struct layout_spec spec;
    struct foreign_files files;
    struct err err;
    FILE *pipe = popen("head -c 100000 /dev/zero", "r");
    CHECK(pipe != NULL && dup2(fileno(pipe), STDIN_FILENO) == STDIN_FILENO);
    MUST(layout_parse("gozero:bits=800000", &spec, &err));
    MUST(foreign_open(&files, "-", &spec, tmp != NULL ? tmp : "/tmp", &err));
    CHECK(files.in.len[0] == 100000 && futimens(files.mapped[0].fd, later) == 0);
    MUST(foreign_whole(&files, &err));
    foreign_close(&files);
    pclose(pipe);
}

int main(void)
{
    RUN(a_pipe_is_copied_to_a_file_that_may_change_its_time);
    RUN(positions_are_those_of_go_zero);
    RUN(without_a_rate_there_are_20_bits_a_key);
    RUN(a_rate_gives_the_fewest_bits_that_have_it);
    RUN(given_bits_are_used_or_refused);
    RUN(a_layer_has_fourteen_positions_and_at_most_2_32_bits);
    return check_done();
}
