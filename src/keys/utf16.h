/* SPDX-License-Identifier: MIT
 * Text in UTF-8, and its form in UTF-16. */
#ifndef KEYS_UTF16_H
#define KEYS_UTF16_H

#include <stddef.h>
#include <stdint.h>

/* Returns `out`, with the code units of the key, little-endian, in 2 * len bytes at most. NULL: the
 * key is not UTF-8. */
const char *utf16_encode(const char *key, size_t len, char *out, size_t *out_len);

/* The number of UTF-16 code units of s. SIZE_MAX if it is not UTF-8. */
size_t utf16_len(const char *s, size_t len);

/* The number of ASCII bytes at the start of s. */
size_t utf16_ascii(const char *s, size_t len);

/* The character of the n = utf8_len(s) bytes at s. */
static inline uint32_t utf16_code_point(const char *s, size_t n)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = (unsigned char)s[0] & first[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

/* The surrogates of a character above U+FFFF. */
static inline uint32_t utf16_high(uint32_t c)
{
    return 0xd800 | (c - 0x10000) >> 10;
}

static inline uint32_t utf16_low(uint32_t c)
{
    return 0xdc00 | (c & 0x3ff);
}

#endif
