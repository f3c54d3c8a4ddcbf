/* SPDX-License-Identifier: MIT
 * The encodings of other programs' keys. To add one, write its function and entry in encode.c. */
#ifndef FOREIGN_ENCODE_H
#define FOREIGN_ENCODE_H

#include "keys/encoding.h"

/* As stored in a file (prep.h). */
enum {
    ENCODE_UTF8 = 1,       /* the bytes, which must be UTF-8 */
    ENCODE_UTF16 = 2,      /* UTF-16 code units, little-endian, without a byte order mark */
    ENCODE_INT32 = 3,      /* an integer, in 4 bytes little-endian */
    ENCODE_INT64 = 4,      /* an integer, in 8 bytes little-endian */
    ENCODE_DECIMAL = 5,    /* a 64-bit integer in decimal, without redundant signs and zeros */
    ENCODE_DECIMAL32 = 6,  /* the same for a 32-bit integer */
    ENCODE_JSON = 7,       /* a JSON string, with its quotes, as Jackson 2 writes it */
    ENCODE_KRYO5 = 8,      /* a string, as Kryo 5 writes it, with its class */
    ENCODE_KRYO5_LONG = 9, /* a 64-bit integer, as Kryo 5 writes it, with its class */
    ENCODE_KRYO5_INT = 10, /* the same for a 32-bit integer */
    ENCODE_KRYO5_REF = 11, /* ENCODE_KRYO5 with Kryo's references on */
};

#endif
