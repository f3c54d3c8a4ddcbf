/* SPDX-License-Identifier: MIT */
#include "foreign/encode.h"

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "keys/utf16.h"

/* Eight bytes c. */
#define EIGHT(c) (UINT64_C(0x0101010101010101) * (c))

static const char *encode_utf8(const char *key, size_t len, char *out, size_t *out_len)
{
    (void)out;
    *out_len = len;
    return utf16_len(key, len) == SIZE_MAX ? NULL : key;
}

/* Reads an integer of `bits` bits into *n, sign-extended: an optional sign and at least one ASCII
 * digit, as Java's Long.parseLong and Integer.parseInt do. */
static bool parse_integer(const char *s, size_t len, unsigned bits, uint64_t *n)
{
    bool negative = len > 0 && s[0] == '-';
    size_t i = negative || (len > 0 && s[0] == '+');
    uint64_t limit = (UINT64_C(1) << (bits - 1)) - !negative, magnitude = 0;
    uint64_t tenth = limit / 10;
    if (i == len)
        return false;
    for (; i < len; i++) {
        unsigned digit = (unsigned char)s[i] - (unsigned)'0';
        if (digit > 9 || magnitude > tenth || (magnitude == tenth && digit > limit % 10))
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
static size_t print_integer(uint64_t n, char *out)
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
    if (!parse_integer(key, len, 32, &n))
        return NULL;
    put_le32(out, (uint32_t)n);
    *out_len = 4;
    return out;
}

static const char *encode_int64(const char *key, size_t len, char *out, size_t *out_len)
{
    uint64_t n;
    if (!parse_integer(key, len, 64, &n))
        return NULL;
    put_le64(out, n);
    *out_len = 8;
    return out;
}

static const char *to_plain(const char *key, size_t len, unsigned bits, char *out, size_t *out_len)
{
    uint64_t n;
    if (!parse_integer(key, len, bits, &n))
        return NULL;
    /* Is it written as print_integer writes it? False for 0 too, which is printed anew. */
    bool plain = (key[0] >= '1' && key[0] <= '9') || (key[0] == '-' && key[1] != '0');
    *out_len = plain ? len : print_integer(n, out);
    return plain ? key : out;
}

static const char *encode_decimal(const char *key, size_t len, char *out, size_t *out_len)
{
    return to_plain(key, len, 64, out, out_len);
}

static const char *encode_decimal32(const char *key, size_t len, char *out, size_t *out_len)
{
    return to_plain(key, len, 32, out, out_len);
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

/* Are all eight bytes ASCII from 32 on, without quotes and backslashes? Others get a high bit. */
static bool stand_for_themselves(const char *s)
{
    uint64_t c = get_le64(s);
    uint64_t quote = (c ^ EIGHT('"')) - EIGHT(1), backslash = (c ^ EIGHT('\\')) - EIGHT(1);
    return !((c | (c - EIGHT(' ')) | quote | backslash) & EIGHT(0x80));
}

static const char *encode_json(const char *key, size_t len, char *out, size_t *out_len)
{
    char *to = out;
    if (utf16_len(key, len) == SIZE_MAX)
        return NULL;
    *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        for (; len - i > 8 && stand_for_themselves(key + i); i += 8, to += 8)
            memcpy(to, key + i, 8);
        unsigned char c = (unsigned char)key[i];
        if (c >= 0xf0) { /* the first of four bytes */
            uint32_t point = utf16_code_point(key + i, 4);
            to = put_escape(to, utf16_high(point));
            to = put_escape(to, utf16_low(point));
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

/* Strings of 2 to this many ASCII characters are written without a length; the last character has
 * its high bit set. */
enum { KRYO_SHORT_MAX = 32 };

/* Six bits of the number in the first byte, then seven in each byte: at most 10 bytes. */
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

/* A surrogate in three bytes, encoded as in UTF-8. */
static char *put_surrogate(char *to, uint32_t unit)
{
    to[0] = (char)(0xe0 | unit >> 12);
    to[1] = (char)(0x80 | (unit >> 6 & 0x3f));
    to[2] = (char)(0x80 | (unit & 0x3f));
    return to + 3;
}

/* The number of bytes before the first character above U+FFFF, which begins with four set bits. */
static size_t basic_len(const char *s, size_t len)
{
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t c = get_le64(s + i);
        if (c & c << 1 & c << 2 & c << 3 & EIGHT(0x80))
            break;
    }
    while (i < len && (unsigned char)s[i] < 0xf0)
        i++;
    return i;
}

/* Copies UTF-8, with two surrogates for each character above U+FFFF. */
static char *put_kryo_text(char *to, const char *key, size_t len)
{
    for (size_t i = 0;; i += 4) {
        size_t n = basic_len(key + i, len - i);
        memcpy(to, key + i, n);
        to += n;
        i += n;
        if (i == len)
            return to;
        uint32_t c = utf16_code_point(key + i, 4);
        to = put_surrogate(to, utf16_high(c));
        to = put_surrogate(to, utf16_low(c));
    }
}

static char *put_kryo_string(char *to, const char *key, size_t len, size_t units)
{
    bool is_short = len >= 2 && len <= KRYO_SHORT_MAX && utf16_ascii(key, len) == len;
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

/* 0, -1, 1, -2 ... become 0, 1, 2, 3 ..., written with seven bits in each byte, and eight in the
 * ninth. */
static const char *kryo_integer(const char *key, size_t len, unsigned bits, char tag, char *out,
                                size_t *out_len)
{
    uint64_t n;
    if (!parse_integer(key, len, bits, &n))
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

/* How much keys can grow. In UTF-16, an ASCII byte takes 2 bytes. In JSON, a control character
 * takes 6. In Kryo's strings, 4 bytes become 6; the class, a mark and the length of up to 10 bytes
 * precede them. A 32-bit integer has up to 11 characters. In groups of seven bits, a 32-bit integer
 * takes 5 bytes, a 64-bit integer 9. */
const struct encoding encoding_list_foreign[] = {
    {ENCODE_UTF8, 0, "utf8", 0, 0, encode_utf8, not_text, encode_utf8},
    {ENCODE_UTF16, 0, "utf16", 0, 2, utf16_encode, not_text, encode_utf8},
    {ENCODE_INT32, 32, "int32", 4, 0, encode_int32, not_32, encode_decimal32},
    {ENCODE_INT64, 64, "int64", 8, 0, encode_int64, not_64, encode_decimal},
    {ENCODE_DECIMAL, 64, "decimal", ENCODE_PLAIN_MAX, 0, encode_decimal, not_64, encode_decimal},
    {ENCODE_DECIMAL32, 32, "decimal32", 11, 0, encode_decimal32, not_32, encode_decimal32},
    {ENCODE_JSON, 0, "json", 2, 6, encode_json, not_text, encode_utf8},
    {ENCODE_KRYO5, 0, "kryo5", 1 + 10, 2, encode_kryo5, not_text, encode_utf8},
    {ENCODE_KRYO5_LONG, 64, "kryo5long", 1 + 9, 0, encode_kryo5_long, not_64, encode_decimal},
    {ENCODE_KRYO5_INT, 32, "kryo5int", 1 + 5, 0, encode_kryo5_int, not_32, encode_decimal32},
    {ENCODE_KRYO5_REF, 0, "kryo5ref", 2 + 10, 2, encode_kryo5_ref, not_text, encode_utf8},
    {0},
};
