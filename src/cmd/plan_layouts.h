/* What filters of other programs' layouts would be, for `seen plan` and `seen create --dry-run`. */
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

/* Can the one layout be made? With every layout: yes. */
bool plan_layouts_check(const struct plan_layouts *plan, struct err *err);

/* A table with a row for each; a layout that cannot be made has the reason instead. */
void plan_layouts_print(const struct plan_layouts *plan, FILE *out);

/* The same as a JSON array. */
void plan_layouts_json(const struct plan_layouts *plan, struct json *j);

#endif
