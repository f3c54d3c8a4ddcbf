/* SPDX-License-Identifier: MIT
 * What `seen plan` prints, and `seen create --dry-run` too: a table of kinds of filters, and one of
 * other programs' layouts.
 */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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
void plan_show(const struct plan *plan, const struct plan_layouts *layouts, bool json, FILE *out);

/* Prints the planned header of a filter that grows or has generations, in the same forms. */
void plan_show_layers(const struct header *h, bool json, FILE *out);

#endif
