/* SPDX-License-Identifier: MIT */
/* Lists of keys that the tests of the command line do not reach: very large, or encoded. */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "keys/confirm.h"
#include "foreign/encode.h"
#include "keys/prep.h"
#include "scratchdir.h"

/* Empty records and, behind 4 GiB of them, one more. Where it cannot be mapped, that is said; its
 * beginning is never taken for all of it. */
TEST(a_list_of_more_than_4_GiB)
{
    const off_t size = (off_t)(UINT64_C(4) << 30) + 4096;
    int fd = open("list", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, size) == 0 && pwrite(fd, "a", 2, size) == 2);
    close(fd);
    const struct key_rule rule = {.terminator = 0, .given = true};
    struct confirm c;
    struct err err;
    bool open = confirm_open(&c, "list", &rule, &err);
    CHECK(open == (sizeof(size_t) > 4));
    if (open) {
        static const char keys[] = "a\0b"; /* and a NUL */
        struct batch *b = batch_new(&rule);
        batch_start(b, keys, sizeof keys);
        CHECK(batch_next(b) && b->n == 2);
        CHECK(confirm_has(&c, b, 0) && !confirm_has(&c, b, 1));
        CHECK(confirm_sound(&c, &err));
        batch_free(b);
        confirm_close(&c);
    } else {
        CHECK_STR(err.text, "cannot map 'list': File too large");
    }
    unlink("list");
}

static bool write_list(const char *text)
{
    FILE *f = fopen("list", "w");
    bool ok = f != NULL && fputs(text, f) >= 0;
    return f != NULL && fclose(f) == 0 && ok;
}

/* The list has the text of encoded keys, and integers in one form only. */
TEST(keys_are_listed_before_they_are_encoded)
{
    static const char *const good[] = {"-12\n0\n10\n9\n", "2D3132\n30\n3130\n39\n"};
    static const char *const asked[] = {"+09|00000010|-0|-12|8|-9|",
                                        "2b3039|3130|2D30|2d3132|38|2d39|"};
    for (uint32_t hex = 0; hex <= 1; hex++) {
        struct key_rule rule = {.terminator = '|', .given = true};
        rule.prep = ENCODE_INT64 << PREP_ENCODING_SHIFT | (hex ? PREP_HEX : 0);
        struct key_rule lines = rule;
        lines.terminator = '\n';
        struct confirm c;
        struct err err;
        CHECK(write_list(good[hex]));
        MUST(confirm_open(&c, "list", &lines, &err));
        struct batch *b = batch_new(&rule);
        batch_start(b, asked[hex], strlen(asked[hex]));
        CHECK(batch_next(b) && b->n == 6);
        for (size_t i = 0; i < 6; i++)
            CHECK(confirm_has(&c, b, i) == (i < 4));
        MUST(confirm_sound(&c, &err));
        batch_free(b);
        confirm_close(&c);
        CHECK(write_list(hex ? "30\n3037\n" : "0\n07\n"));
        CHECK(!confirm_open(&c, "list", &lines, &err));
        CHECK_STR(err.text, "a line of 'list' is not an integer in plain decimal: "
                            "keys are listed as the filter prepares them");
    }
    unlink("list");
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    if (check_is_full())
        RUN(a_list_of_more_than_4_GiB);
    else
        SKIP(a_list_of_more_than_4_GiB, "to read it takes seconds: make nightly does");
    if (encoding_by_id(ENCODE_INT64) != NULL) /* WITH_FOREIGN=no has none */
        RUN(keys_are_listed_before_they_are_encoded);
    scratchdir_leave();
    return check_done();
}
