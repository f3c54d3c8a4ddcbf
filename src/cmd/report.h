/*
 * A list of named values, printed as aligned text or as one JSON object. Each value has one
 * declaration, with its label in text and its key in JSON, and is set in one place; so the two
 * forms cannot disagree. Each value has a source.
 *
 *     static const struct field fpr_now = {"current FPR", "fpr_current", FORM_FPR};
 *     report_begin(&r, json, stdout);
 *     report_number(&r, &fpr_now, EXACT, 0.000998);
 *     report_end(&r);
 *
 * In JSON an unknown value is null, and the last member "sources" gives the source of each key's
 * value. Metrics for Prometheus, of many filters, are below.
 */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/num.h"

/* ---- Figures of filters in the text format of Prometheus, for the textfile collector of its node
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
 * The format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4. */

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

/* ---- Reports. */

enum source {
    UNKNOWN,
    EXACT,     /* read, or computed from the present file */
    ESTIMATED, /* with a 95 % interval, where one is given */
    RECORDED,  /* stored in the file earlier */
    ASSUMED,   /* not recorded; derived from fields that are */
};

enum form {
    FORM_COUNT,   /* 9999000 */
    FORM_BYTES,   /* 17.9 MiB */
    FORM_FPR,     /* 0.000998 */
    FORM_PERCENT, /* a ratio: 0.983 shows as 98.3 % */
    FORM_RATIO,   /* 0.41664 */
    FORM_DECIMAL, /* 15.55 */
    FORM_TIME,    /* seconds since 1970 */
    FORM_TEXT,
    FORM_FLAG, /* yes or no */
};

struct field {
    const char *label; /* NULL: not in text */
    const char *key;
    enum form form;
    const char *low_key, *high_key; /* JSON keys of its interval's bounds, or NULL */
};

enum { REPORT_ROWS = 64, REPORT_ITEMS = 32, REPORT_COLUMNS = 16 };

struct report {
    FILE *out;
    bool is_json;
    struct metrics *metrics; /* NULL: none */
    struct json json;
    struct report_row {
        const struct field *field;
        const char *string; /* the value; NULL: use text */
        enum source source;
        bool interval;
        char text[200];
    } rows[REPORT_ROWS];
    unsigned n_rows;
    struct report_item {
        char label[16], cells[REPORT_COLUMNS][NUM_TEXT]; /* empty: unknown */
    } items[REPORT_ITEMS];
    const struct field *columns[REPORT_COLUMNS];
    unsigned n_items, n_columns;
    bool in_item;
};

void report_begin(struct report *r, bool json, FILE *out);
/* Prints nothing. Numbers outside the list go to `metrics`, for its current filter. */
void report_begin_metrics(struct report *r, struct metrics *metrics);
void report_end(struct report *r);

/* Each adds one value. A number that is not finite is unknown; so is a NULL string. A range whose
 * value is NAN has bounds only; with bounds that are NAN, the value has no interval. Strings must
 * stay valid until report_end. */
void report_number(struct report *r, const struct field *field, enum source source, double value);
void report_range(struct report *r, const struct field *field, enum source source, double value,
                  double low, double high);
void report_uint(struct report *r, const struct field *field, enum source source, uint64_t value);
void report_string(struct report *r, const struct field *field, enum source source,
                   const char *value);
void report_flag(struct report *r, const struct field *field, enum source source, bool value);
void report_unknown(struct report *r, const struct field *field);

/* Adds words to the text of the number that was added last. They are not in JSON. */
__attribute__((format(printf, 2, 3))) void report_append(struct report *r, const char *fmt, ...);

/* A list of objects; a report has at most one. In text it is a table at the end. Each item is a
 * line that begins with "label number", and each field that any item has is a column. Values in
 * items have no interval and no source. */
void report_list(struct report *r, const char *key);
void report_item(struct report *r, const char *label, unsigned number);
void report_item_end(struct report *r);
void report_list_end(struct report *r);

#endif
