/* SPDX-License-Identifier: MIT
 * Encodings: the bytes that another program hashes for a key. The input is text; the program may
 * hash its UTF-16 form, a number in eight bytes, or the output of its serializer.
 *
 *     const struct encoding *e = encoding_by_id(prep_encoding(rule->prep));    // NULL: none
 *     char *out = malloc(e->fixed + e->per_byte * len);
 *     const char *encoded = e->encode(key, len, out, &encoded_len);            // NULL: a bad key
 *
 * To add one, write its function, and add an entry to the list in encode.c.
 */
#ifndef KEYS_ENCODE_H
#define KEYS_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

/* As stored in a file (prep.h). */
enum {
    ENCODE_NONE = 0,
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

struct encoding {
    unsigned id;
    unsigned integer; /* bits of the encoded integer; 0: it encodes UTF-8 text */
    const char *name;
    size_t fixed, per_byte; /* a key of len bytes is encoded to at most fixed + per_byte * len */

    /* Returns the encoded key: `out`, or the key itself. NULL: the key cannot be encoded. */
    const char *(*encode)(const char *key, size_t len, char *out, size_t *out_len);

    const char *bad; /* why a key cannot be encoded: "not UTF-8" */
};

/* NULL: there is none. */
const struct encoding *encoding_by_id(unsigned id);
const struct encoding *encoding_by_name(const char *name);

/* An integer can be written in many ways, such as 7 and +07; lists contain plain decimal. */
enum { ENCODE_PLAIN_MAX = 20 }; /* -9223372036854775808 */

/* The text of a key in a list: `key` itself, or in plain[ENCODE_PLAIN_MAX]. NULL: a bad key. */
const char *encoding_plain(const struct encoding *e, const char *key, size_t len, char *plain,
                           size_t *plain_len);

#endif
