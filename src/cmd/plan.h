/* The table that `seen plan` prints, and `seen create --dry-run` too. */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include "store/plan.h"

/* A table with a row for each kind of filter, or one JSON object, of a solved plan. */
void plan_show(const struct plan *plan, bool json, FILE *out);

#endif
