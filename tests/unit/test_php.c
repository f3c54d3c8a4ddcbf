/* SPDX-License-Identifier: MIT */
/* tags: portable foreign */
#include "foreign/classic.h"

#include <stdlib.h>

#include "check.h"
#include "design.h"
#include "faulty.h"
#include "kind/target.h"

#define PHP_ALL "php:functions=BKDRHash+SDBMHash+JSHash+PJWHash+ELFHash+DJBHash+DEKHash+FNVHash"

/* As PHP computes them. */
TEST(positions_are_the_functions_in_the_order_of_the_list)
{
    static const struct {
        const char *spec, *key;
        uint64_t position[8];
    } keys[] = {
        {"php", "a", {97, 97, 2935291990}},
        {"php", "http://www.example.com/", {1684316102, 2324943916, 565842770}},
        {"php:functions=JSHash+BKDRHash", "13800138000", {4236694303, 2359957253}},
        {"php:functions=FNVHash", "a", {93158121}},
        {PHP_ALL,
         "http://www.example.com/",
         {1684316102, 2324943916, 565842770, 3863617935, 188986399, 3883255260, 73337467,
          1050030514}},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct layout_filter f;
        uint64_t position[8] = {0};
        if (!design(keys[i].spec, 1000, 0, &f))
            continue;
        positions_of(&f, keys[i].key, position);
        CHECK(memcmp(position, keys[i].position, sizeof position) == 0);
    }
}

TEST(the_functions_are_shown_in_the_order_of_the_list)
{
    static const char *const specs[] = {
        "php:functions=BKDRHash+SDBMHash+JSHash",
        "php:functions=JSHash+BKDRHash+SDBMHash",
        "php:functions=PJWHash",
        PHP_ALL,
    };
    struct layout_filter f;
    char text[LAYOUT_TEXT];
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        CHECK(design(specs[i], 1, 0, &f));
        layout_show(&f, text, sizeof text);
        CHECK_STR(text, specs[i]);
    }
    CHECK(design("php", 1, 0, &f));
    layout_show(&f, text, sizeof text);
    CHECK_STR(text, specs[0]);
}

TEST(lists_that_are_none_are_refused)
{
    CHECK(is_refused("php:functions=", 1, 0, "no hash function '': there are BKDRHash"));
    CHECK(is_refused("php:functions=+", 1, 0, "no hash function ''"));
    CHECK(is_refused("php:functions=BKDRHash+", 1, 0, "no hash function ''"));
    CHECK(is_refused("php:functions=bkdrhash", 1, 0, "no hash function 'bkdrhash'"));
    CHECK(is_refused("php:functions=BKDRHash+JSHash+BKDRHash", 1, 0, "BKDRHash is given twice"));
    CHECK(is_refused(PHP_ALL "+JSHash", 1, 0, "JSHash is given twice"));
}

TEST(the_size_is_given_and_the_rate_must_fit_it)
{
    struct layout_filter f;
    CHECK(design("php", 1000, 0, &f));
    CHECK(f.layer[0].geometry[0] == (uint64_t)1 << 32 && f.layer[0].data_len == 1 << 29);
    /* 2^32 ln 2 / 3 */
    CHECK(f.n_design == 992348157 && f.fpr_design == 0.125 && f.assumed);
    CHECK(design("php", 1000000, 1e-6, &f));
    CHECK(f.n_design == 1000000 && f.fpr_design == 1e-6 && !f.assumed);
    CHECK(is_refused("php", 100000000, 1e-6, "more than 1e-06"));
    CHECK(is_refused("php", 1000000000, 0, "at most 992348157 keys"));
}

static bool is_sound(uint64_t m, unsigned k, uint64_t other)
{
    struct err err;
    struct layer layer = {.kind = &kind_php};
    classic_to(&(struct classic){.m = m, .k = k}, &layer);
    layer.geometry[3] = other;
    return kind_php.check(&layer, &err);
}

TEST(a_layer_has_2_32_bits_and_a_position_for_each_function)
{
    CHECK(is_sound((uint64_t)1 << 32, 1, 0) && is_sound((uint64_t)1 << 32, 8, 0));
    CHECK(!is_sound((uint64_t)1 << 32, 9, 0) && !is_sound((uint64_t)1 << 32, 0, 0));
    CHECK(!is_sound((uint64_t)1 << 31, 3, 0) && !is_sound((uint64_t)1 << 32, 3, 1));
}

/* Other functions of more bits can be in a forged header. */
TEST(positions_stay_inside)
{
    struct layout_filter f;
    uint64_t hash[8], position[8];
    memset(hash, 0xff, sizeof hash);
    CHECK(design(PHP_ALL, 1, 0, &f));
    kind_php.layout->positions(&f.layer[0], (struct hashes){hash, 1, NULL}, 1, position);
    for (int i = 0; i < 8; i++)
        CHECK(position[i] < (uint64_t)1 << 32);
}

/* Reads a list. bits->owned is the caller's. */
static bool import(const char *list, struct layout_bits *bits, struct err *err)
{
    const struct layout_foreign in = {
        .name = {"a.bits"}, .data = {(const uint8_t *)list}, .len = {strlen(list)}};
    struct layout_spec spec;
    struct layout_filter f;
    *bits = (struct layout_bits){0};
    return layout_parse("php", &spec, err) && kind_php.layout->read(&spec, &in, &f, bits, err);
}

TEST(a_list_of_positions_is_read_in_any_order)
{
    static const char *const lists[] = {"0\n9\n20\n", "20\n0\n9", "9\n9\n0\n0000000020\n0\n"};
    struct layout_bits bits;
    struct err err;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        MUST(import(lists[i], &bits, &err));
        CHECK(bits.len == 3 && bits.order == ORDER_LOW_FIRST &&
              memcmp(bits.data, "\x01\x02\x10", 3) == 0);
        free(bits.owned);
    }
    MUST(import("", &bits, &err));
    CHECK(bits.len == 0);
    free(bits.owned);
    MUST(import("4294967295\n", &bits, &err));
    CHECK(bits.len == (uint64_t)1 << 29 && bits.data[bits.len - 1] == 0x80);
    free(bits.owned);
}

TEST(a_bad_line_is_named)
{
    static const char *const lists[] = {
        "1\n2\n\n4\n",        "1\n2\n-3\n",  "1\n2\n 3\n",          "1\n2\n3 \n",
        "1\n2\n4294967296\n", "1\n2\n3\r\n", "1\n2\n99999999999\n", "1\n2\n00000000003\n",
        "1\n2\n0x3\n",        "1\n2\nx",
    };
    struct layout_bits bits;
    struct err err;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        CHECK(!import(lists[i], &bits, &err));
        CHECK_STR(err.text, "a.bits:3: not a number from 0 to 4294967295");
    }
}

/* Fails once. */
static bool take_later(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    unsigned *calls = ctx;
    (void)file, (void)data, (void)len;
    return (*calls)++ > 0 || fail(err, "full");
}

TEST(a_list_that_cannot_be_written_is_a_failure)
{
    enum { SET = 4096 };
    struct err err;
    struct layout_spec spec;
    struct layout_filter f;
    unsigned calls = 0;
    const struct layout_sink sink = {.write = take_later, .ctx = &calls, .name = "a.bits"};
    uint8_t *data = calloc(1, (size_t)1 << 29);
    CHECK(data != NULL);
    if (data == NULL)
        return;
    memset(data, 0xff, SET);
    MUST(layout_parse("php", &spec, &err));
    MUST(kind_php.layout->design(&spec, 1000, 0.01, &f, &err));
    CHECK(!kind_php.layout->write(&f, &(const uint8_t *){data}, &sink, &err));
    CHECK_STR(err.text, "full");
    free(data);
}

/* Only pages that are not zero are written. */
TEST(a_page_that_cannot_be_written_is_a_failure)
{
    static const uint8_t data[3 * LAYER_PAGE] = {[LAYER_PAGE] = 1};
    struct layout_filter f;
    FILE *file = tmpfile();
    CHECK(file != NULL && design("php", 1000, 0, &f));
    const struct target target = {.layer = &f.layer[0], .fd = fileno(file), .name = "test"};
    for (long n = 0; n < 2; n++) {
        struct err err = {.text = ""};
        faulty_begin(n);
        bool ok = target_write(&target, data, sizeof data, 0, &err);
        CHECK(faulty_end() == (n == 0) && ok == (n == 1));
        CHECK_STR(err.text, ok ? "" : check_errno("cannot write 'test'", ENOSPC));
    }
    fclose(file);
}

int main(void)
{
    RUN(positions_are_the_functions_in_the_order_of_the_list);
    RUN(the_functions_are_shown_in_the_order_of_the_list);
    RUN(lists_that_are_none_are_refused);
    RUN(the_size_is_given_and_the_rate_must_fit_it);
    RUN(a_layer_has_2_32_bits_and_a_position_for_each_function);
    RUN(positions_stay_inside);
    RUN(a_list_of_positions_is_read_in_any_order);
    RUN(a_bad_line_is_named);
    RUN(a_list_that_cannot_be_written_is_a_failure);
    RUN(a_page_that_cannot_be_written_is_a_failure);
    return check_done();
}
