/*
 * How a filter's keys are prepared, as its header says it in 32 bits: three flags and the number of
 * an encoding (encode.h). A key is trimmed, folded, decoded from hexadecimal and encoded, in that
 * order; then it is hashed.
 */
#ifndef KEYS_PREP_H
#define KEYS_PREP_H

#include <stdint.h>

enum {
    PREP_TRIM = 1 << 0,
    PREP_FOLD = 1 << 1,
    PREP_HEX = 1 << 2,
    PREP_FLAGS = PREP_TRIM | PREP_FOLD | PREP_HEX,
    PREP_ENCODING_SHIFT = 8, /* bits 8 to 15: the encoding, 0 for none */
    PREP_ENCODING = 0xff << PREP_ENCODING_SHIFT,
};

static inline unsigned prep_encoding(uint32_t prep)
{
    return (prep & PREP_ENCODING) >> PREP_ENCODING_SHIFT;
}

#endif
