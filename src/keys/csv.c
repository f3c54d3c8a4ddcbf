/* SPDX-License-Identifier: MIT */
#include "keys/csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/num.h"
#include "keys/content.h"
#include "keys/split.h"

static const char no_quotes[] = " (without --csv, -d and -f take quotes as text)";

/* ---- Fields of a record that keeps the rule. */

/* The end of the field that begins at p: its separator, or `end`. */
static const char *field_end(const char *p, const char *end, char delimiter)
{
    if (p < end && *p == '"') {
        do {
            const char *quote = memchr(p + 1, '"', (size_t)(end - p) - 1);
            p = quote != NULL ? quote + 1 : end;
        } while (p < end && *p == '"');
    }
    const char *d = memchr(p, delimiter, (size_t)(end - p));
    return d != NULL ? d : end;
}

/* The record without its newline, and a CR before that. */
static struct slice bare(const char *p, size_t len)
{
    len -= len > 0 && p[len - 1] == '\n';
    len -= len > 0 && p[len - 1] == '\r';
    return (struct slice){p, len};
}

/* The field's value: between its quotes, if it has any, with doubled quotes made one. In the field,
 * or at *to, which moves behind it. */
static struct slice field_value(struct slice field, char **to)
{
    if (field.len < 2 || field.data[0] != '"')
        return field;
    struct slice inner = {field.data + 1, field.len - 2};
    const char *end = inner.data + inner.len;
    if (memchr(inner.data, '"', inner.len) == NULL)
        return inner;
    char *begin = *to, *at = begin;
    for (const char *p = inner.data; p < end; p += 1 + (*p == '"'))
        *at++ = *p;
    *to = at;
    return (struct slice){begin, (size_t)(at - begin)};
}

/* The field with its quotes only if its value has a quote, a delimiter or a line's end. */
static struct slice plain_field(struct slice field, char delimiter)
{
    if (field.len < 2 || field.data[0] != '"')
        return field;
    struct slice inner = {field.data + 1, field.len - 2};
    for (size_t i = 0; i < inner.len; i++)
        if (inner.data[i] == '"' || inner.data[i] == delimiter || inner.data[i] == '\n' ||
            inner.data[i] == '\r')
            return field;
    return inner;
}

/* Appends all fields of the text to `to`, with delimiters between them. */
static char *put_fields(struct slice text, char delimiter, char *to)
{
    const char *p = text.data, *end = p + text.len;
    for (;;) {
        const char *stop = field_end(p, end, delimiter);
        struct slice field = plain_field((struct slice){p, (size_t)(stop - p)}, delimiter);
        memcpy(to, field.data, field.len);
        to += field.len;
        if (stop == end)
            return to;
        *to++ = delimiter;
        p = stop + 1;
    }
}

size_t csv_blank_lines(const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && (p[n] == '\n' || (p[n] == '\r' && n + 1 < len && p[n + 1] == '\n')))
        n++;
    return n;
}

size_t csv_plain(char delimiter, const char *record, size_t len, char *to)
{
    size_t mark = content_mark(record, len);
    return (size_t)(put_fields(bare(record + mark, len - mark), delimiter, to) - to);
}

/* ---- What -f names. */

static bool add_want(struct csv *csv, const char *name, size_t len, long number, struct err *err)
{
    if (csv->n == CSV_FIELDS)
        return fail(err, "more than %d columns", CSV_FIELDS);
    csv->want[csv->n].name = name;
    csv->want[csv->n].len = len;
    csv->want[csv->n++].number = (int)number;
    return true;
}

/* N, -N, N-M or N-; *is_number false: something else, a name. */
static bool take_numbers(struct csv *csv, struct slice item, bool *is_number, struct err *err)
{
    char text[24] = "";
    long from, to;
    *is_number = false;
    if (item.len >= sizeof text)
        return true;
    memcpy(text, item.data, item.len);
    char *hyphen = strchr(text + (item.len > 0), '-');
    bool rest = hyphen != NULL && hyphen[1] == '\0';
    if (hyphen != NULL)
        *hyphen = '\0';
    long least = hyphen != NULL ? 1 : -CSV_COLUMN_MAX;
    if (!num_int(text, least, CSV_COLUMN_MAX, &from))
        return true;
    to = from;
    if (hyphen != NULL && !rest && !num_int(hyphen + 1, from, CSV_COLUMN_MAX, &to))
        return true;
    *is_number = true;
    csv->rest = rest;
    if (from == 0)
        return fail(err, "columns are counted from 1, or from -1 backwards");
    for (; from <= to; from++)
        if (!add_want(csv, NULL, 0, from, err))
            return false;
    return true;
}

bool csv_want(struct csv *csv, const char *list, struct err *err)
{
    const char *p = list, *end = list + strlen(list);
    char *to = csv->names;
    csv->n = 0;
    if (strlen(list) > CSV_NAMES)
        return fail(err, "more than %d bytes of names", CSV_NAMES);
    for (;; p++) {
        const char *stop = field_end(p, end, ',');
        struct slice item = {p, (size_t)(stop - p)};
        bool quoted = item.len > 0 && *p == '"', is_number = false;
        if (csv->rest)
            return fail(err, "nothing can follow all columns to the last");
        if (item.len == 0)
            return fail(err, "a name or a number is missing");
        if (quoted && (item.len < 2 || stop[-1] != '"'))
            return fail(err, "a quote is not closed");
        if (!quoted && memchr(p, '"', item.len) != NULL)
            return fail(err,
                        "a quote is inside a name: names with quotes stand in quotes, and each "
                        "quote twice");
        if (!quoted && !take_numbers(csv, item, &is_number, err))
            return false;
        if (!is_number) {
            struct slice name = field_value(item, &to);
            if (!add_want(csv, name.data, name.len, 0, err))
                return false;
        }
        if (stop == end)
            return true;
        p = stop;
    }
}

/* The columns of a file's first record, by name. */
struct names {
    char delimiter;
    struct slice record; /* without its end and a byte order mark */
    char *room;          /* for a name with doubled quotes */
    unsigned n;
};

/* The name of the column that begins at *p; moves *p behind it, to NULL after the last. */
static struct slice next_name(const struct names *names, const char **p)
{
    const char *end = names->record.data + names->record.len;
    const char *stop = field_end(*p, end, names->delimiter);
    char *to = names->room;
    struct slice name = field_value((struct slice){*p, (size_t)(stop - *p)}, &to);
    *p = stop < end ? stop + 1 : NULL;
    return name;
}

/* Counts the columns of that name: *column is the first of them, *other the second. */
static unsigned find_name(const struct names *names, const char *name, size_t len, int *column,
                          int *other)
{
    unsigned found = 0;
    int at = 0;
    for (const char *p = names->record.data; p != NULL; at++) {
        struct slice is = next_name(names, &p);
        if (is.len != len || memcmp(is.data, name, len) != 0)
            continue;
        if (found++ == 0)
            *column = at;
        else if (found == 2)
            *other = at;
    }
    return found;
}

/* Adds to *err what the delimiter may be, if there is one column. Returns false. */
static bool guess_delimiter(const struct names *names, struct err *err)
{
    for (const char *d = ";\t|,"; names->n == 1 && *d != '\0'; d++)
        if (*d != names->delimiter && memchr(names->record.data, *d, names->record.len) != NULL)
            return fail_more(err,
                             *d == '\t' ? "; is it separated by TABs (-d$'\\t')?"
                                        : "; is it separated by '%c' (-d'%c')?",
                             *d, *d);
    return false;
}

static bool fail_name(const struct names *names, const char *name, size_t len, struct err *err)
{
    unsigned n = 0;
    fail(err, "has no column '%.*s'; its columns are", (int)(len < 200 ? len : 200), name);
    for (const char *p = names->record.data; p != NULL && n < 40; n++) {
        struct slice is = next_name(names, &p);
        fail_more(err, "%s'%.*s'", n > 0 ? ", " : " ", (int)(is.len < 60 ? is.len : 60), is.data);
    }
    if (names->n > n)
        fail_more(err, " and %u more", names->n - n);
    return guess_delimiter(names, err);
}

static bool resolve_one(const struct csv *csv, const struct names *names, unsigned i, int *column,
                        struct err *err)
{
    int other = 0, number = csv->want[i].number;
    const char *name = csv->want[i].name;
    if (name == NULL) {
        *column = number > 0 ? number - 1 : (int)names->n + number;
        if (*column >= 0 && *column < (int)names->n)
            return true;
        fail(err, "has %u column%s, no column %d", names->n, num_plural(names->n), number);
        return guess_delimiter(names, err);
    }
    int len = (int)csv->want[i].len;
    switch (find_name(names, name, csv->want[i].len, column, &other)) {
    case 0:
        return fail_name(names, name, csv->want[i].len, err);
    case 1:
        return true;
    default:
        return fail(err, "has two columns '%.*s', %d and %d (-f %d takes the first)",
                    len < 200 ? len : 200, name, *column + 1, other + 1, *column + 1);
    }
}

static bool resolve_all(const struct csv *csv, const struct names *names, struct csv_columns *c,
                        struct err *err)
{
    for (unsigned i = 0; i < csv->n; i++) {
        if (!resolve_one(csv, names, i, &c->column[i], err))
            return false;
        for (unsigned j = 0; j < i; j++)
            if (c->column[j] == c->column[i] ||
                (csv->rest && i + 1 == csv->n && c->column[j] > c->column[i]))
                return fail(err, "has column %d, which -f names twice", c->column[j] + 1);
    }
    return true;
}

/* Does the first record keep the rule? */
static bool check_rule(char delimiter, const char *record, size_t len, struct err *err)
{
    enum { PART = 256 };
    uint32_t place[PART + SPLIT_SLACK], line_end[PART + SPLIT_SLACK];
    struct csv_scan scan = {.may_open = true};
    const char *p = record, *end = record + len;
    for (size_t part = 0; p < end && !scan.broken; p += scan.broken ? scan.bad : part) {
        part = (size_t)(end - p) < PART ? (size_t)(end - p) : PART;
        split_csv(&scan, p, part, delimiter, place, line_end);
    }
    if (scan.cr || (scan.broken && p > record && p[-1] == '\r'))
        return fail(err, "has CRs alone in its first record: tr '\\r' '\\n' <FILE | seen ... makes "
                         "lines of it");
    if (scan.broken && *p != '\0' && strchr(";\t|,", *p) != NULL)
        return fail(err,
                    *p == '\t' ? "is separated by TABs, it seems (-d$'\\t')"
                               : "is separated by '%c', it seems (-d'%c')",
                    *p, *p);
    if (scan.broken || scan.inside)
        return fail(err, "has a quote at a wrong place in its first record%s", no_quotes);
    return true;
}

bool csv_resolve(const struct csv *csv, const char *first, size_t len, struct csv_columns *columns,
                 struct err *err)
{
    size_t mark = content_mark(first, len);
    struct names names = {csv->delimiter, bare(first + mark, len - mark), NULL, 0};
    /* All columns are those from the first one on. */
    bool all = csv->n == 0;
    *columns = (struct csv_columns){.used = all ? 1 : csv->n, .rest = all || csv->rest};
    if (!check_rule(csv->delimiter, first + mark, len - mark, err))
        return false;
    if (!csv->no_header && names.record.len == 5 && memcmp(names.record.data, "sep=", 4) == 0)
        return fail(err, "begins with '%.5s': leave out that line, and give -d'%c'",
                    names.record.data, names.record.data[4]);
    if (!csv->no_header && names.record.len == 0)
        return fail(err, "begins with a byte order mark on a line of its own: leave out that line");
    names.room = malloc(len + 1);
    if (names.room == NULL)
        return fail(err, "out of memory");
    for (const char *p = names.record.data; p != NULL; names.n++)
        (void)next_name(&names, &p);
    columns->n = names.n;
    bool ok = resolve_all(csv, &names, columns, err);
    free(names.room);
    /* A single column is its value, not a record of one. */
    columns->rest &= columns->used > 1 || columns->column[0] + 1 < (int)names.n;
    return ok;
}

/* ---- Cutting. */

/* Bytes that are searched at once: 64 KiB of places stay in the cache until they are used. */
enum { WINDOW = 16 << 10 };

struct csv_cutter {
    const struct csv *csv;
    const struct csv_columns *columns;
    const char *data, *end, *at; /* at: what was not searched yet */
    struct csv_scan scan;
    const char *window; /* where the places count from */
    size_t n, i, line;  /* places; the next one; the next of `line_end` */
    const char *field;  /* where the next field begins */
    unsigned column;    /* its number in its record */
    unsigned fields[CSV_BATCH];
    struct slice slot[CSV_FIELDS][CSV_BATCH];
    uint32_t place[WINDOW + SPLIT_SLACK], line_end[WINDOW + SPLIT_SLACK];
};

struct csv_cutter *csv_cutter_new(void)
{
    return malloc(sizeof(struct csv_cutter));
}

void csv_cutter_free(struct csv_cutter *c)
{
    free(c);
}

void csv_begin(struct csv_cutter *c, const struct csv *csv, const struct csv_columns *columns,
               bool first, const char *data, size_t len)
{
    c->csv = csv;
    c->columns = columns;
    c->data = data;
    c->at = c->field = data + (first ? content_mark(data, len) : 0);
    c->end = data + len;
    c->scan = (struct csv_scan){.may_open = true};
    c->n = c->i = c->line = 0;
    c->column = 0;
}

/* Searches the next part of the chunk. False: there is none. */
static bool search(struct csv_cutter *c)
{
    size_t left = (size_t)(c->end - c->at), len = left < WINDOW ? left : WINDOW;
    if (len == 0 || c->scan.broken)
        return false;
    c->window = c->at;
    c->n = split_csv(&c->scan, c->at, len, c->csv->delimiter, c->place, c->line_end);
    c->i = c->line = 0;
    c->at += len;
    return true;
}

/* The last record may lack its newline. */
static bool has_last(const struct csv_cutter *c)
{
    bool begun = c->column > 0 || c->field < c->end;
    return begun && !c->scan.broken && !c->scan.inside && !c->scan.cr;
}

/* Column i of the key of record n. `last`: of the record, so that a CR may stand before its end. */
static void set_slot(struct csv_cutter *c, unsigned i, size_t n, struct slice field, bool last)
{
    field.len -= last && field.len > 0 && field.data[field.len - 1] == '\r';
    c->slot[i][n] = field;
}

/* Takes record n, which begins at the next place, if the first newline among the places is where
 * its last column ends. Others are walked through field by field: they are no longer in the window,
 * or not yet, or have another number of columns. */
static bool cut_whole(struct csv_cutter *c, size_t n)
{
    const struct csv_columns *columns = c->columns;
    const uint32_t *place = c->place + c->i;
    unsigned last = columns->n - 1;
    if (c->column > 0 || columns->n == 0 || c->n - c->i < columns->n ||
        place[last] != c->line_end[c->line])
        return false;
    for (unsigned i = 0; i < columns->used; i++) {
        unsigned column = (unsigned)columns->column[i];
        const char *p = column > 0 ? c->window + place[column - 1] + 1 : c->field;
        size_t len = (size_t)(c->window + place[column] - p);
        set_slot(c, i, n, (struct slice){p, len}, column == last);
    }
    c->field = c->window + place[last] + 1;
    c->fields[n] = columns->n;
    c->i += columns->n;
    c->line++;
    return true;
}

size_t csv_cut(struct csv_cutter *c, const char **record, size_t max)
{
    size_t n = 0;
    while (n < max) {
        const char *stop;
        bool last = false;
        if (cut_whole(c, n)) {
            record[++n] = c->field;
            continue;
        }
        if (c->i < c->n) {
            stop = c->window + c->place[c->i++];
        } else if (search(c)) {
            continue;
        } else if (has_last(c)) {
            stop = c->end;
            last = true;
        } else {
            break;
        }
        bool ends = last || *stop == '\n';
        for (unsigned i = 0; i < c->columns->used; i++)
            if (c->columns->column[i] == (int)c->column)
                set_slot(c, i, n, (struct slice){c->field, (size_t)(stop - c->field)}, ends);
        c->column++;
        c->field = last ? stop : stop + 1;
        if (ends) {
            c->line++;
            c->fields[n] = c->column;
            record[++n] = c->field;
            c->column = 0;
        }
    }
    return n;
}

enum csv_is csv_key(const struct csv_cutter *c, size_t i, const char *record, const char *end,
                    const char **key, size_t *len, char **to)
{
    const struct csv_columns *columns = c->columns;
    char delimiter = c->csv->delimiter, *begin = *to;
    struct slice text;
    size_t empty = 0;
    /* Only the only column can have an empty value that is a whole line. */
    if (c->fields[i] == 1 && bare(record, (size_t)(end - record)).len == 0)
        return CSV_EMPTY_LINE;
    if (c->fields[i] != columns->n)
        return CSV_COLUMNS;
    if (columns->used == 1 && !columns->rest) {
        text = field_value(c->slot[0][i], to);
    } else {
        for (unsigned f = 0; f < columns->used; f++) {
            struct slice field = c->slot[f][i];
            if (f > 0)
                *(*to)++ = delimiter;
            if (columns->rest && f + 1 == columns->used)
                field = bare(field.data, (size_t)(end - field.data));
            *to = put_fields(field, delimiter, *to);
        }
        text = (struct slice){begin, (size_t)(*to - begin)};
        while (empty < text.len && text.data[empty] == delimiter)
            empty++;
    }
    *key = text.data;
    *len = text.len;
    return empty == text.len ? CSV_NO_VALUE : CSV_KEY;
}

unsigned csv_fields(const struct csv_cutter *c, size_t i)
{
    return c->fields[i];
}

uint64_t csv_newlines(const struct csv_cutter *c)
{
    return c->scan.newlines;
}

static uint64_t lines_between(const char *p, const char *end)
{
    uint64_t n = 0;
    for (; p < end; p++)
        n += *p == '\n';
    return n;
}

bool csv_broken(const struct csv_cutter *c, uint64_t *line, struct err *err)
{
    const char *bad = c->scan.broken ? c->window + c->scan.bad : c->end;
    if (!c->scan.broken && !c->scan.inside && !c->scan.cr)
        return false;
    bool quoted = c->field < bad && *c->field == '"';
    uint64_t within = quoted ? lines_between(c->field, bad) : 0;
    *line = lines_between(c->data, quoted ? c->field : bad);
    if (!c->scan.broken && c->scan.inside)
        fail(err, "the quote that opens column %u is never closed%s", c->column + 1, no_quotes);
    else if (!c->scan.broken || (bad > c->data && bad[-1] == '\r' && !(quoted && within > 0)))
        fail(err, "a CR that no newline follows stands in column %u", c->column + 1);
    else if (within > 0)
        fail(err,
             "the quote that opens column %u meets, %llu line%s below, one that closes no field%s",
             c->column + 1, (unsigned long long)within, num_plural(within), no_quotes);
    else if (quoted)
        fail(err, "text follows the closing quote of column %u%s", c->column + 1, no_quotes);
    else
        fail(err, "a quote stands in column %u, which does not begin with one%s", c->column + 1,
             no_quotes);
    return true;
}
