/* SPDX-License-Identifier: MIT
 * Writes JSON to a stdio stream, each value on one line. Strings are escaped; bytes that are not
 * UTF-8 become U+FFFD. Numbers have all digits that a double needs. Commas are added where needed.
 * Begin with `struct json j = {.out = stdout};`. Errors stay in the stream, for ferror.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;
    bool first; /* the innermost object or array is still empty */
    bool keyed; /* a key was written, its value not yet */
};

void json_open(struct json *j, char bracket);   /* '{' or '[' as an array element or at the top */
void json_close(struct json *j, char bracket);  /* '}' or ']'; a newline after the outermost */
void json_key(struct json *j, const char *key); /* names the next value or json_open */
void json_string(struct json *j, const char *s);
void json_uint(struct json *j, uint64_t v);
void json_double(struct json *j, double v); /* null for NaN and infinities */
void json_bool(struct json *j, bool v);
void json_null(struct json *j);

#endif
