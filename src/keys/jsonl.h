/* SPDX-License-Identifier: MIT
 * The value at a path in a line of JSON (RFC 8259): found in one pass, strictly and without a tree.
 *
 *     struct jsonl_path path;
 *     if (!jsonl_path(&path, &text, err)) ...              // text: ".user.id"
 *     struct jsonl found = jsonl_find(&path, line, len, room);
 *     if (found.is == JSONL_KEY) ... found.key, found.len ...
 *     else jsonl_why(&found, line, len, err) ...
 *
 * The whole line is checked: grammar, escapes, UTF-8 and depth. Of members of one name the last one
 * counts, also on the way to the value.
 */
#ifndef KEYS_JSONL_H
#define KEYS_JSONL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    JSONL_DEPTH =
        1000, /* arrays and objects within each other; Python's json stops near there, too */
    JSONL_STEPS = 16,
    JSONL_NAMES = 256, /* bytes of all names of a path */
};

/* .a.b[0]."x y"["z"]; a name needs quotes, those of a JSON string, if it has one of . [ ] " , or a
 * blank. A lone "." is the whole value. */
struct jsonl_path {
    struct {
        const char *name; /* in `names`; NULL: element `index` of an array */
        size_t len, index;
    } step[JSONL_STEPS];
    unsigned n;
    char names[JSONL_NAMES];
};

/* Reads the path at *text, up to its end or a comma outside of quotes, and moves *text there. The
 * path points into itself: it must not be copied. */
bool jsonl_path(struct jsonl_path *path, const char **text, struct err *err);

/* Do they lead to the same value? */
bool jsonl_same(const struct jsonl_path *a, const struct jsonl_path *b);

enum jsonl_is {
    JSONL_KEY,
    JSONL_MISSING,   /* no such member or element */
    JSONL_NULL,      /* null */
    JSONL_CONTAINER, /* an object or an array */
    JSONL_SURROGATE, /* a string with half a surrogate pair: no bytes of UTF-8 spell it */
    JSONL_BROKEN,    /* the line is not JSON */
};

struct jsonl {
    enum jsonl_is is;
    /* JSONL_KEY: the text of a string, its escapes decoded; a number as it is spelled; true or
     * false. In the line, or in `room`. */
    const char *key;
    size_t len;
    const char *bad; /* JSONL_BROKEN: the first byte that cannot stand there, or the line's end */
};

/* `room`: for `len` bytes; it may be used even if the key is not there. */
struct jsonl jsonl_find(const struct jsonl_path *path, const char *line, size_t len, char *room);

/* Why there is no key, fit to follow "record 7 ": "is not JSON (column 17)". It has no bytes of the
 * line. Returns false. */
bool jsonl_why(const struct jsonl *found, const char *line, size_t len, struct err *err);

#endif
