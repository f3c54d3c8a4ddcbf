/* SPDX-License-Identifier: MIT
 * Records of CSV (RFC 4180; split.h has the rule): which columns make the key, and where they are.
 * The first record of each file names its columns, so names become numbers for each file anew.
 *
 *     struct csv csv = {.delimiter = ','};
 *     if (!csv_want(&csv, "url,date", &err)) ...                     // of -f
 *     if (!csv_resolve(&csv, first_record, len, &columns, &err)) ...  // for each file
 *
 *     struct csv_cutter *c = csv_cutter_new();
 *     csv_begin(c, &csv, &columns, first, chunk.data, chunk.len);    // for each chunk
 *     n = csv_cut(c, record, CSV_BATCH);                             // until 0
 *     ... csv_key(c, i, record[i], record[i + 1], &key, &len, &to) ...
 *     if (csv_broken(c, &line, &err)) ...                            // behind the last record
 */
#ifndef KEYS_CSV_H
#define KEYS_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    CSV_FIELDS = 16,
    CSV_NAMES = 1024,         /* bytes of all names that are wanted */
    CSV_COLUMN_MAX = 1000000, /* the number of a column */
};

/* How records are read. */
struct csv {
    char delimiter;
    bool no_header; /* the first record is a record like others; columns have numbers only */
    /* What makes the key: columns by name, or by number from 1, or from -1 backwards. n 0: all. */
    unsigned n;
    bool rest; /* and all columns after the last one of these */
    struct {
        const char *name; /* NULL: by number */
        size_t len;
        int number;
    } want[CSV_FIELDS];
    char names[CSV_NAMES];
};

/* Parses a list of columns, itself a record of CSV with commas: names in quotes if they have commas
 * or quotes, or are numbers. N is a number, N-M a range, N- a column and all after it. The struct
 * points into itself and into the list: it must not be copied, and the list must stay. */
bool csv_want(struct csv *csv, const char *list, struct err *err);

/* The columns of one file. */
struct csv_columns {
    unsigned n;             /* each record has that many */
    unsigned used;          /* columns of the key, at least 1 */
    int column[CSV_FIELDS]; /* from 0; no two are the same */
    bool rest;
};

/* Finds them, given the file's first record, with its terminator or not. Fails if it breaks the
 * rule, or has not each of the names once; *err then lists the names that it has. */
bool csv_resolve(const struct csv *csv, const char *first, size_t len, struct csv_columns *columns,
                 struct err *err);

/* Bytes of the lines at p that are no records: they have no byte before their end. */
size_t csv_blank_lines(const char *p, size_t len);

/* The file's first record as one text that is the same for all spellings of its fields' values:
 * without quotes that are not needed, BOM and terminator. At most len bytes; returns their number.
 * The record keeps the rule. */
size_t csv_plain(char delimiter, const char *record, size_t len, char *to);

/* ---- Cutting a chunk of whole records. */

struct csv_cutter;

struct csv_cutter *csv_cutter_new(void); /* NULL: out of memory */
void csv_cutter_free(struct csv_cutter *c);

/* Begins a chunk. csv, columns and data must stay valid. `first`: it is the file's first, and may
 * begin with a byte order mark. */
void csv_begin(struct csv_cutter *c, const struct csv *csv, const struct csv_columns *columns,
               bool first, const char *data, size_t len);

/* Finds the next records: entry i + 1 of `record` becomes the end of record i; the caller has set
 * record[0] to where they begin. Returns their number, at most `max`; 0 at the end of the chunk, or
 * before a record that breaks the rule. `max` is at most CSV_BATCH. */
enum { CSV_BATCH = 256 };
size_t csv_cut(struct csv_cutter *c, const char **record, size_t max);

enum csv_is {
    CSV_KEY,
    CSV_EMPTY_LINE, /* no record */
    CSV_NO_VALUE,   /* all fields of the key are empty */
    CSV_COLUMNS,    /* more or fewer fields than the first record: csv_fields */
};

/* The key of record i of the last csv_cut: a field's value; or several, as a record of CSV with the
 * quotes that are needed. In the record, or at *to, which has room for the record's bytes and moves
 * behind the key. */
enum csv_is csv_key(const struct csv_cutter *c, size_t i, const char *record, const char *end,
                    const char **key, size_t *len, char **to);
unsigned csv_fields(const struct csv_cutter *c, size_t i);

/* Newlines between quotes, in the records that were cut. */
uint64_t csv_newlines(const struct csv_cutter *c);

/* Did a quote break the rule, behind the last record that was cut? Then *line is its line, counted
 * from 0 at the chunk's begin, and *err the reason. Call it when csv_cut has returned 0. */
bool csv_broken(const struct csv_cutter *c, uint64_t *line, struct err *err);

#endif
