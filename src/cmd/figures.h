/* The figures of `seen stats`: each with its name in text and in JSON, its form, and its source. */
#ifndef CMD_FIGURES_H
#define CMD_FIGURES_H

#include "cmd/findings.h"
#include "cmd/report.h"

/* Adds what a person asks for, at most 12 rows; or all findings. To a report that has begun. */
void figures_brief(struct report *r, const struct findings *found);
void figures_report(struct report *r, const struct findings *found);

#endif
