/* SPDX-License-Identifier: MIT
 * How a filter's keys are prepared: 32 bits in its header, which hold four flags and the numbers
 * of an encoding (encoding.h) and of a digest (digest.h). A key is trimmed, folded, decoded from
 * hexadecimal, digested and encoded, in that order; then it is hashed. With a digest there is
 * neither hexadecimal decoding nor an encoding; letters are folded to one case only.
 */
#ifndef KEYS_PREP_H
#define KEYS_PREP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PREP_TRIM = 1 << 0,
    PREP_FOLD = 1 << 1, /* to small letters */
    PREP_HEX = 1 << 2,
    PREP_UPPER = 1 << 3, /* to capitals */
    PREP_CASE = PREP_FOLD | PREP_UPPER,
    PREP_FLAGS = PREP_TRIM | PREP_CASE | PREP_HEX,
    PREP_ENCODING_SHIFT = 8, /* bits 8 to 15: the encoding, 0 for none */
    PREP_ENCODING = 0xff << PREP_ENCODING_SHIFT,
    PREP_DIGEST_SHIFT = 16, /* bits 16 to 23: the digest, 0 for none */
    PREP_DIGEST = 0xff << PREP_DIGEST_SHIFT,
};

static inline unsigned prep_encoding(uint32_t prep)
{
    return (prep & PREP_ENCODING) >> PREP_ENCODING_SHIFT;
}

static inline unsigned prep_digest(uint32_t prep)
{
    return (prep & PREP_DIGEST) >> PREP_DIGEST_SHIFT;
}

/* Are the keys in hexadecimal in a list of keys? */
static inline bool prep_in_digits(uint32_t prep)
{
    return (prep & (PREP_HEX | PREP_DIGEST)) != 0;
}

#endif
