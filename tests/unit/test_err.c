/* SPDX-License-Identifier: MIT */
/* tags: portable */
#include "base/err.h"

#include <errno.h>

#include "check.h"

static struct err err;

TEST(an_error_is_a_sentence_that_names_no_command)
{
    err.helps = true;
    CHECK(!fail(&err, "'%s' is %d", "a", 7));
    CHECK_STR(err.text, "'a' is 7");
    CHECK(!err.helps);
}

TEST(the_systems_reason_follows)
{
    err.helps = true;
    errno = ENOENT;
    CHECK(!fail_errno(&err, "cannot open '%s'", "a"));
    CHECK_STR(err.text, "cannot open 'a': No such file or directory");
    CHECK(!err.helps);
}

TEST(a_piece_is_added_whole_or_not_at_all)
{
    char fits[sizeof err.text - 3 + 1];
    memset(fits, 'x', sizeof fits - 2);
    strcpy(fits + sizeof fits - 2, ".");
    fail(&err, "ab");
    CHECK(!fail_more(&err, "%s", fits));
    CHECK(strlen(err.text) == sizeof err.text - 1 && err.text[sizeof err.text - 2] == '.');
    fail(&err, "abc");
    CHECK(!fail_more(&err, "%s", fits));
    CHECK_STR(err.text, "abc");
    fail_more(&err, "%c", 'd');
    CHECK_STR(err.text, "abcd");
}

int main(void)
{
    RUN(an_error_is_a_sentence_that_names_no_command);
    RUN(the_systems_reason_follows);
    RUN(a_piece_is_added_whole_or_not_at_all);
    return check_done();
}
