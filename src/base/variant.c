#include "base/variant.h"

#include <string.h>

bool variant_runs_here(const struct variant *variant)
{
    return variant->runs_here == NULL || variant->runs_here();
}

const struct variant *variant_choose(struct variants *variants)
{
    const struct variant *const *v = variants->all;
    while (!variant_runs_here(*v))
        v++;
    atomic_store_explicit(&variants->chosen, *v, memory_order_relaxed);
    return *v;
}

bool variant_use(struct variants *variants, const char *name)
{
    for (const struct variant *const *v = variants->all; *v != NULL; v++)
        if (strcmp((*v)->name, name) == 0 && variant_runs_here(*v)) {
            atomic_store_explicit(&variants->chosen, *v, memory_order_relaxed);
            return true;
        }
    return false;
}
