/* SPDX-License-Identifier: MIT */
/* For fuzz targets: the input chooses the instruction set. */
#ifndef CHOOSE_H
#define CHOOSE_H

#include "base/variant.h"
#include "must.h"

/* Lets n choose among what this CPU can run; returns what is left of n. */
static inline unsigned choose_variant(struct variants *variants, unsigned n)
{
    const struct variant *here[sizeof variants->all / sizeof *variants->all];
    unsigned count = 0;
    for (const struct variant *const *v = variants->all; *v != NULL; v++)
        if (variant_runs_here(*v))
            here[count++] = *v;
    MUST(count > 0);
    MUST(variant_use(variants, here[n % count]->name));
    return n / count;
}

#endif
