/* SPDX-License-Identifier: MIT */
/* Tests of a module's instruction-set variants: all that this CPU can run, and none forgotten. */
#ifndef VARIANTS_H
#define VARIANTS_H

#include "base/variant.h"
#include "check.h"

/* Calls test once with each variant in use, and says which were run. */
static inline void each_variant(struct variants *variants, void (*test)(void))
{
    for (const struct variant *const *v = variants->all; *v != NULL; v++) {
        if (!variant_runs_here(*v))
            continue;
        CHECK(variant_use(variants, (*v)->name));
        CHECK(variant_in_use(variants) == *v);
        bool ok_before = check_ok;
        test();
        printf("# variant %s: %s\n", (*v)->name, ok_before && !check_ok ? "WRONG" : "run");
    }
    variant_choose(variants);
}

/* In place of TEST. */
#define TEST_EACH_VARIANT(name, variants)                                                          \
    static void name##_here(void);                                                                 \
    TEST(name)                                                                                     \
    {                                                                                              \
        each_variant(&(variants), name##_here);                                                    \
    }                                                                                              \
    static void name##_here(void)

/* A variant that this CPU could run must not be missing from the table, and so go untested: those
 * whose runs_here is true can be chosen, no others, and the first of them is what is in use. */
static inline void check_variants(struct variants *variants, const struct variant *expected,
                                  size_t n)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++) {
        bool here = variant_runs_here(&expected[i]);
        if (here && best == NULL)
            best = expected[i].name;
        CHECK(variant_use(variants, expected[i].name) == here);
    }
    CHECK(!variant_use(variants, "no such variant"));
    CHECK_STR(variant_choose(variants)->name, best);
    for (const struct variant *const *v = variants->all; *v != NULL; v++) {
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= strcmp((*v)->name, expected[i].name) == 0;
        CHECK(known);
    }
}

#define CHECK_VARIANTS(variants, expected)                                                         \
    check_variants(variants, expected, sizeof(expected) / sizeof *(expected))

#endif
