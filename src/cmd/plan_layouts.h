/* Plans filters of other programs' layouts, for `seen plan` and `seen create --dry-run`. */
#ifndef CMD_PLAN_LAYOUTS_H
#define CMD_PLAN_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "kind/layout.h"

/* Layouts for n distinct keys (0: not given) at p (0: not given). */
struct plan_layouts {
    const struct layout_spec *spec; /* NULL: every layout, with default parameters */
    uint64_t n;
    double p;
};

/* Can the layout `spec` be made? True if `spec` is NULL. */
bool plan_layouts_check(const struct plan_layouts *plan, struct err *err);

/* Prints a table with a row for each layout. If one cannot be made, its row gives the reason. */
void plan_layouts_print(const struct plan_layouts *plan, FILE *out);

/* Prints the same as a JSON array. */
void plan_layouts_json(const struct plan_layouts *plan, struct json *j);

#endif
