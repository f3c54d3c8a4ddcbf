#include "cmd/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/visible.h"

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
