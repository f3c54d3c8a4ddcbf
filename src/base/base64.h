/* SPDX-License-Identifier: MIT
 * Base64 (RFC 4648), with padding and in one piece: without blanks and newlines. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum base64 {
    BASE64_STANDARD, /* with + and / */
    BASE64_URL,      /* with - and _ */
};

/* The characters of n bytes. */
static inline uint64_t base64_len(uint64_t n)
{
    return (n + 2) / 3 * 4;
}

/* Writes base64_len(n) characters, without a NUL. */
void base64_encode(enum base64 alphabet, const uint8_t *bytes, size_t n, char *out);

/* Writes at most len / 4 * 3 bytes, and sets *n to their number. False: the text is not what
 * base64_encode writes of any bytes. */
bool base64_decode(enum base64 alphabet, const char *text, size_t len, uint8_t *out, size_t *n);

#endif
