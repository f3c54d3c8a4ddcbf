/* SPDX-License-Identifier: MIT
 * How keys were cut from records when a filter was made: whole records or fields of them, and what
 * ends records and fields. A filter's header has it, so that a run that reads its keys in another
 * way, and so finds none, can be told. It is advice: it may be unknown, and keys of one set may
 * well come from different files.
 */
#ifndef KEYS_READING_H
#define KEYS_READING_H

#include <stdbool.h>
#include <stdint.h>

enum {
    READING_FIELDS = 15, /* with `how`, 64 bytes of the header (seen(5)) */
    READING_KNOWN = 1 << 0,
    READING_NUL = 1 << 1,        /* records end with NUL, not a newline */
    READING_WHITESPACE = 1 << 2, /* runs of blanks and tabs part fields, not a delimiter */
    READING_REST = 1 << 3,       /* the fields after the last one follow it */
    READING_COMMENTS = 1 << 4,   /* records that begin with # were left out */
    READING_CSV = 1 << 5,        /* CSV, or ... */
    READING_JSONL = 1 << 6, /* ... lines of JSON: `field` has the text of -f, four bytes each */
    READING_DELIMITER_SHIFT = 8, /* bits 8 to 15: the delimiter; 0 without fields or one */
};

struct key_rule; /* keys/rule.h */

/* All zero: unknown. */
struct reading {
    uint32_t how;
    int32_t field[READING_FIELDS]; /* as in struct key_rule; zeros follow the last. Of CSV and JSON:
                                      a text, its first byte the lowest */
};

/* Unknown for keys of the command line, for ready digests, whose records have little in common with
 * those of keys, and for more fields, or a longer text of -f, than fit. */
struct reading reading_of(const struct key_rule *rule);

/* Can reading_of give it? For readings from a file. */
bool reading_is_valid(const struct reading *r);

/* Are both known, and do they give other keys of the same record? */
bool reading_differs(const struct reading *a, const struct reading *b);

/* The longest text has "fields ", 15 numbers of at most 8 characters with commas between them, a
 * hyphen, and " of NUL-terminated records without comments, separated by byte 0xff"; or "--csv", a
 * delimiter, and 59 bytes of which each may become four. */
enum { READING_TEXT = 300 };

/* "whole lines", "fields 1,3 of NUL-terminated records, separated by ','"; "" if it is unknown.
 * Writes READING_TEXT bytes at most; returns `text`. */
const char *reading_show(const struct reading *r, char *text);

/* Makes the rule cut keys in that way. False: the way is unknown, or records end with another byte.
 */
bool reading_rule(const struct reading *r, struct key_rule *rule);

/* " -d, -f 2", " --csv -f url": the options that cut keys in that way. Writes READING_TEXT bytes at
 * most; returns `text`. */
const char *reading_options(const struct reading *r, char *text);

#endif
