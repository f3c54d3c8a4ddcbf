/* SPDX-License-Identifier: MIT */
#include "keys/utf16.h"

#include "base/bytes.h"
#include "base/visible.h"

/* Eight bytes c. */
#define EIGHT(c) (UINT64_C(0x0101010101010101) * (c))

size_t utf16_ascii(const char *s, size_t len)
{
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t high = get_le64(s + i) & EIGHT(0x80);
        if (high != 0)
            return i + (size_t)__builtin_ctzll(high) / 8;
    }
    if (len >= 8 && !(get_le64(s + len - 8) & EIGHT(0x80)))
        return len;
    while (i < len && !(s[i] & 0x80))
        i++;
    return i;
}

/* utf8_len, in one step for most characters of three bytes. */
static size_t char_len(const char *s, size_t len)
{
    if (len >= 4) {
        uint32_t c = get_le32(s);
        /* The low four bits of the first byte, and bit 5 of the second: 0 is an overlong form,
         * 0x200d a surrogate. */
        uint32_t top = c & 0x200f;
        if ((c & 0xc0c0f0) == 0x8080e0 && top != 0 && top != 0x200d)
            return 3;
    }
    return utf8_len(s, len);
}

size_t utf16_len(const char *s, size_t len)
{
    size_t units = 0;
    for (size_t i = 0; i < len;) {
        size_t ascii = utf16_ascii(s + i, len - i);
        units += ascii;
        i += ascii;
        while (i < len && s[i] & 0x80) {
            size_t n = char_len(s + i, len - i);
            if (n == 0)
                return SIZE_MAX;
            units += n == 4 ? 2 : 1;
            i += n;
        }
    }
    return units;
}

static char *put_unit(char *to, uint32_t unit)
{
    to[0] = (char)unit;
    to[1] = (char)(unit >> 8);
    return to + 2;
}

/* Spreads four bytes of ASCII to code units. */
static void put_four_units(char *to, const char *s)
{
    uint64_t c = get_le32(s);
    c = (c | c << 16) & UINT64_C(0x0000ffff0000ffff);
    put_le64(to, (c | c << 8) & UINT64_C(0x00ff00ff00ff00ff));
}

const char *utf16_encode(const char *key, size_t len, char *out, size_t *out_len)
{
    char *to = out;
    for (size_t i = 0; i < len;) {
        size_t end = i + utf16_ascii(key + i, len - i);
        for (; end - i >= 4; i += 4, to += 8)
            put_four_units(to, key + i);
        for (; i < end; i++)
            to = put_unit(to, (unsigned char)key[i]);
        while (i < len && key[i] & 0x80) {
            size_t n = char_len(key + i, len - i);
            if (n == 0)
                return NULL;
            uint32_t c = utf16_code_point(key + i, n);
            if (n == 4) {
                to = put_unit(to, utf16_high(c));
                to = put_unit(to, utf16_low(c));
            } else {
                to = put_unit(to, c);
            }
            i += n;
        }
    }
    *out_len = (size_t)(to - out);
    return out;
}
