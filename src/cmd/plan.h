/* The table that `seen plan` prints, and `seen create --dry-run` too. */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/plan_layouts.h"
#include "store/plan.h"

/* Solves a plan that is shown beside layouts. Other programs may have filters that plan->kind
 * cannot have. Then plan->kind becomes NULL, and only the layouts are shown. */
void plan_with_layouts(struct plan *plan);

/* Prints a solved plan, and the layouts unless NULL: as a table with a row for each kind of filter,
 * or as one JSON object. */
void plan_show(const struct plan *plan, const struct plan_layouts *layouts, bool json, FILE *out);

#endif
