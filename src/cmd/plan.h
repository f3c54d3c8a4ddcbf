/* The table that `seen plan` prints, and `seen create --dry-run` too. */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/plan_layouts.h"
#include "store/plan.h"

/* Solves a plan that is shown beside layouts. Other programs make filters that seen does not: then
 * plan->kind becomes NULL, and only the layouts are shown. */
void plan_with_layouts(struct plan *plan);

/* A table with a row for each kind of filter, or one JSON object, of a solved plan; and of layouts,
 * unless NULL. */
void plan_show(const struct plan *plan, const struct plan_layouts *layouts, bool json, FILE *out);

#endif
