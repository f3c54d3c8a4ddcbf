#include "keys/encode.h"

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"

/* The number of ASCII bytes at the start of s. */
static size_t ascii_len(const char *s, size_t len)
{
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t high = get_le64(s + i) & UINT64_C(0x8080808080808080);
        if (high != 0)
            return i + (size_t)__builtin_ctzll(high) / 8;
    }
    while (i < len && !(s[i] & 0x80))
        i++;
    return i;
}

/* The number of UTF-16 code units of s. SIZE_MAX if it is not UTF-8. */
static size_t utf16_len(const char *s, size_t len)
{
    size_t units = 0;
    for (size_t i = 0; i < len;) {
        size_t ascii = ascii_len(s + i, len - i);
        units += ascii;
        i += ascii;
        while (i < len && s[i] & 0x80) {
            size_t n = utf8_len(s + i, len - i);
            if (n == 0)
                return SIZE_MAX;
            units += n == 4 ? 2 : 1;
            i += n;
        }
    }
    return units;
}

/* The character of the n = utf8_len(s) bytes at s. */
static uint32_t code_point(const char *s, size_t n)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = (unsigned char)s[0] & first[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

/* The surrogates of a character above U+FFFF. */
static uint32_t high_surrogate(uint32_t c)
{
    return 0xd800 | (c - 0x10000) >> 10;
}

static uint32_t low_surrogate(uint32_t c)
{
    return 0xdc00 | (c & 0x3ff);
}

static const char *encode_utf8(const char *key, size_t len, char *out, size_t *out_len)
{
    (void)out;
    *out_len = len;
    return utf16_len(key, len) == SIZE_MAX ? NULL : key;
}

static char *put_unit(char *to, uint32_t unit)
{
    to[0] = (char)unit;
    to[1] = (char)(unit >> 8);
    return to + 2;
}

static const char *encode_utf16(const char *key, size_t len, char *out, size_t *out_len)
{
    char *to = out;
    for (size_t i = 0; i < len;) {
        size_t ascii = ascii_len(key + i, len - i);
        for (size_t j = 0; j < ascii; j++) {
            to[2 * j] = key[i + j];
            to[2 * j + 1] = 0;
        }
        to += 2 * ascii;
        i += ascii;
        while (i < len && key[i] & 0x80) {
            size_t n = utf8_len(key + i, len - i);
            if (n == 0)
                return NULL;
            uint32_t c = code_point(key + i, n);
            if (n == 4) {
                to = put_unit(to, high_surrogate(c));
                to = put_unit(to, low_surrogate(c));
            } else {
                to = put_unit(to, c);
            }
            i += n;
        }
    }
    *out_len = (size_t)(to - out);
    return out;
}

/* Reads an integer of that many bits into *n, sign-extended: an optional sign and at least one
 * digit, ASCII, as Java's Long.parseLong and Integer.parseInt. */
static bool parse(const char *s, size_t len, unsigned bits, uint64_t *n)
{
    bool negative = len > 0 && s[0] == '-';
    size_t i = negative || (len > 0 && s[0] == '+');
    uint64_t limit = (UINT64_C(1) << (bits - 1)) - !negative, magnitude = 0;
    if (i == len)
        return false;
    for (; i < len; i++) {
        unsigned digit = (unsigned char)s[i] - (unsigned)'0';
        if (digit > 9 || magnitude > (limit - digit) / 10)
            return false;
        magnitude = 10 * magnitude + digit;
    }
    *n = negative ? 0 - magnitude : magnitude;
    return true;
}

static bool is_negative(uint64_t n)
{
    return n >> 63;
}

/* Writes n in decimal, at most ENCODE_PLAIN_MAX bytes; returns how many. */
static size_t print(uint64_t n, char *out)
{
    char digits[ENCODE_PLAIN_MAX], *end = digits + sizeof digits, *at = end;
    uint64_t magnitude = is_negative(n) ? 0 - n : n;
    do {
        *--at = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude != 0);
    if (is_negative(n))
        *--at = '-';
    memcpy(out, at, (size_t)(end - at));
    return (size_t)(end - at);
}

static const char *encode_int32(const char *key, size_t len, char *out, size_t *out_len)
{
    uint64_t n;
    if (!parse(key, len, 32, &n))
        return NULL;
    put_le32(out, (uint32_t)n);
    *out_len = 4;
    return out;
}

static const char *encode_int64(const char *key, size_t len, char *out, size_t *out_len)
{
    uint64_t n;
    if (!parse(key, len, 64, &n))
        return NULL;
    put_le64(out, n);
    *out_len = 8;
    return out;
}

static const char *plain(const char *key, size_t len, unsigned bits, char *out, size_t *out_len)
{
    uint64_t n;
    if (!parse(key, len, bits, &n))
        return NULL;
    *out_len = print(n, out);
    return out;
}

static const char *encode_decimal(const char *key, size_t len, char *out, size_t *out_len)
{
    return plain(key, len, 64, out, out_len);
}

static const char *encode_decimal32(const char *key, size_t len, char *out, size_t *out_len)
{
    return plain(key, len, 32, out, out_len);
}

/* \uXXXX */
static char *put_escape(char *to, uint32_t unit)
{
    static const char digits[] = "0123456789ABCDEF";
    *to++ = '\\';
    *to++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *to++ = digits[unit >> shift & 15];
    return to;
}

/* The letter of a short escape, such as the n of \n; 0 if there is none. */
static char short_escape(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return 0;
    }
}

static const char *encode_json(const char *key, size_t len, char *out, size_t *out_len)
{
    char *to = out;
    if (utf16_len(key, len) == SIZE_MAX)
        return NULL;
    *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)key[i];
        if (c >= 0xf0) { /* the first of four bytes */
            uint32_t point = code_point(key + i, 4);
            to = put_escape(to, high_surrogate(point));
            to = put_escape(to, low_surrogate(point));
            i += 3;
        } else if (c >= ' ' && c != '"' && c != '\\') {
            *to++ = key[i];
        } else if (short_escape(c) != 0) {
            *to++ = '\\';
            *to++ = short_escape(c);
        } else {
            to = put_escape(to, c);
        }
    }
    *to++ = '"';
    *out_len = (size_t)(to - out);
    return out;
}

/* The classes of values in Kryo's stream, and the mark of a new object. */
enum { KRYO_INT = 2, KRYO_STRING = 3, KRYO_LONG = 9, KRYO_NEW_OBJECT = 1 };

/* Up to this many ASCII characters are written without their number; the last has its high bit set.
 * Not a single one. */
enum { KRYO_SHORT_MAX = 32 };

/* Six bits of the number, then seven in each byte: at most 10 bytes. */
static char *put_kryo_len(char *to, uint64_t n)
{
    bool more = n >= 64;
    *to++ = (char)(0x80 | (more ? 0x40 : 0) | (n & 63));
    for (n >>= 6; more; n >>= 7) {
        more = n >= 128;
        *to++ = (char)((more ? 0x80 : 0) | (n & 127));
    }
    return to;
}

/* A surrogate in three bytes, as UTF-8 would be. */
static char *put_surrogate(char *to, uint32_t unit)
{
    to[0] = (char)(0xe0 | unit >> 12);
    to[1] = (char)(0x80 | (unit >> 6 & 0x3f));
    to[2] = (char)(0x80 | (unit & 0x3f));
    return to + 3;
}

/* Copies UTF-8, with two surrogates for each character above U+FFFF. */
static char *put_kryo_text(char *to, const char *key, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = ascii_len(key + i, len - i);
        if (n == 0)
            n = utf8_len(key + i, len - i);
        if ((unsigned char)key[i] < 0xf0) {
            memcpy(to, key + i, n);
            to += n;
        } else {
            uint32_t c = code_point(key + i, n);
            to = put_surrogate(to, high_surrogate(c));
            to = put_surrogate(to, low_surrogate(c));
        }
        i += n;
    }
    return to;
}

static char *put_kryo_string(char *to, const char *key, size_t len, size_t units)
{
    bool is_short = len >= 2 && len <= KRYO_SHORT_MAX && ascii_len(key, len) == len;
    if (!is_short)
        return put_kryo_text(put_kryo_len(to, (uint64_t)units + 1), key, len);
    memcpy(to, key, len);
    to[len - 1] = (char)(to[len - 1] | 0x80);
    return to + len;
}

static const char *encode_kryo5(const char *key, size_t len, char *out, size_t *out_len)
{
    size_t units = utf16_len(key, len);
    if (units == SIZE_MAX)
        return NULL;
    out[0] = KRYO_STRING;
    *out_len = (size_t)(put_kryo_string(out + 1, key, len, units) - out);
    return out;
}

static const char *encode_kryo5_ref(const char *key, size_t len, char *out, size_t *out_len)
{
    size_t units = utf16_len(key, len);
    if (units == SIZE_MAX)
        return NULL;
    out[0] = KRYO_STRING;
    out[1] = KRYO_NEW_OBJECT;
    *out_len = (size_t)(put_kryo_string(out + 2, key, len, units) - out);
    return out;
}

/* 0, -1, 1, -2 ... become 0, 1, 2, 3 ...; seven bits in each byte, but eight in a ninth. */
static const char *kryo_integer(const char *key, size_t len, unsigned bits, char tag, char *out,
                                size_t *out_len)
{
    uint64_t n;
    if (!parse(key, len, bits, &n))
        return NULL;
    uint64_t zigzag = n << 1 ^ (is_negative(n) ? UINT64_MAX : 0);
    char *to = out;
    *to++ = tag;
    for (int i = 0; i < 8 && zigzag >= 128; i++, zigzag >>= 7)
        *to++ = (char)(zigzag | 0x80);
    *to++ = (char)zigzag;
    *out_len = (size_t)(to - out);
    return out;
}

static const char *encode_kryo5_long(const char *key, size_t len, char *out, size_t *out_len)
{
    return kryo_integer(key, len, 64, KRYO_LONG, out, out_len);
}

static const char *encode_kryo5_int(const char *key, size_t len, char *out, size_t *out_len)
{
    return kryo_integer(key, len, 32, KRYO_INT, out, out_len);
}

static const char not_text[] = "not UTF-8";
static const char not_32[] = "not an integer of 32 bits", not_64[] = "not an integer of 64 bits";

/* How much a byte can grow: in UTF-16, ASCII to 2. In JSON, a control character to 6. In Kryo's
 * strings, 4 bytes to 6; before them stand the class, a mark and the length, of up to 10 bytes. An
 * integer of 32 bits has up to 11 characters; in groups of seven bits it has 5, one of 64 bits
 * has 9. */
static const struct encoding encodings[] = {
    {ENCODE_UTF8, "utf8", 0, 0, 0, encode_utf8, not_text},
    {ENCODE_UTF16, "utf16", 0, 2, 0, encode_utf16, not_text},
    {ENCODE_INT32, "int32", 4, 0, 32, encode_int32, not_32},
    {ENCODE_INT64, "int64", 8, 0, 64, encode_int64, not_64},
    {ENCODE_DECIMAL, "decimal", ENCODE_PLAIN_MAX, 0, 64, encode_decimal, not_64},
    {ENCODE_DECIMAL32, "decimal32", 11, 0, 32, encode_decimal32, not_32},
    {ENCODE_JSON, "json", 2, 6, 0, encode_json, not_text},
    {ENCODE_KRYO5, "kryo5", 1 + 10, 2, 0, encode_kryo5, not_text},
    {ENCODE_KRYO5_LONG, "kryo5long", 1 + 9, 0, 64, encode_kryo5_long, not_64},
    {ENCODE_KRYO5_INT, "kryo5int", 1 + 5, 0, 32, encode_kryo5_int, not_32},
    {ENCODE_KRYO5_REF, "kryo5ref", 2 + 10, 2, 0, encode_kryo5_ref, not_text},
};

const struct encoding *encoding_by_id(unsigned id)
{
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (encodings[i].id == id)
            return &encodings[i];
    return NULL;
}

const struct encoding *encoding_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (strcmp(encodings[i].name, name) == 0)
            return &encodings[i];
    return NULL;
}

const char *encoding_plain(const struct encoding *e, const char *key, size_t len, char *out,
                           size_t *out_len)
{
    return e->integer != 0 ? plain(key, len, e->integer, out, out_len)
                           : encode_utf8(key, len, out, out_len);
}
