#include "cmd/report.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/visible.h"

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
    {"n_design", "seen_filter_capacity_keys", "gauge", "Keys that the filter was made for."},
    {"load", "seen_filter_load_ratio", "gauge", "Keys divided by the capacity."},
    {"keys_left", "seen_filter_left_keys", "gauge",
     "New keys until the design rate of false positives is passed."},
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

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A metric must not have two samples with one label. */
static bool check_labels(const struct metrics *m, struct err *err)
{
    bool ok = true;
    char **sorted = malloc(m->n * sizeof *sorted);
    if (sorted == NULL)
        return fail(err, "out of memory");
    memcpy(sorted, m->label, m->n * sizeof *sorted);
    qsort(sorted, m->n, sizeof *sorted, by_text);
    for (size_t i = 1; i < m->n && ok; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            ok = fail(err, "'%s' is given twice", sorted[i]);
    free(sorted);
    return ok;
}

bool metrics_begin(struct metrics *m, char *const *names, size_t n, struct err *err)
{
    *m = (struct metrics){.label = calloc(n, sizeof *m->label),
                          .value = calloc(n, FAMILIES * sizeof *m->value)};
    if (m->label == NULL || m->value == NULL)
        return fail(err, "out of memory");
    for (size_t i = 0; i < n * FAMILIES; i++)
        m->value[i] = NAN;
    for (; m->n < n; m->n++) {
        m->label[m->n] = malloc(VISIBLE_ROOM(strlen(names[m->n])));
        if (m->label[m->n] == NULL)
            return fail(err, "out of memory");
        visible_copy(m->label[m->n], names[m->n]);
    }
    return check_labels(m, err);
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

/* ---- Reports. */

void report_begin(struct report *r, bool json, FILE *out)
{
    memset(r, 0, sizeof *r);
    r->out = out;
    r->is_json = json;
    r->json.out = out;
    if (json)
        json_open(&r->json, '{');
}

void report_begin_metrics(struct report *r, struct metrics *metrics)
{
    report_begin(r, false, stdout);
    r->metrics = metrics;
}

static void note(struct report *r, const struct field *field, double value)
{
    if (r->metrics != NULL && !r->in_item)
        metrics_note(r->metrics, field->key, value);
}

static struct report_row *new_row(struct report *r, const struct field *field, enum source source)
{
    assert(r->n_rows < REPORT_ROWS);
    struct report_row *row = &r->rows[r->n_rows++];
    row->field = field;
    row->source = source;
    return row;
}

/* The list's column for that field; a new one when the field is first known. */
static unsigned column_of(struct report *r, const struct field *field)
{
    unsigned i = 0;
    while (i < r->n_columns && r->columns[i] != field)
        i++;
    assert(i < REPORT_COLUMNS);
    if (i == r->n_columns)
        r->columns[r->n_columns++] = field;
    return i;
}

static void put_text(struct report *r, const struct field *field, enum source source,
                     const char *text)
{
    if (!r->in_item) {
        struct report_row *row = new_row(r, field, source);
        snprintf(row->text, sizeof row->text, "%s", text);
    } else if (field->label != NULL && source != UNKNOWN) {
        struct report_item *item = &r->items[r->n_items - 1];
        snprintf(item->cells[column_of(r, field)], NUM_TEXT, "%s", text);
    }
}

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

static char *show(char *buf, enum form form, double v)
{
    switch (form) {
    case FORM_BYTES:
        return num_show_bytes(buf, (uint64_t)v);
    case FORM_FPR:
        return num_show_fpr(buf, v);
    case FORM_PERCENT:
        show_percent(buf, v);
        return buf;
    case FORM_RATIO:
        snprintf(buf, NUM_TEXT, "%.5g", v);
        return buf;
    case FORM_DECIMAL:
        snprintf(buf, NUM_TEXT, "%.2f", v);
        return buf;
    case FORM_TIME:
        show_time(buf, v);
        return buf;
    default:
        return num_show_count(buf, v);
    }
}

void report_unknown(struct report *r, const struct field *field)
{
    put_text(r, field, UNKNOWN, "unknown");
    if (!r->is_json)
        return;
    const char *keys[] = {field->key, field->low_key, field->high_key};
    for (unsigned i = 0; i < 3; i++)
        if (keys[i] != NULL) {
            json_key(&r->json, keys[i]);
            json_null(&r->json);
        }
}

void report_range(struct report *r, const struct field *field, enum source source, double value,
                  double low, double high)
{
    if (!isfinite(value) && !isfinite(high)) {
        report_unknown(r, field);
        return;
    }
    if (isfinite(value))
        note(r, field, value);
    char v[NUM_TEXT], from[NUM_TEXT], to[NUM_TEXT], text[4 * NUM_TEXT];
    show(v, field->form, value);
    show(from, field->form, low);
    show(to, field->form, high);
    if (isnan(value) && low > 0)
        snprintf(text, sizeof text, "%s to %s", from, to);
    else if (isnan(value))
        snprintf(text, sizeof text, "at most %s", to);
    else if (isnan(low) || (low == value && high == value))
        snprintf(text, sizeof text, "%s", v);
    else if (isinf(high))
        snprintf(text, sizeof text, "at least %s", from);
    else
        snprintf(text, sizeof text, "%s (%s to %s)", v, from, to);
    put_text(r, field, source, text);
    if (!r->in_item)
        r->rows[r->n_rows - 1].interval = !isnan(low) && low != high;
    if (!r->is_json)
        return;
    json_key(&r->json, field->key);
    json_double(&r->json, value);
    if (field->low_key == NULL)
        return;
    json_key(&r->json, field->low_key);
    json_double(&r->json, low);
    json_key(&r->json, field->high_key);
    json_double(&r->json, high);
}

void report_number(struct report *r, const struct field *field, enum source source, double value)
{
    report_range(r, field, source, value, value, value);
}

void report_uint(struct report *r, const struct field *field, enum source source, uint64_t value)
{
    char text[NUM_TEXT];
    note(r, field, (double)value);
    if (field->form == FORM_COUNT)
        snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    else
        show(text, field->form, (double)value);
    put_text(r, field, source, text);
    if (!r->is_json)
        return;
    json_key(&r->json, field->key);
    json_uint(&r->json, value);
}

void report_string(struct report *r, const struct field *field, enum source source,
                   const char *value)
{
    if (value == NULL) {
        report_unknown(r, field);
        return;
    }
    if (r->in_item)
        put_text(r, field, source, value);
    else
        new_row(r, field, source)->string = value;
    if (!r->is_json)
        return;
    json_key(&r->json, field->key);
    json_string(&r->json, value);
}

void report_flag(struct report *r, const struct field *field, enum source source, bool value)
{
    put_text(r, field, source, value ? "yes" : "no");
    if (!r->is_json)
        return;
    json_key(&r->json, field->key);
    json_bool(&r->json, value);
}

void report_append(struct report *r, const char *fmt, ...)
{
    struct report_row *row = &r->rows[r->n_rows - 1];
    size_t len = strlen(row->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(row->text + len, sizeof row->text - len, fmt, ap);
    va_end(ap);
}

void report_list(struct report *r, const char *key)
{
    if (!r->is_json)
        return;
    json_key(&r->json, key);
    json_open(&r->json, '[');
}

void report_item(struct report *r, const char *label, unsigned number)
{
    assert(r->n_items < REPORT_ITEMS);
    struct report_item *item = &r->items[r->n_items++];
    snprintf(item->label, sizeof item->label, "%s %u", label, number);
    r->in_item = true;
    if (r->is_json)
        json_open(&r->json, '{');
}

void report_item_end(struct report *r)
{
    r->in_item = false;
    if (r->is_json)
        json_close(&r->json, '}');
}

void report_list_end(struct report *r)
{
    if (r->is_json)
        json_close(&r->json, ']');
}

static const char *source_name(enum source source)
{
    static const char *const names[] = {"unknown", "exact", "estimated", "recorded", "assumed"};
    return names[source];
}

static void end_json(struct report *r)
{
    json_key(&r->json, "sources");
    json_open(&r->json, '{');
    for (unsigned i = 0; i < r->n_rows; i++) {
        json_key(&r->json, r->rows[i].field->key);
        json_string(&r->json, source_name(r->rows[i].source));
    }
    json_close(&r->json, '}');
    json_close(&r->json, '}');
}

static const char *label_of(const struct report_row *row)
{
    return row->field->label;
}

static const char *text_of(const struct report_row *row)
{
    return row->string != NULL ? row->string : row->text;
}

static int column_width(const struct report *r, const char *(*cell)(const struct report_row *))
{
    enum { WIDEST = 44 }; /* a longer cell, such as a path, sticks out */
    int width = 0;
    for (unsigned i = 0; i < r->n_rows; i++) {
        const struct report_row *row = &r->rows[i];
        size_t len = label_of(row) != NULL ? strlen(cell(row)) : 0;
        if (len <= WIDEST && (int)len > width)
            width = (int)len;
    }
    return width;
}

/* A cell of row `row` of the list; the row before the first item is the heading. */
static const char *cell_of(const struct report *r, unsigned row, unsigned column)
{
    if (row == 0)
        return r->columns[column]->label;
    const char *text = r->items[row - 1].cells[column];
    return text[0] != '\0' ? text : "-";
}

static void put_list(const struct report *r)
{
    int labels = 0, width[REPORT_COLUMNS] = {0};
    for (unsigned row = 0; row <= r->n_items; row++) {
        int len = row > 0 ? (int)strlen(r->items[row - 1].label) : 0;
        labels = len > labels ? len : labels;
        for (unsigned i = 0; i < r->n_columns; i++) {
            len = (int)strlen(cell_of(r, row, i));
            width[i] = len > width[i] ? len : width[i];
        }
    }
    for (unsigned row = 0; row <= r->n_items; row++) {
        fprintf(r->out, "%-*s", labels, row > 0 ? r->items[row - 1].label : "");
        for (unsigned i = 0; i < r->n_columns; i++)
            fprintf(r->out, "  %*s", width[i], cell_of(r, row, i));
        putc('\n', r->out);
    }
}

/* Label, value, source. */
static void end_text(struct report *r)
{
    int labels = column_width(r, label_of), values = column_width(r, text_of);
    for (unsigned i = 0; i < r->n_rows; i++) {
        const struct report_row *row = &r->rows[i];
        if (label_of(row) == NULL)
            continue;
        fprintf(r->out, "%-*s  ", labels, label_of(row));
        int pad = values - (int)visible_print(r->out, text_of(row));
        if (row->source != UNKNOWN)
            fprintf(r->out, "%*s  %s%s", pad > 0 ? pad : 0, "", source_name(row->source),
                    row->interval ? " (95 %)" : "");
        putc('\n', r->out);
    }
    if (r->n_items > 0)
        put_list(r);
}

void report_end(struct report *r)
{
    if (r->is_json)
        end_json(r);
    else if (r->metrics == NULL)
        end_text(r);
}
