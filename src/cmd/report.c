/* SPDX-License-Identifier: MIT */
#include "cmd/report.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/say.h"
#include "base/visible.h"
#include "kind/foreign.h"

struct report_row report_rows[REPORT_ROWS];

/* ---- Adding rows. */

static struct report_row *add_row(struct report *r, const char *label, const char *key,
                                  enum form form, enum report_source source)
{
    assert(r->n < r->room);
    struct report_row *row = &r->row[r->n++];
    *row = (struct report_row){label, key, .form = form, .source = source};
    row->value = row->low = row->high = NAN;
    return row;
}

void report_string(struct report *r, const char *label, const char *key, enum report_source source,
                   const char *text)
{
    add_row(r, label, key, FORM_TEXT, source)->text = text;
}

void report_flag(struct report *r, const char *label, const char *key, enum report_source source,
                 bool value)
{
    report_uint(r, label, key, FORM_FLAG, source, value);
}

void report_uint(struct report *r, const char *label, const char *key, enum form form,
                 enum report_source source, uint64_t value)
{
    struct report_row *row = add_row(r, label, key, form, source);
    row->count = value;
    row->value = (double)value;
}

void report_range(struct report *r, const char *label, const char *key, const char *bounds,
                  enum form form, enum report_source source, double value, double low, double high)
{
    bool is_known = source != UNKNOWN && (isfinite(value) || isfinite(high));
    struct report_row *row = add_row(r, label, key, form, is_known ? source : UNKNOWN);
    row->bounds = bounds;
    if (!is_known)
        return;
    row->value = value;
    row->low = low;
    row->high = high;
}

void report_number(struct report *r, const char *label, const char *key, enum form form,
                   enum report_source source, double value)
{
    report_range(r, label, key, NULL, form, source, value, NAN, NAN);
}

void report_remark(struct report *r, const char *fmt, ...)
{
    struct report_row *row = &r->row[r->n - 1];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(row->remark, sizeof row->remark, fmt, ap);
    va_end(ap);
}

static unsigned singles(const struct report *r)
{
    unsigned n = 0;
    while (n < r->n && r->row[n].form != FORM_LIST)
        n++;
    return n;
}

void report_pick(struct report *r, const struct report *from, const char *key)
{
    for (unsigned i = 0; i < singles(from); i++)
        if (strcmp(from->row[i].key, key) == 0)
            *add_row(r, NULL, NULL, FORM_TEXT, UNKNOWN) = from->row[i];
}

void report_list(struct report *r, const char *key)
{
    add_row(r, NULL, key, FORM_LIST, UNKNOWN);
}

void report_item(struct report *r)
{
    add_row(r, NULL, NULL, FORM_ITEM, UNKNOWN);
}

void report_refusal(struct report *r, const char *key, const char *why)
{
    add_row(r, NULL, key, FORM_REFUSAL, EXACT)->text = why;
}

void report_made(struct report *r, const char *path, const struct header *h, double fpr, double n)
{
    const char *caveat = layout_caveat(h->layers[0].kind);
    say_made(path);
    report_string(r, NULL, "file", EXACT, path);
    report_string(r, NULL, "kind", RECORDED, format_kind_name(h));
    report_uint(r, NULL, "bytes", FORM_BYTES, EXACT, h->file_len);
    report_number(r, NULL, "bits_per_key", FORM_DECIMAL, ESTIMATED,
                  n > 0 ? 8 * (double)h->file_len / n : NAN);
    report_uint(r, NULL, "layers", FORM_COUNT, RECORDED, h->n_layers);
    report_uint(r, NULL, "n_design", FORM_COUNT, h->n_design != 0 ? RECORDED : UNKNOWN,
                h->n_design);
    report_number(r, NULL, "fpr_design", FORM_DIGITS, RECORDED, h->fpr_design);
    report_number(r, NULL, "fpr_current", FORM_DIGITS, EXACT, fpr);
    report_number(r, NULL, "n_estimate", FORM_KEYS, ESTIMATED, n);
    if (caveat != NULL)
        report_string(r, NULL, "caveat", EXACT, caveat);
}

/* ---- Text. */

static void show_time(char *buf, double seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL || strftime(buf, NUM_TEXT, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        snprintf(buf, NUM_TEXT, "%.0f s after 1970", seconds);
}

/* A ratio as a percentage: no decimals from 100 % on, one from 10 % on, else two. Below 0.01 %, two
 * significant digits. */
static void show_percent(char *buf, double ratio)
{
    double v = 100 * ratio, size = fabs(v);
    if (size > 0 && size < 0.01)
        snprintf(buf, NUM_TEXT, "%.2g %%", v);
    else
        snprintf(buf, NUM_TEXT, "%.*f %%", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, v);
}

/* Writes the number v, which is row->value or a bound, in the row's form. */
static void show_value(char *buf, const struct report_row *row, double v)
{
    switch (row->form) {
    case FORM_FLAG:
        snprintf(buf, NUM_TEXT, "%s", row->count != 0 ? "yes" : "no");
        break;
    case FORM_COUNT:
        snprintf(buf, NUM_TEXT, "%" PRIu64, row->count);
        break;
    case FORM_LAYER:
        snprintf(buf, NUM_TEXT, "layer %" PRIu64, row->count);
        break;
    case FORM_BYTES:
        num_show_bytes(buf, row->count);
        break;
    case FORM_TIME:
        show_time(buf, (double)row->count);
        break;
    case FORM_AGE:
        num_show_age(buf, row->count);
        break;
    case FORM_DIGITS:
        num_show_fpr(buf, v);
        break;
    case FORM_PERCENT:
        show_percent(buf, v);
        break;
    case FORM_RATIO:
        snprintf(buf, NUM_TEXT, "%.5g", v);
        break;
    case FORM_DECIMAL:
        snprintf(buf, NUM_TEXT, "%.2f", v);
        break;
    case FORM_SECONDS:
        num_show_seconds(buf, v);
        break;
    default:
        num_show_count(buf, v);
    }
}

/* The value as text, without its remark: in `buf`, or elsewhere. */
static const char *value_of(const struct report_row *row, char buf[REPORT_TEXT])
{
    char v[NUM_TEXT], from[NUM_TEXT], to[NUM_TEXT];
    if (row->source == UNKNOWN)
        return "unknown";
    if (row->form == FORM_TEXT)
        return row->text;
    show_value(v, row, row->value);
    show_value(from, row, row->low);
    show_value(to, row, row->high);
    if (isnan(row->value) && row->low > 0)
        snprintf(buf, REPORT_TEXT, "%s to %s", from, to);
    else if (isnan(row->value))
        snprintf(buf, REPORT_TEXT, "at most %s", to);
    else if (isnan(row->low) || (row->low == row->value && row->high == row->value))
        snprintf(buf, REPORT_TEXT, "%s", v);
    else if (isinf(row->high))
        snprintf(buf, REPORT_TEXT, "at least %s", from);
    else
        snprintf(buf, REPORT_TEXT, "%s (%s to %s)", v, from, to);
    return buf;
}

const char *report_shown(const struct report *r, char text[REPORT_TEXT])
{
    return value_of(&r->row[r->n - 1], text);
}

static const char *source_name(enum report_source source)
{
    static const char *const names[] = {"unknown", "exact", "estimated", "recorded", "assumed"};
    return names[source];
}

static int wider(int width, size_t len)
{
    return len > (size_t)width ? (int)len : width;
}

/* Prints label, value, source. */
static void put_row(const struct report_row *row, int labels, int values, FILE *out)
{
    char buf[REPORT_TEXT];
    bool interval = !isnan(row->low) && row->low != row->high;
    fprintf(out, "%-*s  ", labels, row->label);
    int width = (int)visible_print(out, value_of(row, buf)) + fprintf(out, "%s", row->remark);
    if (row->source != UNKNOWN)
        fprintf(out, "%*s  %s%s", values > width ? values - width : 0, "", source_name(row->source),
                interval ? " (95 %)" : "");
    putc('\n', out);
}

static void put_rows(const struct report *r, FILE *out)
{
    enum { WIDEST = 44 }; /* a longer value, such as a path, sticks out */
    const struct report_row *end = r->row + singles(r);
    char buf[REPORT_TEXT];
    int labels = 0, values = 0;
    for (const struct report_row *row = r->row; row < end; row++) {
        if (row->label == NULL)
            continue;
        size_t len = strlen(value_of(row, buf)) + strlen(row->remark);
        labels = wider(labels, strlen(row->label));
        values = wider(values, len <= WIDEST ? len : 0);
    }
    for (const struct report_row *row = r->row; row < end; row++)
        if (row->label != NULL)
            put_row(row, labels, values, out);
}

/* ---- Tables. */

enum { COLUMNS = 20 };

struct text_table {
    unsigned n_items, n_columns;
    const char *heading[COLUMNS];
    const struct report_row *cell[REPORT_ITEMS][COLUMNS]; /* NULL: none, or unknown */
    const char *refusal[REPORT_ITEMS];                    /* NULL: none */
};

/* The column with that heading; a new one when the heading is first found. */
static unsigned column_of(struct text_table *t, const char *heading)
{
    unsigned i = 0;
    while (i < t->n_columns && strcmp(t->heading[i], heading) != 0)
        i++;
    assert(i < COLUMNS);
    if (i == t->n_columns)
        t->heading[t->n_columns++] = heading;
    return i;
}

/* Makes a table of the list that begins with `row`. */
static void make_table(struct text_table *t, const struct report_row *row,
                       const struct report_row *end)
{
    *t = (struct text_table){0};
    for (row++; row < end && row->form != FORM_LIST; row++) {
        t->n_items += row->form == FORM_ITEM;
        assert(t->n_items <= REPORT_ITEMS);
        if (row->form == FORM_REFUSAL)
            t->refusal[t->n_items - 1] = row->text;
        else if (row->label != NULL && row->source != UNKNOWN)
            t->cell[t->n_items - 1][column_of(t, row->label)] = row;
    }
}

/* Line 0 has the headings. */
static const char *cell_of(const struct text_table *t, unsigned line, unsigned column,
                           char buf[REPORT_TEXT])
{
    if (line == 0)
        return t->heading[column];
    const struct report_row *row = t->cell[line - 1][column];
    return row != NULL ? value_of(row, buf) : "-";
}

static void put_table_line(const struct text_table *t, unsigned line, const int *widths, FILE *out)
{
    char buf[REPORT_TEXT];
    const char *refusal = line > 0 ? t->refusal[line - 1] : NULL;
    for (unsigned i = 0; i < (refusal != NULL ? 1 : t->n_columns); i++)
        fprintf(out, "%s%*s", i > 0 ? "  " : "", widths[i], cell_of(t, line, i, buf));
    if (refusal != NULL)
        fprintf(out, " %s", refusal);
    putc('\n', out);
}

static void put_list(const struct report *r, unsigned at, FILE *out)
{
    struct text_table t;
    char buf[REPORT_TEXT];
    int widths[COLUMNS] = {0}; /* as of printf; the first column is left-aligned */
    make_table(&t, &r->row[at], r->row + r->n);
    for (unsigned i = 0; i < t.n_columns; i++)
        for (unsigned line = 0; line <= t.n_items; line++)
            widths[i] = wider(widths[i], strlen(cell_of(&t, line, i, buf)));
    widths[0] = -widths[0];
    for (unsigned line = 0; line <= t.n_items; line++)
        put_table_line(&t, line, widths, out);
}

void report_table(const struct report *r, const char *list, FILE *out)
{
    for (unsigned i = 0; i < r->n; i++)
        if (r->row[i].form == FORM_LIST && strcmp(r->row[i].key, list) == 0)
            put_list(r, i, out);
}

void report_text(const struct report *r, FILE *out)
{
    put_rows(r, out);
    if (singles(r) < r->n)
        put_list(r, singles(r), out);
}

/* ---- JSON. */

static void put_value(struct json *j, const struct report_row *row)
{
    if (row->source == UNKNOWN) {
        json_null(j);
        return;
    }
    switch (row->form) {
    case FORM_TEXT:
    case FORM_REFUSAL:
        json_string(j, row->text);
        break;
    case FORM_FLAG:
        json_bool(j, row->count != 0);
        break;
    case FORM_COUNT:
    case FORM_BYTES:
    case FORM_TIME:
    case FORM_AGE:
        json_uint(j, row->count);
        break;
    default:
        json_double(j, row->value);
    }
}

static void put_bound(struct json *j, const char *bounds, const char *end, double value)
{
    char key[NUM_TEXT];
    snprintf(key, sizeof key, "%s_%s", bounds, end);
    json_key(j, key);
    json_double(j, value);
}

/* Ends items (depth 3), lists (2) and the object (1) down to that depth. */
static void close_to(struct json *j, int depth)
{
    while (j->depth > depth)
        json_close(j, j->depth == 2 ? ']' : '}');
}

static void put_member(struct json *j, const struct report_row *row)
{
    if (row->form == FORM_LIST)
        close_to(j, 1);
    if (row->form == FORM_ITEM) {
        close_to(j, 2);
        json_open(j, '{');
    }
    if (row->key == NULL)
        return;
    json_key(j, row->key);
    if (row->form == FORM_LIST)
        json_open(j, '[');
    else
        put_value(j, row);
    if (row->bounds != NULL) {
        put_bound(j, row->bounds, "low", row->low);
        put_bound(j, row->bounds, "high", row->high);
    }
}

void report_json(const struct report *r, FILE *out)
{
    struct json j = {.out = out};
    json_open(&j, '{');
    for (unsigned i = 0; i < r->n; i++)
        put_member(&j, &r->row[i]);
    close_to(&j, 1);
    if (r->sources) {
        json_key(&j, "sources");
        json_open(&j, '{');
        for (unsigned i = 0; i < singles(r); i++) {
            json_key(&j, r->row[i].key);
            json_string(&j, source_name(r->row[i].source));
        }
        json_close(&j, '}');
    }
    close_to(&j, 0);
}

/* ---- Metrics. */

/* Users monitor these names: new ones may be added, but none may change. */
static const struct {
    const char *key, *name, *type, *help;
} families[] = {
    {"readable", "seen_filter_readable", "gauge", "1 if the filter could be read, else 0."},
    {"clean", "seen_filter_clean", "gauge",
     "1 if no command is writing and the last one came to its end, else 0."},
    {"pages_damaged", "seen_filter_damaged_pages", "gauge",
     "Pages that do not match their checksum."},
    {"bytes", "seen_filter_size_bytes", "gauge", "Size of the filter."},
    {"created", "seen_filter_created_timestamp_seconds", "gauge", "When the filter was made."},
    {"changed", "seen_filter_changed_timestamp_seconds", "gauge", "When keys were last added."},
    {"n_estimate", "seen_filter_keys", "gauge", "Distinct keys, as told by the bits."},
    {"generations", "seen_filter_generations", "gauge", "Rotations for which a key is remembered."},
    {"forget_after_seconds", "seen_filter_forget_after_seconds", "gauge",
     "Time for which a key is kept at least."},
    {"kept_until", "seen_filter_kept_until_timestamp_seconds", "gauge",
     "When all keys are forgotten if none are added."},
    {"n_design", "seen_filter_capacity_keys", "gauge", "Keys that the filter was made for."},
    {"load", "seen_filter_load_ratio", "gauge", "Keys divided by the capacity."},
    {"keys_left", "seen_filter_left_keys", "gauge",
     "New keys until the filter is full, or the design rate of false positives is passed."},
    {"fpr_current", "seen_filter_false_positive_ratio", "gauge",
     "Probability that an absent key is taken for present."},
    {"fpr_design", "seen_filter_design_false_positive_ratio", "gauge",
     "The same, as asked for when the filter was made."},
    {"records", "seen_filter_records_total", "counter", "Records given to be added."},
    {"keys_added", "seen_filter_keys_added_total", "counter", "Keys that were new when added."},
    {"dropped_estimate", "seen_filter_dropped_keys", "gauge",
     "New keys that were taken for known, as estimated."},
};

enum { FAMILIES = sizeof families / sizeof *families };

/* A metric must not have two samples with one label. */
bool metrics_begin(struct metrics *m, char *const *names, size_t n, struct err *err)
{
    *m = (struct metrics){.label = calloc(n, sizeof *m->label),
                          .value = calloc(n, FAMILIES * sizeof *m->value)};
    if (m->label == NULL || m->value == NULL)
        return fail(err, "out of memory");
    for (size_t i = 0; i < n * FAMILIES; i++)
        m->value[i] = NAN;
    m->n = n;
    for (size_t i = 0; i < n; i++) {
        char *label = m->label[i] = malloc(VISIBLE_ROOM(strlen(names[i])));
        if (label == NULL)
            return fail(err, "out of memory");
        visible_copy(label, names[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(m->label[j], label) == 0)
                return fail(err, "'%s' is given twice", label);
    }
    return true;
}

void metrics_next(struct metrics *m)
{
    m->at++;
}

void metrics_note(struct metrics *m, const char *key, double value)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].key, key) == 0)
            m->value[i * m->n + m->at - 1] = value;
}

/* In quotes, \ and " are escaped by \. Labels have no newlines: they are visible text. */
static void put_quoted(const char *text, FILE *out)
{
    putc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            putc('\\', out);
        putc(*text, out);
    }
    putc('"', out);
}

static void put_family(const struct metrics *m, size_t family, FILE *out)
{
    const char *name = families[family].name;
    const double *value = m->value + family * m->n;
    bool begun = false;
    for (size_t i = 0; i < m->n; i++) {
        if (isnan(value[i]))
            continue;
        if (!begun)
            fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, families[family].help, name,
                    families[family].type);
        begun = true;
        fprintf(out, "%s{file=", name);
        put_quoted(m->label[i], out);
        fprintf(out, "} %.15g\n", value[i]);
    }
}

void report_metrics(const struct report *r, struct metrics *m)
{
    for (unsigned i = 0; i < singles(r); i++)
        if (r->row[i].source != UNKNOWN && isfinite(r->row[i].value))
            metrics_note(m, r->row[i].key, r->row[i].value);
}

void metrics_print(const struct metrics *m, FILE *out)
{
    for (size_t i = 0; i < FAMILIES; i++)
        put_family(m, i, out);
}

void metrics_free(struct metrics *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->label[i]);
    free(m->label);
    free(m->value);
}
