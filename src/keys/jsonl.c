/* SPDX-License-Identifier: MIT */
#include "keys/jsonl.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

/* ---- Strings. Functions that look for an end return NULL if there is none. */

/* The first byte from p on that is not plain text in a string: a quote, a backslash, a control
 * byte, or one of 0x80 and above; `end` if there is none. */
static inline const char *skip_plain(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
                  blank = _mm_set1_epi8(32);
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const void *)p);
        /* As signed bytes, those of 0x80 and above are below a blank, as control bytes are. */
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
        int bits = _mm_movemask_epi8(_mm_or_si128(hit, _mm_cmplt_epi8(v, blank)));
        if (bits != 0)
            return p + __builtin_ctz((unsigned)bits);
    }
#elif defined __aarch64__
    for (; end - p >= 16; p += 16) {
        int8x16_t v = vld1q_s8((const int8_t *)p);
        uint8x16_t hit = vorrq_u8(vceqq_s8(v, vdupq_n_s8('"')), vceqq_s8(v, vdupq_n_s8('\\')));
        hit = vorrq_u8(hit, vcltq_s8(v, vdupq_n_s8(32)));
        uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(hit), 4);
        uint64_t bits = vget_lane_u64(vreinterpret_u64_u8(nibbles), 0);
        if (bits != 0)
            return p + __builtin_ctzll(bits) / 4;
    }
#endif
    while (p < end && (signed char)*p >= 32 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* Bytes of the UTF-8 sequence at p < end (RFC 3629, section 4); 0: it is none. */
static size_t sequence_len(const char *text, const char *end)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if ((size_t)(end - text) < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool surrogate = p[0] == 0xed && p[1] > 0x9f, beyond = p[0] == 0xf4 && p[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : len;
}

/* The number that four hexadecimal digits spell; -1: they are none. */
static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)p[i], low = c | 32;
        int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* Bytes of the escape at p, which is a backslash; 0: it is none. */
static size_t escape_len(const char *p, const char *end)
{
    if (end - p >= 2 && p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL)
        return 2;
    return end - p >= 6 && p[1] == 'u' && hex4(p + 2) >= 0 ? 6 : 0;
}

/* string_end for a string in which not all is plain text. Its own function, so that string_end is
 * short enough to become part of its callers. */
static __attribute__((noinline)) const char *string_rest(const char *p, const char *end,
                                                         bool *escaped, const char **bad)
{
    while (p < end && *p != '"') {
        size_t n = 0;
        if (*p == '\\')
            *escaped = true, n = escape_len(p, end);
        else if ((unsigned char)*p >= 0x80)
            n = sequence_len(p, end);
        if (n == 0)
            break;
        p = skip_plain(p + n, end);
    }
    if (p < end && *p == '"')
        return p;
    *bad = p;
    return NULL;
}

/* The quote that ends the string whose text begins at p. *escaped: it has a backslash. */
static inline const char *string_end(const char *p, const char *end, bool *escaped,
                                     const char **bad)
{
    *escaped = false;
    p = skip_plain(p, end);
    return p < end && *p == '"' ? p : string_rest(p, end, escaped, bad);
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 63));
        }
        *to++ = (char)(0x80 | (c >> 6 & 63));
    }
    *to++ = (char)(0x80 | (c & 63));
    return to;
}

/* The character that the \u at *p spells, with the second half of a surrogate pair; moves *p behind
 * it. 0xd800 for half a pair. */
static unsigned unescape(const char **p, const char *end)
{
    unsigned high = (unsigned)hex4(*p + 2);
    *p += 6;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high > 0xdbff || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
        return 0xd800;
    unsigned low = (unsigned)hex4(*p + 2);
    if (low < 0xdc00 || low > 0xdfff)
        return 0xd800;
    *p += 6;
    return 0x10000 + ((high & 1023) << 10) + (low & 1023);
}

/* Decodes the text of a string that string_end accepted and returns the end of the result, which is
 * never longer. NULL: half a surrogate pair. */
static char *decode_string(const char *p, const char *end, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    while (p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((slash != NULL ? slash : end) - p);
        memcpy(to, p, plain);
        to += plain;
        p += plain;
        if (slash == NULL)
            break;
        if (p[1] != 'u') {
            *to++ = into[strchr(from, p[1]) - from];
            p += 2;
            continue;
        }
        unsigned c = unescape(&p, end);
        if (c == 0xd800)
            return NULL;
        to = put_utf8(to, c);
    }
    return to;
}

/* ---- Numbers and words. */

static inline bool is_decimal(char c)
{
    return c >= '0' && c <= '9';
}

static inline const char *digits_end(const char *p, const char *end)
{
    const char *from = p;
    while (p < end && is_decimal(*p))
        p++;
    return p > from ? p : NULL;
}

static inline const char *number_end(const char *p, const char *end)
{
    p += *p == '-';
    p = p < end && *p == '0' ? p + 1 : digits_end(p, end);
    if (p != NULL && p < end && *p == '.')
        p = digits_end(p + 1, end);
    if (p != NULL && p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p = digits_end(p + (p < end && (*p == '+' || *p == '-')), end);
    }
    return p;
}

static inline const char *word_end(const char *p, const char *end)
{
    const char *word = *p == 't' ? "true" : *p == 'f' ? "false" : "null";
    size_t len = *p == 'f' ? 5 : 4;
    return (size_t)(end - p) >= len && memcmp(p, word, len) == 0 ? p + len : NULL;
}

static inline const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

/* ---- Finding. */

/* The end of the string, number or word at p; if it is `wanted`, it becomes the key. */
static inline const char *scalar(struct jsonl *found, const char *p, const char *end, bool wanted,
                                 char *room)
{
    bool escaped = false, is_string = *p == '"';
    const char *from = p + is_string, *stop;
    if (is_string)
        stop = string_end(from, end, &escaped, &found->bad);
    else
        stop = *p == '-' || is_decimal(*p) ? number_end(p, end) : word_end(p, end);
    if (stop == NULL) {
        found->bad = is_string ? found->bad : p;
        return NULL;
    }
    if (wanted) {
        *found = (struct jsonl){JSONL_KEY, from, (size_t)(stop - from), NULL};
        if (*p == 'n')
            found->is = JSONL_NULL;
        if (escaped) {
            const char *to = decode_string(from, stop, room);
            found->is = to != NULL ? JSONL_KEY : JSONL_SURROGATE;
            found->key = room;
            found->len = to != NULL ? (size_t)(to - room) : 0;
        }
    }
    return stop + is_string;
}

/* Is this text of a string the name of the path's step, which has one? */
static bool is_name(const struct jsonl_path *path, unsigned step, const char *text, const char *end,
                    bool escaped, char *room)
{
    const char *name = path->step[step].name;
    size_t len = path->step[step].len;
    if (escaped) {
        end = decode_string(text, end, room);
        text = room;
    }
    return end != NULL && (size_t)(end - text) == len && memcmp(text, name, len) == 0;
}

static struct jsonl broken_at(const char *bad)
{
    return (struct jsonl){.is = JSONL_BROKEN, .bad = bad};
}

struct jsonl jsonl_find(const struct jsonl_path *path, const char *line, size_t len, char *room)
{
    /* Bit i of `objects`: open container i is an object. The outermost `on` of them lie on the
     * path; `index` counts the elements of the last of these if it is an array. Position and end
     * are locals, not members of a struct: it takes half the time. */
    uint64_t objects[(JSONL_DEPTH + 63) / 64] = {0};
    const char *p = line, *end = line + len;
    struct jsonl found = {.is = JSONL_MISSING};
    unsigned depth = 0, on = 0;
    size_t index = 0;
    bool on_path = true; /* the value that begins at p lies on the path */
    for (;;) {
        p = skip_blanks(p, end);
        if (p == end)
            return broken_at(p);
        bool here = on_path && on == path->n, opened = *p == '{' || *p == '[';
        if (on_path)
            found =
                (struct jsonl){.is = JSONL_MISSING}; /* a later member replaces an earlier one */
        if (opened) {
            bool object = *p == '{';
            if (depth == JSONL_DEPTH)
                return broken_at(p);
            if (here)
                found.is = JSONL_CONTAINER;
            uint64_t bit = UINT64_C(1) << depth % 64, *word = &objects[depth / 64];
            *word = object ? *word | bit : *word & ~bit;
            depth++;
            on_path = on_path && !here && (path->step[on].name != NULL) == object;
            if (on_path) {
                on++;
                index = 0;
            }
            p++;
        } else if ((p = scalar(&found, p, end, here, room)) == NULL) {
            return broken_at(found.bad);
        }
        /* Behind a value, or behind the bracket that opened a container. */
        bool object;
        for (;; opened = false) {
            p = skip_blanks(p, end);
            if (depth == 0)
                return p == end ? found : broken_at(p);
            if (p == end)
                return broken_at(p);
            object = objects[(depth - 1) / 64] >> (depth - 1) % 64 & 1;
            if (*p != (object ? '}' : ']'))
                break;
            p++;
            if (depth == on && --on > 0)
                index = path->step[on - 1].index;
            depth--;
        }
        bool inner = depth == on; /* the innermost container lies on the path */
        if (!opened) {
            if (*p != ',')
                return broken_at(p);
            p = skip_blanks(p + 1, end);
            index += inner;
        }
        if (!object) {
            on_path = inner && path->step[on - 1].index == index;
            continue;
        }
        bool escaped;
        if (p == end || *p != '"')
            return broken_at(p);
        const char *name = ++p;
        if ((p = string_end(name, end, &escaped, &found.bad)) == NULL)
            return broken_at(found.bad);
        /* Behind a key that was decoded: it may be the one that counts. */
        char *spare = found.key == room ? room + found.len : room;
        on_path = inner && is_name(path, on - 1, name, p, escaped, spare);
        p = skip_blanks(p + 1, end);
        if (p == end || *p != ':')
            return broken_at(p);
        p++;
    }
}

static bool has_word(const char *p, const char *end, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(end - p) >= len && memcmp(p, word, len) == 0;
}

bool jsonl_why(const struct jsonl *found, const char *line, size_t len, struct err *err)
{
    static const char *const why[] = {
        [JSONL_MISSING] = "has no such member",
        [JSONL_NULL] = "has null there",
        [JSONL_CONTAINER] = "has an object or an array there",
        [JSONL_SURROGATE] = "has half a surrogate pair there, which UTF-8 cannot spell",
    };
    if (found->is != JSONL_BROKEN)
        return fail(err, "%s%s", why[found->is],
                    found->is == JSONL_MISSING && line[0] == '[' ? ": it is an array" : "");
    const char *bad = found->bad, *end = line + len;
    size_t column = (size_t)(bad - line) + 1;
    if (bad == end)
        return fail(err, "is not JSON: it ends too early (column %zu)%s", column,
                    len == 1 ? "; each value must be on one line" : "");
    if (has_word(bad, end, "NaN") || has_word(bad, end, "Infinity") ||
        has_word(bad, end, "-Infinity"))
        return fail(err, "is not JSON: NaN and Infinity are no numbers there (column %zu)", column);
    if (*bad == '{' || *bad == '[')
        return fail(err, "is not JSON of at most %d levels (column %zu)", JSONL_DEPTH, column);
    return fail(err, "is not JSON (column %zu)", column);
}

/* ---- Paths. */

/* Reads a name in quotes at *p and moves *p behind it; returns its end in `to`. */
static char *quoted_name(const char **p, char *to)
{
    bool escaped;
    const char *bad, *from = *p + 1, *stop = string_end(from, from + strlen(from), &escaped, &bad);
    if (stop == NULL)
        return NULL;
    *p = stop + 1;
    return decode_string(from, stop, to);
}

static bool fail_path(const char *text, size_t at, const char *why, struct err *err)
{
    return fail(
        err,
        "'%s' is no path to a value in JSON: %s (column %zu); it is .NAME.NAME[NUMBER], with "
        "other names in quotes, as .\"a b\"; for more, use jq(1)",
        text, why, at + 1);
}

bool jsonl_path(struct jsonl_path *path, const char **text, struct err *err)
{
    const char *p = *text, *all = p;
    char *to = path->names;
    path->n = 0;
    if (*p != '.' && *p != '[')
        return fail_path(all, 0, "it does not begin with a dot", err);
    if (p[0] == '.' && (p[1] == '\0' || p[1] == ',')) {
        *text = p + 1;
        return true;
    }
    for (; *p != '\0' && *p != ','; path->n++) {
        const char *from = p;
        bool bracket = *p == '[' || (*p == '.' && p[1] == '[');
        if (path->n == JSONL_STEPS)
            return fail_path(all, (size_t)(p - all), "it has too many steps", err);
        if (*p != '.' && !bracket)
            return fail_path(all, (size_t)(p - all), "a dot or [ is missing", err);
        /* All names together are shorter than the text. */
        if ((size_t)(to - path->names) + strlen(p) >= JSONL_NAMES)
            return fail_path(all, (size_t)(p - all), "it is too long", err);
        p += bracket && *p == '.' ? 2 : 1;
        path->step[path->n].name = NULL;
        path->step[path->n].index = 0;
        if (bracket && is_decimal(*p)) {
            size_t index = 0;
            for (; is_decimal(*p) && index <= SIZE_MAX / 10 - 1; p++)
                index = 10 * index + (size_t)(*p - '0');
            path->step[path->n].index = index;
        } else {
            char *name = to;
            const char *start = p;
            if (*p == '"') {
                to = quoted_name(&p, to);
                if (to == NULL)
                    return fail_path(all, (size_t)(start - all), "this is no string of JSON", err);
            } else if (!bracket) {
                p += strcspn(p, ".[]\", \t");
                memcpy(to, start, (size_t)(p - start));
                to += p - start;
            }
            if (p == start)
                return fail_path(all, (size_t)(from - all), "a name or a number is missing", err);
            path->step[path->n].name = name;
            path->step[path->n].len = (size_t)(to - name);
        }
        if (bracket && *p++ != ']')
            return fail_path(all, (size_t)(p - 1 - all), "] is missing", err);
    }
    *text = p;
    return true;
}

bool jsonl_same(const struct jsonl_path *a, const struct jsonl_path *b)
{
    bool same = a->n == b->n;
    for (unsigned i = 0; same && i < a->n; i++)
        same = a->step[i].name == NULL
                   ? b->step[i].name == NULL && a->step[i].index == b->step[i].index
                   : b->step[i].name != NULL && a->step[i].len == b->step[i].len &&
                         memcmp(a->step[i].name, b->step[i].name, a->step[i].len) == 0;
    return same;
}
