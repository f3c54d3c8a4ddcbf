/* SPDX-License-Identifier: MIT */
/* tags: portable */
#include "base/visible.h"

#include <string.h>

#include "check.h"

TEST(control_characters_and_bytes_that_are_no_text_are_escaped)
{
    static const char *const cases[][2] = {
        {"a b~", "a b~"},
        {"a\x1f\x7f", "a\\x1f\\x7f"},
        {"\a\n\x1b", "\\a\\n\\x1b"},
        {"\xc2\x80|\xc2\x9f", "\\xc2\\x80|\\xc2\\x9f"},
        {"\xc2\xa0|\xc3\x80", "\xc2\xa0|\xc3\x80"}, /* U+00A0 is none */
        {"\x80|\xc3", "\\x80|\\xc3"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[VISIBLE_ROOM(16)];
        CHECK(visible_copy(out, cases[i][0]) == strlen(cases[i][1]));
        CHECK_STR(out, cases[i][1]);
    }
}

TEST(words_are_quoted_where_a_shell_needs_it)
{
    CHECK_STR(SHELL_WORD("a%+,-./:@_9"), "a%+,-./:@_9");
    CHECK_STR(SHELL_WORD("\xc3\x80"), "\xc3\x80");
    CHECK_STR(SHELL_WORD(""), "''");
    CHECK_STR(SHELL_WORD("a b"), "'a b'");
    CHECK_STR(SHELL_WORD("it's"), "'it'\\''s'");
    CHECK_STR(SHELL_WORD("a\\b"), "'a\\b'");
    CHECK_STR(SHELL_FILE("-f"), "./-f");
    CHECK_STR(SHELL_FILE("-f g"), "./'-f g'");
}

int main(void)
{
    RUN(control_characters_and_bytes_that_are_no_text_are_escaped);
    RUN(words_are_quoted_where_a_shell_needs_it);
    return check_done();
}
