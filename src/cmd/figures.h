/* The figures of `seen stats`: each with its name in text and in JSON, its form, and its source. */
#ifndef CMD_FIGURES_H
#define CMD_FIGURES_H

#include "cmd/findings.h"
#include "cmd/report.h"

/* Adds all findings to a report that has begun. */
void figures_report(struct report *r, const struct findings *found);

#endif
