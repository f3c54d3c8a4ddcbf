/* SPDX-License-Identifier: MIT */
#include "base/base64.h"

#include <string.h>

static const char *const digits[] = {
    [BASE64_STANDARD] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    [BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

void base64_encode(enum base64 alphabet, const uint8_t *bytes, size_t n, char *out)
{
    for (; n > 0; out += 4) {
        size_t take = n < 3 ? n : 3;
        uint32_t group = (uint32_t)bytes[0] << 16;
        if (take > 1)
            group |= (uint32_t)bytes[1] << 8;
        if (take > 2)
            group |= bytes[2];
        for (size_t i = 0; i < 4; i++)
            out[i] = i <= take ? digits[alphabet][group >> (18 - 6 * i) & 63] : '=';
        bytes += take;
        n -= take;
    }
}

enum { NOT_A_DIGIT = 64 };

bool base64_decode(enum base64 alphabet, const char *text, size_t len, uint8_t *out, size_t *n)
{
    uint8_t value[256];
    size_t pads = 0, at = 0;
    memset(value, NOT_A_DIGIT, sizeof value);
    for (uint8_t i = 0; i < 64; i++)
        value[(unsigned char)digits[alphabet][i]] = i;
    while (pads < 2 && pads < len && text[len - 1 - pads] == '=')
        pads++;
    if (len % 4 != 0)
        return false;
    *n = len / 4 * 3 - pads;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t group = 0;
        for (size_t j = i; j < i + 4; j++) {
            uint8_t digit = j < len - pads ? value[(unsigned char)text[j]] : 0;
            if (digit == NOT_A_DIGIT)
                return false;
            group = group << 6 | digit;
        }
        for (unsigned shift = 24; shift > 0;) {
            shift -= 8;
            uint8_t byte = (uint8_t)(group >> shift);
            if (at < *n)
                out[at++] = byte;
            else if (byte != 0)
                return false;
        }
    }
    return true;
}
