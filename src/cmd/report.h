/* SPDX-License-Identifier: MIT
 * What a command prints about filters: a list of rows. A row is one fact: its label in text, its
 * key in JSON, the form of its value, the source of the value, and the value. A command lists its
 * rows once, in the order of the output; then one of three printers prints them: as aligned text,
 * as one JSON object, or as metrics for Prometheus.
 *
 *     struct report r = REPORT_DEFAULT;
 *     report_string(&r, "file", "file", EXACT, "a.seen");
 *     report_uint(&r, "file size", "bytes", FORM_BYTES, EXACT, 19456);
 *     report_number(&r, "current FPR", "fpr_current", FORM_DIGITS, EXACT, 0.000998);
 *     (json ? report_json : report_text)(&r, stdout);
 *
 * A value whose source is UNKNOWN is "unknown" in text and null in JSON. With `sources`, the last
 * member of the JSON object, "sources", has the source of each key's value.
 *
 * After the single rows there may be lists. Each has items, and each item has rows. In text a list
 * is a table with a line for each item and a column for each label; in JSON it is an array of
 * objects. Values in items have no printed source.
 */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/num.h"
#include "file/format.h"

enum report_source {
    UNKNOWN,
    EXACT,     /* read, or computed from the present file */
    ESTIMATED, /* with a 95 % interval, where one is given */
    RECORDED,  /* stored in the file earlier */
    ASSUMED,   /* not recorded; derived from fields that are */
};

enum form {
    FORM_TEXT,
    FORM_FLAG, /* yes or no */
    /* Of report_uint. */
    FORM_COUNT, /* 9999000 */
    FORM_BYTES, /* 17.9 MiB */
    FORM_TIME,  /* seconds since 1970 */
    FORM_AGE,   /* 30d: a number of seconds */
    FORM_LAYER, /* layer 3 */
    /* Of report_number and report_range. */
    FORM_KEYS,    /* 9999000, or 1.23e+18: a number of keys, which may be an estimate */
    FORM_DIGITS,  /* 0.000998: three digits */
    FORM_RATIO,   /* 0.41664 */
    FORM_DECIMAL, /* 15.55 */
    FORM_PERCENT, /* 98.3 % for a ratio of 0.983 */
    FORM_SECONDS, /* 4 min 10 s */
    /* Not values. */
    FORM_LIST,
    FORM_ITEM,
    FORM_REFUSAL, /* why an item has no other values, in their place */
};

struct report_row {
    const char *label;  /* NULL: not in text */
    const char *key;    /* NULL: not in JSON */
    const char *bounds; /* the JSON keys of the interval without _low and _high; NULL: none */
    enum form form;
    enum report_source source;
    uint64_t count;          /* of report_uint */
    double value, low, high; /* the same number, or another one and its interval */
    const char *text;
    char remark[56]; /* words after the value, in text only */
};

/* The most items of a list; of all rows, with up to 20 for an item. */
enum { REPORT_ITEMS = FORMAT_MAX_LAYERS, REPORT_ROWS = 64 + REPORT_ITEMS * 20 };

struct report {
    bool sources; /* print the sources */
    unsigned n, room;
    struct report_row *row; /* `room` of them */
};

/* The rows of the command's report, 113 KiB: too many for a stack. There is one report at a time,
 * except for those that bring rows of their own. */
extern struct report_row report_rows[REPORT_ROWS];
#define REPORT_DEFAULT                                                                             \
    {                                                                                              \
        .room = REPORT_ROWS, .row = report_rows                                                    \
    }

/* Each adds one row. A number that is not finite is unknown. A range whose value is NAN has bounds
 * only; with bounds that are NAN, the value has no interval. Strings must stay valid until the
 * report is printed. */
void report_string(struct report *r, const char *label, const char *key, enum report_source source,
                   const char *text);
void report_flag(struct report *r, const char *label, const char *key, enum report_source source,
                 bool value);
void report_uint(struct report *r, const char *label, const char *key, enum form form,
                 enum report_source source, uint64_t value);
void report_number(struct report *r, const char *label, const char *key, enum form form,
                   enum report_source source, double value);
void report_range(struct report *r, const char *label, const char *key, const char *bounds,
                  enum form form, enum report_source source, double value, double low, double high);

/* Adds words to the text of the row that was added last. */
__attribute__((format(printf, 2, 3))) void report_remark(struct report *r, const char *fmt, ...);

/* The value of the row that was added last, as text: "9999000 (9998000 to 10000000)". */
enum { REPORT_TEXT = 4 * NUM_TEXT }; /* three numbers and " (", " to " and ")" */
const char *report_shown(const struct report *r, char text[REPORT_TEXT]);

/* Adds the row with that key of another report, if there is one. */
void report_pick(struct report *r, const struct report *from, const char *key);

/* Begins a list, or an item of it. Both end where the next one begins. */
void report_list(struct report *r, const char *key);
void report_item(struct report *r);
void report_refusal(struct report *r, const char *key, const char *why);

/* Adds what all commands say in JSON about a file that they made. fpr is its current FPR, n its
 * number of distinct keys. From here on, a message about failed standard output also says that
 * `path` was made. */
void report_made(struct report *r, const char *path, const struct header *h, double fpr, double n);

/* Print the single rows, and the first list, as text; or all rows. */
void report_text(const struct report *r, FILE *out);
void report_json(const struct report *r, FILE *out);

/* Prints a list as a table. */
void report_table(const struct report *r, const char *list, FILE *out);

/* ---- Metrics of filters in the text format of Prometheus, for the textfile collector of its node
 * exporter. The samples of one metric stand together, so all are collected first.
 *
 *     struct metrics m;
 *     if (!metrics_begin(&m, names, n, &err)) ...
 *     for each of the n filters, in order:
 *         metrics_next(&m);
 *         metrics_note(&m, "readable", true);
 *         report_metrics(&r, &m);
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

/* Begins the metrics of the next filter. */
void metrics_next(struct metrics *m);

/* Stores a value. `key` is its name in the output of --json, or "readable" or "clean" (0 or 1).
 * Keys without a metric are ignored. */
void metrics_note(struct metrics *m, const char *key, double value);

/* Stores the numbers among the single rows. */
void report_metrics(const struct report *r, struct metrics *m);

void metrics_print(const struct metrics *m, FILE *out);
void metrics_free(struct metrics *m);

#endif
