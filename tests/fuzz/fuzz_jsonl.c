/* SPDX-License-Identifier: MIT
 * Any bytes as lines of JSON: what is found at the paths, or the byte that breaks a line, must be
 * what a reader finds that descends into each value, one byte after the other. The input is a byte
 * that makes the seed, a line that is the list of paths, and the lines.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys/batch.h"
#include "keys/xxh3.h"
#include "must.h"

enum { HEAD = 1, MOST = 60000 };

/* ---- The second reader. */

struct reader {
    const struct jsonl_path *path;
    const char *p, *end;
    enum jsonl_is is;
    char *key, *text; /* of `len`; of the last string */
    size_t len, text_len;
    bool half; /* the last string has half a surrogate pair */
    unsigned depth;
};

static void skip(struct reader *r)
{
    while (r->p < r->end && strchr(" \t\r\n", *r->p) != NULL && *r->p != '\0')
        r->p++;
}

static bool take(struct reader *r, char c)
{
    bool there = r->p < r->end && *r->p == c;
    r->p += there;
    return there;
}

static void put(struct reader *r, uint32_t c)
{
    char *to = r->text + r->text_len;
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 + c / 64);
        *to++ = (char)(0x80 + c % 64);
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 + c / 4096);
        *to++ = (char)(0x80 + c / 64 % 64);
        *to++ = (char)(0x80 + c % 64);
    } else {
        *to++ = (char)(0xf0 + c / 262144);
        *to++ = (char)(0x80 + c / 4096 % 64);
        *to++ = (char)(0x80 + c / 64 % 64);
        *to++ = (char)(0x80 + c % 64);
    }
    r->text_len = (size_t)(to - r->text);
}

/* The value of the \uXXXX at p; -1: it is none. */
static long unit_at(const char *p, const char *end)
{
    long v = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *d = p[i] != '\0' ? strchr(digits, p[i]) : NULL;
        if (d == NULL)
            return -1;
        v = 16 * v + (d - digits) % 16;
    }
    return v;
}

static bool take_escape(struct reader *r)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    long unit = unit_at(r->p, r->end);
    if (unit >= 0) {
        long low = unit >= 0xd800 && unit < 0xdc00 ? unit_at(r->p + 6, r->end) : -1;
        r->p += 6;
        if (low >= 0xdc00 && low < 0xe000) {
            r->p += 6;
            unit = 0x10000 + (unit - 0xd800) * 0x400 + low - 0xdc00;
        }
        r->half |= unit >= 0xd800 && unit < 0xe000;
        put(r, (uint32_t)unit);
        return true;
    }
    const char *name = r->end - r->p >= 2 && r->p[1] != '\0' ? strchr(names, r->p[1]) : NULL;
    if (name == NULL)
        return false;
    put(r, (uint32_t)values[name - names]);
    r->p += 2;
    return true;
}

static bool take_character(struct reader *r)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    unsigned first = (unsigned char)*r->p;
    int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (first < 32 || (first >= 0x80 && first < 0xc0) || first >= 0xf8 || r->end - r->p <= more)
        return false;
    uint32_t c = more == 0 ? first : first & (0x3fU >> more);
    for (int i = 1; i <= more; i++) {
        if (((unsigned char)r->p[i] & 0xc0) != 0x80)
            return false;
        c = c * 64 + (r->p[i] & 0x3f);
    }
    if (c < least[more] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return false;
    put(r, c);
    r->p += more + 1;
    return true;
}

/* The string whose text begins at p. */
static bool take_string(struct reader *r)
{
    r->text_len = 0;
    r->half = false;
    while (!take(r, '"'))
        if (r->p == r->end || !(*r->p == '\\' ? take_escape(r) : take_character(r)))
            return false;
    return true;
}

static bool take_digits(struct reader *r)
{
    const char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > from;
}

static bool take_number(struct reader *r)
{
    (void)take(r, '-');
    if (!take(r, '0') && !take_digits(r))
        return false;
    if (take(r, '.') && !take_digits(r))
        return false;
    if (take(r, 'e') || take(r, 'E')) {
        (void)(take(r, '+') || take(r, '-'));
        return take_digits(r);
    }
    return true;
}

static bool take_word(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(r->end - r->p) >= len && memcmp(r->p, words[i], len) == 0) {
            r->p += len;
            return true;
        }
    }
    return false;
}

/* The value of a string, a number or a word at p; it is the key if `here`. */
static bool take_scalar(struct reader *r, bool here)
{
    const char *from = r->p;
    bool string = take(r, '"');
    bool ok = string ? take_string(r) : take_number(r);
    if (!ok && !string) {
        r->p = from;
        ok = take_word(r);
    }
    if (!ok || !here)
        return ok;
    r->is = string && r->half ? JSONL_SURROGATE : *from == 'n' ? JSONL_NULL : JSONL_KEY;
    r->len = string ? r->text_len : (size_t)(r->p - from);
    memcpy(r->key, string ? r->text : from, r->len);
    return true;
}

/* The value at p. step: how many steps of the path lead to it; -1: it does not lie on the path. */
static bool take_value(struct reader *r, int step)
{
    skip(r);
    bool here = step == (int)r->path->n, leads = step >= 0 && !here;
    if (step >= 0)
        r->is = JSONL_MISSING;
    bool object = r->p < r->end && *r->p == '{';
    if (!object && (r->p == r->end || *r->p != '['))
        return r->p < r->end && take_scalar(r, here);
    if (r->depth++ == JSONL_DEPTH)
        return false;
    if (here)
        r->is = JSONL_CONTAINER;
    const char *name = leads ? r->path->step[step].name : NULL, close = object ? '}' : ']';
    size_t len = leads ? r->path->step[step].len : 0;
    r->p++;
    skip(r);
    if (take(r, close)) {
        r->depth--;
        return true;
    }
    for (size_t i = 0;; i++) {
        bool on = leads && !object && name == NULL && r->path->step[step].index == i;
        skip(r);
        if (object) {
            if (!take(r, '"') || !take_string(r))
                return false;
            on = name != NULL && !r->half && r->text_len == len && memcmp(r->text, name, len) == 0;
            skip(r);
            if (!take(r, ':'))
                return false;
        }
        if (!take_value(r, on ? step + 1 : -1))
            return false;
        skip(r);
        if (take(r, close)) {
            r->depth--;
            return true;
        }
        if (!take(r, ','))
            return false;
    }
}

static bool read_line(struct reader *r, const char *line, size_t len)
{
    r->p = line;
    r->end = line + len;
    r->is = JSONL_MISSING;
    r->depth = 0;
    if (!take_value(r, 0))
        return false;
    skip(r);
    return r->p == r->end;
}

/* ---- The comparison. */

static char *put_field(char *to, const char *text, size_t len)
{
    bool quotes = false;
    for (size_t i = 0; i < len; i++)
        quotes |= strchr("\",\n\r", text[i]) != NULL && text[i] != '\0';
    if (quotes)
        *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        *to++ = text[i];
        if (text[i] == '"')
            *to++ = '"';
    }
    if (quotes)
        *to++ = '"';
    return to;
}

/* The key of a line, at `to`; -1: none. Of several values, some may be empty. */
static long key_of(struct reader *r, const struct key_paths *paths, const char *line, size_t len,
                   char *to)
{
    char *room = malloc(len + !len), *at = to;
    bool good = true, empty = true;
    MUST(room != NULL);
    for (unsigned i = 0; i < paths->n; i++) {
        struct err err = {.text = ""};
        r->path = &paths->path[i];
        bool valid = read_line(r, line, len);
        struct jsonl found = jsonl_find(r->path, line, len, room);
        MUST(valid ? found.is == r->is : found.is == JSONL_BROKEN && found.bad == r->p);
        good &= valid && r->is == JSONL_KEY;
        if (!valid || r->is != JSONL_KEY) {
            MUST(!jsonl_why(&found, line, len, &err) && err.text[0] != '\0');
            continue;
        }
        MUST(found.len == r->len && memcmp(found.key, r->key, r->len) == 0);
        empty &= r->len == 0;
        if (i > 0)
            *at++ = ',';
        if (paths->n > 1) {
            at = put_field(at, r->key, r->len);
        } else {
            memcpy(at, r->key, r->len);
            at += r->len;
        }
    }
    free(room);
    return good && !empty ? (long)(at - to) : -1;
}

static void check_lines(const struct key_rule *rule, const char *text, size_t len)
{
    /* A string may be longer as a field of a key: each of up to KEY_FIELDS paths finds one. */
    struct reader r = {.key = malloc(len + 1), .text = malloc(len + 1)};
    char *key = malloc(KEY_FIELDS * (2 * len + 3));
    struct batch *b = batch_new(rule);
    MUST(r.key != NULL && r.text != NULL && key != NULL && b != NULL);
    const char *at = text, *end = text + len;
    b->first = true;
    batch_start(b, text, len);
    while (batch_next(b)) {
        for (size_t i = 0; i < b->n; i++) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            size_t n = (size_t)((stop != NULL ? stop : end) - at);
            MUST(b->record[i] == at && b->record[i + 1] == at + n + (stop != NULL));
            size_t mark = at == text && n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
            bool blank = n == mark || (n == mark + 1 && at[mark] == '\r');
            long key_len = blank ? -1 : key_of(&r, rule->paths, at + mark, n - mark, key);
            MUST((b->bad[i / 64] >> i % 64 & 1) == (key_len < 0));
            MUST(key_len < 0 || b->hash[i] == xxh3_bytes(key, (size_t)key_len, rule->seed.number));
            at = b->record[i + 1];
        }
    }
    MUST(at == end && !b->bad_record);
    batch_free(b);
    free(r.key);
    free(r.text);
    free(key);
}

static bool read_paths(struct key_paths *paths, const char *list, struct err *err)
{
    const char *at = list;
    for (paths->n = 0;; at++) {
        if (paths->n == KEY_FIELDS || !jsonl_path(&paths->path[paths->n], &at, err))
            return false;
        for (unsigned i = 0; i < paths->n; i++)
            if (jsonl_same(&paths->path[i], &paths->path[paths->n]))
                return false;
        paths->n++;
        MUST(*at == ',' || *at == '\0');
        if (*at == '\0')
            return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD || size > MOST)
        return 0;
    const uint8_t *list = data + HEAD, *stop = memchr(list, '\n', size - HEAD);
    if (stop == NULL)
        return 0;
    size_t list_len = (size_t)(stop - list), len = size - HEAD - list_len - 1;
    char *text = calloc(list_len + 1, 1), *lines = malloc(len + !len);
    struct key_paths *paths = calloc(1, sizeof *paths);
    struct err err = {.text = ""};
    MUST(text != NULL && lines != NULL && paths != NULL);
    memcpy(text, list, list_len);
    memcpy(lines, stop + 1, len);
    struct key_rule rule = {
        .paths = paths, .terminator = '\n', .skip_bad = true, .seed.number = data[0]};
    if (read_paths(paths, text, &err))
        check_lines(&rule, lines, len);
    free(text);
    free(lines);
    free(paths);
    return 0;
}
