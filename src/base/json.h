/*
 * JSON to a stdio stream, on one line: strings escaped (bytes that are not UTF-8 become U+FFFD),
 * numbers with all the digits that tell a double from its neighbours, commas where they belong.
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
    bool first; /* nothing yet in the innermost object or array */
    bool keyed; /* a key waits for its value */
};

void json_open(struct json *j, char bracket);  /* '{' or '[' as an array element or at the top */
void json_close(struct json *j, char bracket); /* '}' or ']'; a newline after the outermost */
void json_key(struct json *j, const char *key); /* the next value or json_open belongs to it */
void json_string(struct json *j, const char *s);
void json_uint(struct json *j, uint64_t v);
void json_double(struct json *j, double v); /* null for NaN and infinities */
void json_bool(struct json *j, bool v);
void json_null(struct json *j);

#endif
