/*
 * A list of named figures about something, printed as aligned text or as one JSON object. A figure
 * has one declaration, which holds its label in text and its key in JSON, and one place where its
 * value is given; so the two forms cannot disagree. With each value goes where it comes from.
 *
 *     static const struct field fpr_now = {"current FPR", "fpr_current", FORM_FPR};
 *     report_begin(&r, json, stdout);
 *     report_number(&r, &fpr_now, EXACT, 0.000998);
 *     report_end(&r);
 *
 * In JSON an unknown value is null, and a last member "sources" says for each key of the object
 * where its value comes from.
 */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/num.h"

enum source {
    UNKNOWN,
    EXACT,     /* read or computed from what is there now */
    ESTIMATED, /* with a 95 % interval, where one is given */
    RECORDED,  /* as the file says: noted when it happened */
};

enum form {
    FORM_COUNT,   /* 9999000 */
    FORM_BYTES,   /* 17.9 MiB */
    FORM_FPR,     /* 0.000998 */
    FORM_PERCENT, /* a ratio: 0.983 shows as 98.3 % */
    FORM_DECIMAL, /* 15.55 */
    FORM_TIME,    /* seconds since 1970 */
    FORM_TEXT,
    FORM_FLAG, /* yes or no */
};

struct field {
    const char *label; /* NULL: not in text */
    const char *key;
    enum form form;
    const char *low_key, *high_key; /* JSON keys of the ends of its interval, or NULL */
};

enum { REPORT_ROWS = 64, REPORT_ITEMS = 32, REPORT_COLUMNS = 16 };

struct report {
    FILE *out;
    bool is_json;
    struct json json;
    struct report_row {
        const struct field *field;
        const char *string; /* the value; NULL: it is in text */
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
void report_end(struct report *r);

/* Each gives one figure. A number that is not finite is unknown. Strings must live until
 * report_end; NULL is unknown. */
void report_number(struct report *r, const struct field *field, enum source source, double value);
void report_range(struct report *r, const struct field *field, enum source source, double value,
                  double low, double high);
void report_uint(struct report *r, const struct field *field, enum source source, uint64_t value);
void report_string(struct report *r, const struct field *field, enum source source,
                   const char *value);
void report_flag(struct report *r, const struct field *field, enum source source, bool value);
void report_unknown(struct report *r, const struct field *field);

/* A list of objects, of which a report has one at most. In text it is a table below all else, each
 * item a line that begins with "label number", with a column for each field that is known of any.
 * Figures in an item have no interval and no source of their own. */
void report_list(struct report *r, const char *key);
void report_item(struct report *r, const char *label, unsigned number);
void report_item_end(struct report *r);
void report_list_end(struct report *r);

#endif
