/*
 * Figures of filters in the text format of Prometheus, for the textfile collector of its node
 * exporter. The samples of one metric stand together, so all are collected first.
 *
 *     struct metrics m;
 *     if (!metrics_begin(&m, names, n, &err)) ...
 *     for each of the n filters, in order:
 *         metrics_next(&m);
 *         metrics_note(&m, "bytes", 4096);            // as often as there are figures
 *     metrics_print(&m, stdout);
 *     metrics_free(&m);                               // in any case
 *
 * The format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
 */
#ifndef CMD_METRICS_H
#define CMD_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct metrics {
    /* All private. */
    size_t n, at;  /* number of filters; the current one, from 1 */
    char **label;  /* their names, as visible text */
    double *value; /* by metric, then by filter; NAN: unknown */
};

/* Fails if a name is given twice. */
bool metrics_begin(struct metrics *m, char *const *names, size_t n, struct err *err);

/* Begins the figures of the next filter. */
void metrics_next(struct metrics *m);

/* Stores a figure. `key` is its name in the output of --json, or "readable" or "clean" (0 or 1).
 * Keys without a metric are ignored. */
void metrics_note(struct metrics *m, const char *key, double value);

void metrics_print(const struct metrics *m, FILE *out);
void metrics_free(struct metrics *m);

#endif
