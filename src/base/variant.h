/*
 * Inner loops in variants: one for each instruction set that pays, of which the best that this CPU
 * can run is taken. A module keeps the functions of a variant in a struct that begins with a struct
 * variant, and has a table of them:
 *
 *     static const struct split_variant plain = {{"plain", NULL}, split_plain};
 *     struct variants split_variants = {{&avx2.variant, &plain.variant}, NULL};
 *
 *     const struct split_variant *v = (const void *)variant_in_use(&split_variants);
 *     v->split(...);
 *
 * A table is global, so that `seen --version` can name what is in use, and tests can go through it.
 */
#ifndef BASE_VARIANT_H
#define BASE_VARIANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct variant {
    const char *name;
    bool (*runs_here)(void); /* NULL: everywhere */
};

struct variants {
    const struct variant *all[8]; /* best first; the last runs everywhere; NULL behind it */
    _Atomic(const struct variant *) chosen; /* NULL until first asked for */
};

bool variant_runs_here(const struct variant *variant);

/* The best one that runs here: what is in use from now on. Threads that meet find the same. */
const struct variant *variant_choose(struct variants *variants);

static inline const struct variant *variant_in_use(struct variants *variants)
{
    const struct variant *v = atomic_load_explicit(&variants->chosen, memory_order_relaxed);
    return v != NULL ? v : variant_choose(variants);
}

/* For tests: use that one from now on. False when this CPU or build lacks it. */
bool variant_use(struct variants *variants, const char *name);

#endif
