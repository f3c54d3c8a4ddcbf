/* SPDX-License-Identifier: MIT */
#include "keys/reading.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "keys/rule.h"

enum { TEXT_MOST = 4 * READING_FIELDS - 1 };

/* Byte i of the text of -f. */
static unsigned char text_byte(const struct reading *r, unsigned i)
{
    return (unsigned char)((uint32_t)r->field[i / 4] >> i % 4 * 8);
}

static bool has_text(const struct reading *r)
{
    return (r->how & (READING_CSV | READING_JSONL)) != 0;
}

/* The reading of CSV or lines of JSON. */
static struct reading reading_of_text(const struct key_rule *rule)
{
    const char *text = rule->wanted != NULL ? rule->wanted : "";
    size_t len = strlen(text);
    struct reading r = {.how = READING_KNOWN | READING_JSONL};
    if (rule->csv != NULL)
        r.how = READING_KNOWN | READING_CSV |
                (uint32_t)(unsigned char)rule->csv->delimiter << READING_DELIMITER_SHIFT;
    for (size_t i = 0; i < len && len <= TEXT_MOST; i++)
        r.field[i / 4] =
            (int32_t)((uint32_t)r.field[i / 4] | (uint32_t)(unsigned char)text[i] << i % 4 * 8);
    return len <= TEXT_MOST ? r : (struct reading){0};
}

struct reading reading_of(const struct key_rule *rule)
{
    struct reading r = {.how = READING_KNOWN};
    unsigned n = 0;
    while (rule->field[n] != 0 && n < KEY_FIELDS)
        n++;
    if (rule->given || rule->digested || n > READING_FIELDS)
        return (struct reading){0};
    if (rule->csv != NULL || rule->paths != NULL)
        return reading_of_text(rule);
    if (rule->terminator == 0)
        r.how |= READING_NUL;
    if (rule->comments)
        r.how |= READING_COMMENTS;
    if (n > 0 && rule->rest)
        r.how |= READING_REST;
    if (n > 0 && rule->whitespace)
        r.how |= READING_WHITESPACE;
    else if (n > 0)
        r.how |= (uint32_t)(unsigned char)rule->delimiter << READING_DELIMITER_SHIFT;
    memcpy(r.field, rule->field, n * sizeof *r.field);
    return r;
}

static unsigned delimiter(const struct reading *r)
{
    return r->how >> READING_DELIMITER_SHIFT & 0xff;
}

bool reading_is_valid(const struct reading *r)
{
    static const struct reading unknown;
    const uint32_t parted = READING_WHITESPACE | 0xffu << READING_DELIMITER_SHIFT;
    if ((r->how & READING_KNOWN) == 0)
        return memcmp(r, &unknown, sizeof unknown) == 0;
    if (has_text(r)) {
        unsigned len = 0;
        bool csv = (r->how & READING_CSV) != 0;
        while (len < TEXT_MOST && text_byte(r, len) != 0)
            len++;
        for (unsigned i = len; i < 4 * READING_FIELDS; i++)
            if (text_byte(r, i) != 0)
                return false;
        return csv ? (r->how & ~(READING_KNOWN | READING_CSV | 0xffu << READING_DELIMITER_SHIFT)) ==
                         0
                   : r->how == (READING_KNOWN | READING_JSONL);
    }
    bool whole = r->field[0] == 0;
    const uint32_t any = READING_KNOWN | READING_NUL | READING_COMMENTS;
    bool ok = (r->how & ~(any | READING_REST | parted)) == 0 &&
              !(whole && (r->how & (READING_REST | parted)) != 0) &&
              !((r->how & READING_WHITESPACE) != 0 && delimiter(r) != 0);
    for (unsigned i = 0; i < READING_FIELDS; i++) {
        ok = ok && r->field[i] >= -KEY_FIELD_MAX && r->field[i] <= KEY_FIELD_MAX;
        ok = ok && !(whole && r->field[i] != 0);
        whole = r->field[i] == 0;
    }
    return ok;
}

bool reading_differs(const struct reading *a, const struct reading *b)
{
    return (a->how & b->how & READING_KNOWN) != 0 &&
           (((a->how ^ b->how) & ~(uint32_t)READING_COMMENTS) != 0 ||
            memcmp(a->field, b->field, sizeof a->field) != 0);
}

__attribute__((format(printf, 2, 3))) static void append(char *text, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + len, READING_TEXT - len, fmt, ap);
    va_end(ap);
}

const char *reading_show(const struct reading *r, char *text)
{
    unsigned part = delimiter(r);
    text[0] = '\0';
    if ((r->how & READING_KNOWN) == 0)
        return text;
    if (has_text(r)) {
        append(text, (r->how & READING_CSV) != 0 ? "records of CSV" : "lines of JSON");
        for (unsigned i = 0; text_byte(r, i) != 0; i++)
            append(text, "%s%c", i == 0 ? ", -f " : "",
                   text_byte(r, i) < ' ' || text_byte(r, i) == 0x7f ? '?' : text_byte(r, i));
        if (part != 0 && part != ',')
            append(text,
                   part > ' ' && part <= '~' ? ", separated by '%c'" : ", separated by byte 0x%02x",
                   part);
        return text;
    }
    if (r->field[0] == 0)
        append(text, "whole");
    bool rest = (r->how & READING_REST) != 0;
    for (unsigned i = 0; i < READING_FIELDS && r->field[i] != 0; i++)
        append(text, "%s%d",
               i > 0                      ? ","
               : r->field[1] != 0 || rest ? "fields "
                                          : "field ",
               r->field[i]);
    append(text, "%s%s %s%s", rest ? "-" : "", r->field[0] != 0 ? " of" : "",
           (r->how & READING_NUL) != 0 ? "NUL-terminated records" : "lines",
           (r->how & READING_COMMENTS) != 0 ? " without comments" : "");
    if ((r->how & READING_WHITESPACE) != 0)
        append(text, ", separated by blanks");
    else if (part > ' ' && part <= '~')
        append(text, ", separated by '%c'", (int)part);
    else if (r->field[0] != 0 && part != '\t')
        append(text, ", separated by byte 0x%02x", part);
    return text;
}

bool reading_rule(const struct reading *r, struct key_rule *rule)
{
    bool nul = (r->how & READING_NUL) != 0;
    if ((r->how & READING_KNOWN) == 0 || nul != (rule->terminator == 0) || has_text(r) ||
        rule->csv != NULL || rule->paths != NULL)
        return false;
    memset(rule->field, 0, sizeof rule->field);
    memcpy(rule->field, r->field, sizeof r->field);
    rule->whitespace = (r->how & READING_WHITESPACE) != 0;
    rule->rest = (r->how & READING_REST) != 0;
    rule->delimiter = (char)delimiter(r);
    return true;
}

static void append_delimiter(char *text, unsigned part, unsigned usual)
{
    bool plain = part > ' ' && part <= '~' && strchr("|&;<>()$`\\\"'*?[#~=%!{}", (int)part) == NULL;
    if (part == usual)
        return;
    if (plain)
        append(text, " -d%c", (int)part);
    else if (part == '\'')
        append(text, " -d\\'");
    else if (part > ' ' && part <= '~')
        append(text, " -d'%c'", (int)part);
    else
        append(text, " -d \"$(printf '\\%03o')\"", part);
}

/* " -f .url"; nothing for a whole value. */
static void append_names(char *text, const struct reading *r)
{
    bool plain = true;
    for (unsigned i = 0; text_byte(r, i) != 0; i++)
        plain = plain && (isalnum(text_byte(r, i)) || strchr("._-,", text_byte(r, i)) != NULL);
    append(text, text_byte(r, 0) == 0 ? "" : plain ? " -f " : " -f '");
    for (unsigned i = 0; text_byte(r, i) != 0; i++)
        append(text, text_byte(r, i) == '\'' ? "'\\%c'" : "%c", text_byte(r, i));
    append(text, plain ? "" : "'");
}

const char *reading_options(const struct reading *r, char *text)
{
    text[0] = '\0';
    if ((r->how & READING_CSV) != 0) {
        append(text, " --csv");
        append_delimiter(text, delimiter(r), ',');
    } else if (has_text(r)) {
        append(text, " --jsonl");
    } else if ((r->how & READING_WHITESPACE) != 0) {
        append(text, " -w");
    } else if (r->field[0] != 0) {
        append_delimiter(text, delimiter(r), '\t');
    }
    if (has_text(r)) {
        append_names(text, r);
        return text;
    }
    append(text, " -f ");
    for (unsigned i = 0; i < READING_FIELDS && (i == 0 || r->field[i] != 0); i++)
        append(text, "%s%d", i > 0 ? "," : "", r->field[i]);
    append(text, "%s", (r->how & READING_REST) != 0 ? "-" : "");
    return text;
}
