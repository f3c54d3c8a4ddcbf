/* SPDX-License-Identifier: MIT */
#include "base/visible.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_control_char(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0];
    if (n == 1)
        return c < 0x20 || c == 0x7f;
    return n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0; /* U+0080 to U+009F */
}

static size_t show_byte(char *out, unsigned char c)
{
    static const char named[] = "\a\b\t\n\v\f\r", letters[] = "abtnvfr";
    const char *at = c != 0 ? strchr(named, c) : NULL;
    if (at != NULL) {
        out[0] = '\\';
        out[1] = letters[at - named];
        return 2;
    }
    return (size_t)snprintf(out, 5, "\\x%02x", c);
}

/* Copies the character of *len bytes at the start of s. */
static size_t show_character(char *out, const char *s, size_t *len)
{
    size_t n = 0;
    *len = utf8_len(s, strnlen(s, 4));
    if (*len > 0 && !is_control_char(s, *len)) {
        memcpy(out, s, *len);
        return *len;
    }
    *len += *len == 0;
    for (size_t i = 0; i < *len; i++)
        n += show_byte(out + n, (unsigned char)s[i]);
    return n;
}

size_t visible_copy(char *out, const char *s)
{
    size_t n = 0, len;
    for (; *s != '\0'; s += len)
        n += show_character(out + n, s, &len);
    out[n] = '\0';
    return n;
}

size_t visible_print(FILE *out, const char *s)
{
    size_t total = 0, len;
    for (; *s != '\0'; s += len) {
        char text[VISIBLE_ROOM(4)];
        size_t n = show_character(text, s, &len);
        fwrite(text, 1, n, out);
        total += n;
    }
    return total;
}

/* Is each character one that no shell treats specially, wherever it stands? */
static bool is_shell_word(const char *s)
{
    bool plain = s[0] != '\0';
    for (; *s != '\0'; s++)
        plain &= (unsigned char)*s >= 0x80 || isalnum((unsigned char)*s) || strchr("%+,-./:@_", *s);
    return plain;
}

static bool is_visible(const char *s)
{
    char *copy = malloc(VISIBLE_ROOM(strlen(s)));
    bool same = copy == NULL || visible_copy(copy, s) == strlen(s);
    free(copy);
    return same;
}

const char *visible_word(char out[static SHELL_ROOM], const char *prefix, const char *s)
{
    bool visible = is_visible(s), plain = visible && is_shell_word(s);
    const char *open = plain ? "" : visible ? "'" : "$'";
    size_t n = (size_t)snprintf(out, SHELL_ROOM, "%s%s", prefix, open);
    for (; *s != '\0' && n < SHELL_ROOM - 5; s++)
        if (*s == '\'')
            n += (size_t)snprintf(out + n, 5, "%s", visible ? "'\\''" : "\\'");
        else
            n += (size_t)snprintf(out + n, 3, "%s%c", *s == '\\' && !visible ? "\\" : "", *s);
    snprintf(out + n, 2, "%s", plain ? "" : "'");
    return *s == '\0' ? out : "(...)";
}
