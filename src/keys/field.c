/* SPDX-License-Identifier: MIT */
#include "keys/field.h"

#include <string.h>

#include "base/bytes.h"

/* Narrows *key to its field number `field`. */
static bool take_delimited(struct slice *key, int field, char delimiter)
{
    const char *p = key->data, *end = p + key->len;
    for (; field > 1; field--) {
        const char *d = memchr(p, delimiter, (size_t)(end - p));
        if (!d)
            return false;
        p = d + 1;
    }
    for (; field < -1; field++) {
        const char *d = bytes_last(p, delimiter, (size_t)(end - p));
        if (!d)
            return false;
        end = d;
    }
    if (field == 1) {
        const char *d = memchr(p, delimiter, (size_t)(end - p));
        end = d ? d : end;
    } else {
        const char *d = bytes_last(p, delimiter, (size_t)(end - p));
        p = d ? d + 1 : p;
    }
    key->data = p;
    key->len = (size_t)(end - p);
    return true;
}

/* The same if runs of blanks separate fields. Blanks at the beginning and at the end of the record
 * are ignored. */
static bool take_word(struct slice *key, int field)
{
    const char *p = key->data, *end = p + key->len, *begin = p, *stop = end;
    for (; field > 0; field--) {
        for (begin = p; begin < end && byte_is_blank(*begin); begin++)
            ;
        for (p = begin; p < end && !byte_is_blank(*p); p++)
            ;
        stop = p;
    }
    for (; field < 0; field++) {
        for (stop = end; stop > p && byte_is_blank(stop[-1]); stop--)
            ;
        for (end = stop; end > p && !byte_is_blank(end[-1]); end--)
            ;
        begin = end;
    }
    key->data = begin;
    key->len = (size_t)(stop - begin);
    return begin < stop;
}

static bool cut_field(struct slice *key, int field, const struct key_rule *rule)
{
    return rule->whitespace ? take_word(key, field) : take_delimited(key, field, rule->delimiter);
}

/* Writes the words of [from, end) to `to`, each after a blank. Returns the end of the last. */
static char *join_words(const char *from, const char *end, char *to)
{
    struct slice word = {from, (size_t)(end - from)};
    while (take_word(&word, 1)) {
        *to++ = ' ';
        memcpy(to, word.data, word.len);
        to += word.len;
        word.data += word.len;
        word.len = (size_t)(end - word.data);
    }
    return to;
}

/* Joins several fields to make the key at *to, and advances *to. Returns 0, or the first field that
 * is missing. */
static int join_fields(struct slice *key, const struct key_rule *rule, char **to)
{
    char *at = *to;
    const char *end = key->data + key->len;
    for (const int *field = rule->field; *field != 0; field++) {
        struct slice part = *key;
        bool last = field[1] == 0;
        if (!cut_field(&part, *field, rule))
            return *field;
        if (last && rule->rest && !rule->whitespace)
            part.len = (size_t)(end - part.data);
        if (field > rule->field)
            *at++ = rule->whitespace ? ' ' : rule->delimiter;
        memcpy(at, part.data, part.len);
        at += part.len;
        if (last && rule->rest && rule->whitespace)
            at = join_words(part.data + part.len, end, at);
    }
    *key = (struct slice){*to, (size_t)(at - *to)};
    *to = at;
    return 0;
}

bool field_joins(const struct key_rule *rule)
{
    return rule->field[0] != 0 && (rule->field[1] != 0 || (rule->rest && rule->whitespace));
}

/* Are all the fields empty of which the key was made? */
static bool is_empty(struct slice key, char delimiter)
{
    size_t i = 0;
    while (i < key.len && key.data[i] == delimiter)
        i++;
    return i == key.len;
}

enum key_verdict field_take(struct slice *key, const struct key_rule *rule, char **to, int *missing)
{
    const char *end = key->data + key->len;
    *missing = 0;
    if (field_joins(rule))
        *missing = join_fields(key, rule, to);
    else if (!cut_field(key, rule->field[0], rule))
        *missing = rule->field[0];
    else if (rule->rest)
        key->len = (size_t)(end - key->data);
    if (*missing != 0)
        return KEY_NO_FIELD;
    return !rule->whitespace && is_empty(*key, rule->delimiter) ? KEY_NO_VALUE : KEY_GOOD;
}
