/* SPDX-License-Identifier: MIT
 * Encodings: the bytes that another program hashes for a key. The input is text; the program may
 * hash its UTF-16 form, a number in eight bytes, or the output of its serializer. The encodings are
 * defined with the layouts of other programs.
 *
 *     const struct encoding *e = encoding_by_id(prep_encoding(rule->prep));    // NULL: none
 *     char *out = malloc(e->fixed + e->per_byte * len);
 *     const char *encoded = e->encode(key, len, out, &encoded_len);            // NULL: a bad key
 */
#ifndef KEYS_ENCODING_H
#define KEYS_ENCODING_H

#include <stddef.h>

enum {
    ENCODE_NONE = 0, /* as stored in a file (prep.h) */
    /* An integer can be written in many ways, such as 7 and +07; lists contain plain decimal. */
    ENCODE_PLAIN_MAX = 20, /* -9223372036854775808 */
};

struct encoding {
    unsigned id;
    unsigned integer; /* bits of the encoded integer; 0: it encodes UTF-8 text */
    const char *name;
    size_t fixed, per_byte; /* a key of len bytes is encoded to at most fixed + per_byte * len */

    /* Returns the encoded key: `out`, or the key itself. NULL: the key cannot be encoded. */
    const char *(*encode)(const char *key, size_t len, char *out, size_t *out_len);

    const char *bad; /* why a key cannot be encoded: "not UTF-8" */

    /* The text of a key in a list: `key` itself, or in plain[ENCODE_PLAIN_MAX]. NULL: a bad key. */
    const char *(*plain)(const char *key, size_t len, char *plain, size_t *plain_len);
};

/* The last one has the id ENCODE_NONE. */
extern const struct encoding encoding_list_foreign[];

/* NULL: there is none. */
const struct encoding *encoding_by_id(unsigned id);

#endif
