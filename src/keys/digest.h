/* SPDX-License-Identifier: MIT
 * Digests: if keys are secrets, such as passwords, a filter can hash their digests instead. Lists
 * of secrets are often published as digests in hexadecimal; a filter made of such a list is the
 * same as one made of the secrets themselves.
 *
 *     const struct digest *d = digest_by_id(prep_digest(rule->prep));    // NULL: none
 *     char *out = malloc(d->fixed + d->per_byte * len);
 *     if (!d->make(key, len, out)) ...                                   // a bad key
 *     ... out[0..d->len) ...
 *
 * libmd computes them. Without it (digest_missing) no key can be digested, but the digests are
 * still known by name and length.
 */
#ifndef KEYS_DIGEST_H
#define KEYS_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

/* As stored in a file (prep.h). */
enum {
    DIGEST_NONE = 0,
    DIGEST_SHA1 = 1,   /* RFC 3174 */
    DIGEST_SHA256 = 2, /* RFC 6234 */
    DIGEST_MD5 = 3,    /* RFC 1321 */
    DIGEST_NTLM = 4,   /* MD4 (RFC 1320) of the key in UTF-16, little-endian, no byte order mark */
};

struct digest {
    unsigned id;
    const char *name;
    size_t len;             /* bytes of a digest */
    size_t fixed, per_byte; /* bytes of `out` for a key of len bytes: fixed + per_byte * len */

    /* Writes the digest to out[0..len), and maybe bytes after it. False: a bad key. */
    bool (*make)(const char *key, size_t key_len, char *out);

    const char *bad;   /* why a key has no digest: "not UTF-8" */
    const char *wrong; /* for wrong digits: "is not a SHA-1 digest (40 hexadecimal digits)" */
};

/* The names of all, for messages. */
#define DIGEST_NAMES "sha1, sha256, md5 or ntlm"

/* NULL: there is none. */
const struct digest *digest_by_id(unsigned id);
const struct digest *digest_by_name(const char *name);

/* Why no key can be digested; NULL: keys can be digested. */
const char *digest_missing(void);

#endif
