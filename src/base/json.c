/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/visible.h"

/* Writes a comma, unless the value is the first of its object or array or follows its key. */
static void begin_value(struct json *j)
{
    if (j->depth > 0 && !j->first && !j->keyed)
        putc(',', j->out);
    j->first = false;
    j->keyed = false;
}

/* Ends the line after an outermost value. */
static void end_value(struct json *j)
{
    if (j->depth == 0)
        putc('\n', j->out);
}

void json_open(struct json *j, char bracket)
{
    begin_value(j);
    putc(bracket, j->out);
    j->depth++;
    j->first = true;
}

void json_close(struct json *j, char bracket)
{
    putc(bracket, j->out);
    j->depth--;
    j->first = false;
    end_value(j);
}

static void put_escaped(FILE *out, unsigned char c)
{
    static const char named[] = "\"\\\b\t\n\f\r", letters[] = "\"\\btnfr";
    const char *at = strchr(named, c);
    if (at != NULL)
        fprintf(out, "\\%c", letters[at - named]);
    else
        fprintf(out, "\\u%04x", c);
}

static void put_string(FILE *out, const char *s)
{
    putc('"', out);
    for (size_t left = strlen(s); left > 0;) {
        size_t n = utf8_len(s, left);
        unsigned char c = (unsigned char)*s;
        if (n == 0)
            fputs("\xef\xbf\xbd", out);
        else if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            put_escaped(out, c);
        else
            fwrite(s, 1, n, out);
        n += n == 0;
        s += n;
        left -= n;
    }
    putc('"', out);
}

void json_key(struct json *j, const char *key)
{
    begin_value(j);
    put_string(j->out, key);
    putc(':', j->out);
    j->keyed = true;
}

void json_string(struct json *j, const char *s)
{
    begin_value(j);
    put_string(j->out, s);
    end_value(j);
}

void json_uint(struct json *j, uint64_t v)
{
    begin_value(j);
    fprintf(j->out, "%" PRIu64, v);
    end_value(j);
}

void json_double(struct json *j, double v)
{
    if (!isfinite(v)) {
        json_null(j);
        return;
    }
    /* 15 digits are enough for most doubles, 17 for all. */
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    begin_value(j);
    fputs(text, j->out);
    end_value(j);
}

void json_bool(struct json *j, bool v)
{
    begin_value(j);
    fputs(v ? "true" : "false", j->out);
    end_value(j);
}

void json_null(struct json *j)
{
    begin_value(j);
    fputs("null", j->out);
    end_value(j);
}
