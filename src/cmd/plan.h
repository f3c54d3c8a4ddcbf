/* SPDX-License-Identifier: MIT
 * What `seen plan` prints, and `seen create --dry-run` too.
 */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "file/design.h"

/* Prints what a design makes of n keys (n as with design_plan): a table of the kinds of filters,
 * and of its layout; or the layers of a filter that has several. With `json`, one JSON object. */
bool plan_show(const struct design *d, uint64_t n, bool json, struct err *err);

#endif
