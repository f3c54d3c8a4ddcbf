/* SPDX-License-Identifier: MIT */
#include "kind/kind.h"

#include <string.h>

#include "check.h"
#include "kind/foreign.h"
#include "kind/table.h"

TEST(ids_and_names_are_unique)
{
    const struct kind *a, *b;
    for (unsigned i = 0; (a = kind_number(i)) != NULL; i++) {
        CHECK(kind_by_id(a->id) == a);
        for (unsigned j = 0; j < i && (b = kind_number(j)) != NULL; j++)
            CHECK(strcmp(a->name, b->name) != 0);
    }
}

static void check_layout(const struct layout *l)
{
    if (l == NULL)
        return;
    CHECK(l->summary != NULL && l->params != NULL);
    CHECK(l->design != NULL && l->read != NULL && l->write != NULL && l->file_len != NULL);
}

/* What every kind has, and what belongs together. */
TEST(tables_agree_with_each_other)
{
    const struct kind *k;
    unsigned n = 0;
    for (; (k = kind_number(n)) != NULL; n++) {
        CHECK(k->check != NULL && k->query != NULL && k->census != NULL);
        CHECK(k->shape != NULL && k->fpr_at != NULL);
        CHECK(k->lanes >= 1 && k->lanes <= HASH_LANES);
        CHECK((k->page == NULL) != (k->pages == NULL));
        CHECK(k->page == NULL || k->lanes == 1);
        CHECK((k->layout == NULL) == (k->sizing != NULL));
        check_layout(k->layout);
        CHECK(kind_builds(k) == (k->layout == NULL));
        CHECK(kind_builds(k) || kind_takes_keys(k));
        CHECK(!kind_folds(k) || (kind_unites(k) && k->table->resize != NULL));
        CHECK(!kind_unites(k) || k->table != NULL);
        CHECK(!kind_is_exact(k) || (kind_takes_keys(k) && k->layout != NULL));
        CHECK(k->dropping == NULL || !kind_takes_keys(k));
        CHECK(!kind_counts(k) || (!kind_takes_keys(k) && kind_builds(k)));
    }
    CHECK(n > 1);
}

TEST(a_length_that_is_known_can_be_solved_for_keys_and_rate)
{
    const struct kind *k;
    for (unsigned i = 0; (k = kind_number(i)) != NULL; i++)
        if (k->sizing != NULL)
            CHECK((k->sizing->best == NULL) == (k->sizing->capacity == NULL));
}

/* `create` without options, with --compact and with --counted. */
TEST(the_kinds_of_create_can_be_built)
{
    CHECK(kind_builds(kind_usual()) && kind_takes_keys(kind_usual()));
    CHECK(kind_builds(kind_compact()) && kind_compact()->dropping != NULL);
    CHECK(kind_builds(kind_counting()) && kind_counts(kind_counting()));
}

int main(void)
{
    RUN(ids_and_names_are_unique);
    RUN(tables_agree_with_each_other);
    RUN(a_length_that_is_known_can_be_solved_for_keys_and_rate);
    RUN(the_kinds_of_create_can_be_built);
    return check_done();
}
