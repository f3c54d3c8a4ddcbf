/*
 * Encodings: the bytes that another program hashes for a key. What we are given is text; a program
 * hashes the UTF-16 form of it, or a number in eight bytes, or what its serializer writes.
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
    ENCODE_UTF16 = 2,      /* UTF-16 code units, little-endian, without a mark */
    ENCODE_INT32 = 3,      /* an integer, in 4 bytes little-endian */
    ENCODE_INT64 = 4,      /* in 8 bytes */
    ENCODE_DECIMAL = 5,    /* an integer of 64 bits, in decimal without needless signs and zeros */
    ENCODE_DECIMAL32 = 6,  /* of 32 bits */
    ENCODE_JSON = 7,       /* a string of JSON, with its quotes, as Jackson 2 writes it */
    ENCODE_KRYO5 = 8,      /* a string, as Kryo 5 writes it, with its class */
    ENCODE_KRYO5_LONG = 9, /* an integer of 64 bits, as Kryo 5 writes it, with its class */
    ENCODE_KRYO5_INT = 10, /* of 32 bits */
    ENCODE_KRYO5_REF = 11, /* ENCODE_KRYO5 with Kryo's references on */
};

struct encoding {
    unsigned id;
    unsigned integer; /* bits of the integer that it encodes; 0: it encodes text, which is UTF-8 */
    const char *name;
    size_t fixed, per_byte; /* a key of len bytes becomes at most fixed + per_byte * len */

    /* The encoded key: `out`, or the key itself. NULL if it has none. */
    const char *(*encode)(const char *key, size_t len, char *out, size_t *out_len);

    const char *bad; /* why a key has none: "not UTF-8" */
};

/* NULL: there is none. */
const struct encoding *encoding_by_id(unsigned id);
const struct encoding *encoding_by_name(const char *name);

/* Integers have many texts, such as 7 and +07; in lists they are in plain decimal. */
enum { ENCODE_PLAIN_MAX = 20 }; /* -9223372036854775808 */

/* The text of a key in a list: the text itself, or in plain[ENCODE_PLAIN_MAX]. NULL: a bad key. */
const char *encoding_plain(const struct encoding *e, const char *key, size_t len, char *plain,
                           size_t *plain_len);

#endif
