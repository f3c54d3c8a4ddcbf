/* SPDX-License-Identifier: MIT
 * Any bytes as a file of CSV, in chunks of any length: the records, keys and refusals must be those
 * of a machine that reads one byte after the other. The input is three bytes that say how it is
 * read, a line that is the list of columns, and the file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keys/batch.h"
#include "keys/input.h"
#include "keys/xxh3.h"
#include "choose.h"
#include "must.h"
#include "source.h"

enum { HEAD = 3 };

static const char mark[] = "\xef\xbb\xbf";

struct field {
    const char *p, *end;
};

/* A record as the machine sees it. */
struct record {
    const char *end;
    struct field *field; /* without a CR before the newline */
    size_t n;
    const char *bad;  /* a byte that breaks the rule, or the file's end; NULL: none */
    const char *last; /* where the last field begins */
};

/* Reads the record at p < end. Its first field begins behind `skip` bytes. */
static void read_record(struct record *r, const char *p, size_t skip, const char *end,
                        char delimiter)
{
    enum { BEGIN, BARE, INSIDE, CLOSED } state = BEGIN;
    bool cr = false, more = true;
    const char *begin = p += skip;
    r->n = 0;
    r->bad = NULL;
    for (; more; p++) {
        more = p < end;
        char c = '\n';
        if (more)
            c = *p;
        else if (state == INSIDE || cr)
            break;
        bool ends = state != INSIDE && (c == delimiter || c == '\n');
        if ((cr && c != '\n') || (state == CLOSED && !ends && c != '"' && c != '\r') ||
            (state == BARE && c == '"'))
            break;
        if (ends) {
            r->field[r->n++] = (struct field){begin, p - cr};
            begin = p + 1;
            state = BEGIN;
            if (c == '\n') {
                r->end = p + more;
                return;
            }
            continue;
        }
        cr = state != INSIDE && c == '\r';
        if (state == INSIDE)
            state = c == '"' ? CLOSED : INSIDE;
        else
            state = c == '"' ? INSIDE : c == '\r' && state == CLOSED ? CLOSED : BARE;
    }
    r->bad = p;
    r->last = begin;
}

static size_t value_of(struct field field, char *to)
{
    size_t n = 0;
    bool quoted = field.p < field.end && *field.p == '"';
    for (const char *p = field.p + quoted; p < field.end - quoted; p++) {
        to[n++] = *p;
        p += quoted && *p == '"';
    }
    return n;
}

/* Appends the value as a field of a record: in quotes if it needs them. */
static char *put_value(char *to, const char *value, size_t len, char delimiter)
{
    bool quotes = false;
    for (size_t i = 0; i < len; i++)
        quotes |= value[i] == '"' || value[i] == delimiter || value[i] == '\n' || value[i] == '\r';
    if (quotes)
        *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        *to++ = value[i];
        if (value[i] == '"')
            *to++ = '"';
    }
    if (quotes)
        *to++ = '"';
    return to;
}

/* The columns of the key in a file whose first record has these fields. */
struct wanted {
    size_t n, column[CSV_FIELDS], rest; /* rest: all from this column on; SIZE_MAX: none */
};

static bool resolve(const struct csv *csv, const struct record *first, struct wanted *w, char *room)
{
    w->n = 0;
    w->rest = csv->n == 0 ? 0 : SIZE_MAX;
    for (unsigned i = 0; i < csv->n; i++) {
        long number = csv->want[i].number, found = 0;
        size_t column = (size_t)(number > 0 ? number - 1 : (long)first->n + number);
        for (size_t f = 0; csv->want[i].name != NULL && f < first->n; f++) {
            size_t len = value_of(first->field[f], room);
            if (len == csv->want[i].len && memcmp(room, csv->want[i].name, len) == 0) {
                column = f;
                found++;
            }
        }
        if ((csv->want[i].name != NULL && found != 1) || column >= first->n)
            return false;
        for (size_t j = 0; j < w->n; j++)
            if (w->column[j] == column || (csv->rest && i + 1 == csv->n && w->column[j] > column))
                return false;
        w->column[w->n++] = column;
    }
    if (csv->rest)
        w->rest = w->column[--w->n];
    return true;
}

/* The record's key, at `to`; -1: none. */
static long key_of(const struct csv *csv, const struct wanted *w, const struct record *r, char *to,
                   char *room)
{
    char *at = to;
    size_t columns = w->n + (w->rest == SIZE_MAX ? 0 : r->n - w->rest);
    bool empty = true, joined = columns > 1;
    for (size_t i = 0, f; (f = i < w->n ? w->column[i] : w->rest + i - w->n) < r->n; i++) {
        if (i >= w->n && w->rest == SIZE_MAX)
            break;
        size_t len = value_of(r->field[f], room);
        empty &= len == 0;
        if (!joined) {
            memcpy(at, room, len);
            at += len;
            continue;
        }
        if (i > 0)
            *at++ = csv->delimiter;
        at = put_value(at, room, len, csv->delimiter);
    }
    return empty ? -1 : (long)(at - to);
}

static size_t blank_line(const char *p, const char *end)
{
    return p < end && *p == '\n' ? 1 : end - p >= 2 && p[0] == '\r' && p[1] == '\n' ? 2 : 0;
}

static uint64_t lines_between(const char *p, const char *end)
{
    uint64_t n = 0;
    for (; p < end; p++)
        n += *p == '\n';
    return n;
}

static size_t mark_at(const char *p, const char *end)
{
    return end - p >= 3 && memcmp(p, mark, 3) == 0 ? 3 : 0;
}

struct reading_of {
    struct key_rule rule;
    struct batch *batch;
    struct wanted wanted;
    struct record record;
    size_t columns;
    const char *file, *at, *end;
    char *key, *room;
    bool stopped; /* at a bad record */
};

static void check_chunk(struct reading_of *r, const struct chunk *chunk)
{
    const struct csv *csv = r->rule.csv;
    const char *begin = r->at;
    struct batch *b = r->batch;
    struct record *record = &r->record;
    MUST((size_t)(r->end - r->at) >= chunk->len && memcmp(r->at, chunk->data, chunk->len) == 0);
    b->columns = &chunk->columns;
    b->first = chunk->first;
    batch_start(b, chunk->data, chunk->len);
    while (batch_next(b)) {
        for (size_t i = 0; i < b->n; i++) {
            size_t skip = r->at == r->file ? mark_at(r->at, r->end) : 0;
            bool blank = blank_line(r->at, r->end) > 0;
            read_record(record, r->at, skip, r->end, csv->delimiter);
            MUST(record->bad == NULL && b->record[i + 1] - b->record[i] == record->end - r->at);
            MUST(memcmp(b->record[i], r->at, (size_t)(record->end - r->at)) == 0);
            long len = record->n == r->columns && !blank
                           ? key_of(csv, &r->wanted, record, r->key, r->room)
                           : -1;
            MUST((b->bad[i / 64] >> i % 64 & 1) == (len < 0));
            MUST(len < 0 || b->hash[i] == xxh3_bytes(r->key, (size_t)len, r->rule.seed.number));
            MUST(len >= 0 || r->rule.skip_bad || blank);
            r->at = record->end;
        }
    }
    if (!b->bad_record) {
        if (r->at == r->file && mark_at(r->at, r->end) == chunk->len) /* and nothing else */
            r->at += chunk->len;
        MUST(r->at == begin + chunk->len);
        return;
    }
    size_t skip = r->at == r->file ? mark_at(r->at, r->end) : 0;
    read_record(record, r->at, skip, r->end, csv->delimiter);
    const char *from = r->at;
    if (record->bad != NULL)
        from = record->last < record->bad && *record->last == '"' ? record->last : record->bad;
    else
        MUST(!r->rule.skip_bad &&
             (record->n != r->columns || key_of(csv, &r->wanted, record, r->key, r->room) < 0));
    MUST(b->n_before + b->newlines == lines_between(begin, from));
    MUST(b->bad_reason.text[0] != '\0');
    r->stopped = true;
}

/* Reads the file's first record, which names its columns. False: it must be refused. */
static bool begin_file(struct reading_of *r)
{
    const struct csv *csv = r->rule.csv;
    const char *p = r->file;
    for (size_t n; (n = blank_line(p, r->end)) > 0;)
        p += n;
    if (p == r->end)
        return true;
    read_record(&r->record, p, mark_at(p, r->end), r->end, csv->delimiter);
    r->columns = r->record.n;
    if (!csv->no_header)
        r->at = r->record.end;
    size_t len = (size_t)(r->record.end - p);
    bool sep = !csv->no_header && r->record.bad == NULL && len >= 5 && r->record.n > 0 &&
               (size_t)(r->record.field[r->record.n - 1].end - r->record.field[0].p) == 5 &&
               memcmp(r->record.field[0].p, "sep=", 4) == 0;
    bool nameless = !csv->no_header && r->record.n == 1 &&
                    r->record.field[0].p == r->record.field[0].end; /* behind a mark */
    return r->record.bad == NULL && !sep && !nameless &&
           resolve(csv, &r->record, &r->wanted, r->room);
}

static void check_file(struct reading_of *r, unsigned how, size_t chunk_len)
{
    size_t size = (size_t)(r->end - r->file);
    int fd = source_of(r->file, size, how & 8);
    char path[40], *name = path;
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    struct input_spec spec = {.files = &name,
                              .n_files = 1,
                              .terminator = '\n',
                              .prompt = how & 32,
                              .chunk_len = chunk_len,
                              .csv = r->rule.csv,
                              .header = !r->rule.csv->no_header};
    bool good = begin_file(r), failed = false;
    struct err err;
    struct chunk chunk = {0};
    struct input *in = input_open(&spec, &err);
    MUST(in != NULL);
    enum input_got got;
    for (uint64_t seq = 0; (got = input_next(in, &chunk, &err)) != INPUT_END; seq++) {
        MUST(chunk.seq == seq && !failed);
        failed = got == INPUT_FAILED;
        if (!failed && chunk.header > 0)
            MUST(chunk.data + chunk.len == chunk.buffer + (r->at - r->file));
        else if (!failed && !r->stopped)
            check_chunk(r, &chunk);
        input_finished(in, seq + 1);
    }
    MUST(failed == !good);
    MUST(failed || r->stopped || r->at == r->end || r->columns == 0);
    chunk_free(&chunk);
    input_close(in);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t chunk_lens[] = {1, 7, 64, 1000, 5000, 70000, 0, 3};
    if (size < HEAD || size > SOURCE_MOST)
        return 0;
    unsigned how = data[0];
    const uint8_t *list = data + HEAD, *stop = memchr(list, '\n', size - HEAD);
    if (stop == NULL)
        return 0;
    char *text = calloc((size_t)(stop - list) + 1, 1);
    struct csv *csv = calloc(1, sizeof *csv);
    size_t len = size - HEAD - (size_t)(stop - list) - 1;
    char *file = malloc(len + 1);
    struct reading_of r = {.rule = {.terminator = '\n', .skip_bad = how & 64},
                           .file = file,
                           .key = malloc(2 * len + 1),
                           .room = malloc(len + 1),
                           .record.field = malloc((len + 1) * sizeof(struct field))};
    MUST(text != NULL && csv != NULL && file != NULL && r.key != NULL && r.room != NULL);
    memcpy(text, list, (size_t)(stop - list));
    memcpy(file, stop + 1, len);
    csv->delimiter = ",;\t|a \xff\1"[data[1] % 8];
    csv->no_header = how & 16;
    r.at = r.file;
    r.end = r.file + len;
    r.rule.csv = csv;
    r.rule.seed.number = data[2];
    choose_variant(&split_variants, data[2]);
    struct err err = {.text = ""};
    if (strlen(text) > 0 && !csv_want(csv, text, &err)) {
        MUST(err.text[0] != '\0');
    } else {
        r.batch = batch_new(&r.rule);
        MUST(r.batch != NULL && r.record.field != NULL);
        check_file(&r, how, chunk_lens[how % 8]);
        batch_free(r.batch);
    }
    free(file);
    free(r.key);
    free(r.room);
    free(r.record.field);
    free(csv);
    free(text);
    return 0;
}
