/* SPDX-License-Identifier: MIT */
/* tags: portable */
#include "base/typing.h"

#include <string.h>

#include "check.h"

enum { NONE = 3 };

TEST(errors_are_counted_and_another_word_is_not_offered)
{
    static const struct {
        const char *given, *word;
        size_t errors;
    } cases[] = {
        {"query", "query", 0},
        {"qury", "query", 1},
        {"queery", "query", 1},
        {"quary", "query", 1},
        {"qeury", "query", 1},
        {"uqery", "query", 1},
        {"queyr", "query", 1},
        {"queys", "query", 2},
        {"quesr", "query", 2},
        {"qrxuery", "query", 2},
        {"quxyz", "query", NONE},
        {"adxx", "add", NONE}, /* errors in half the letters */
        {"addxx", "add", 2},
        {"ad", "add", NONE},
        {"abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwy", 1},
        {"abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwxy", NONE}, /* longer than 24 */
        {"abcdefghijklmnopqrstuvwxy", "abcdefghijklmnopqrstuvwx", NONE},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct typing t = typing_begin(cases[i].given, strlen(cases[i].given));
        typing_offer(&t, cases[i].word);
        CHECK(t.fewest == cases[i].errors);
        CHECK(t.nearest == (t.fewest == NONE ? NULL : cases[i].word));
        if (!check_ok)
            printf("# %s: %zu\n", cases[i].given, t.fewest);
    }
}

TEST(the_nearest_word_is_kept)
{
    struct typing t = typing_begin("quexy--", 5);
    typing_offer(&t, "quays");
    typing_offer(&t, "query");
    typing_offer(&t, "quexz");
    CHECK_STR(t.nearest, "query");
    CHECK(t.fewest == 1);
}

int main(void)
{
    RUN(errors_are_counted_and_another_word_is_not_offered);
    RUN(the_nearest_word_is_kept);
    return check_done();
}
