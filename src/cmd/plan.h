/* SPDX-License-Identifier: MIT
 * What `seen plan` prints, and `seen create --dry-run` too: a table of kinds of filters, and one of
 * other programs' layouts.
 */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "foreign/layout.h"
#include "file/header.h"

/* Layouts for n distinct keys (0: not given) at p (0: not given). */
struct plan_layouts {
    const struct layout_spec *spec; /* NULL: every layout, with default parameters */
    uint64_t n;
    double p;
};

/* Solves a plan that is shown beside layouts. Other programs may have filters that plan->kind
 * cannot have. Then plan->kind becomes NULL, and only the layouts are shown. */
void plan_with_layouts(struct plan *plan);

/* Prints a solved plan, and the layouts unless NULL: as a table with a row for each kind of filter,
 * or as one JSON object. */
void plan_show(const struct plan *plan, const struct plan_layouts *layouts, bool json);

/* The same for a design without a layout (n as with design_plan). Of one of several layers, prints
 * these. */
bool plan_show_design(const struct design *d, uint64_t n, bool json, struct err *err);

#endif
