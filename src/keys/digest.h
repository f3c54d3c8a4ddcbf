/*
 * Digests: what a filter hashes in place of a key that is a secret, such as a password. Lists of
 * secrets are often published as digests in hexadecimal, so a filter made of such a list is the
 * same as one made of the secrets themselves.
 *
 *     const struct digest *d = digest_by_id(prep_digest(rule->prep));    // NULL: none
 *     char *out = malloc(d->fixed + d->per_byte * len);
 *     if (!d->make(key, len, out)) ...                                   // a bad key
 *     ... out[0..d->len) ...
 *
 * They are computed by libmd. Without it (digest_missing) no key can be digested, but the digests
 * are known by name and length.
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
    DIGEST_NTLM = 4,   /* MD4 (RFC 1320) of the key in UTF-16, little-endian, without a mark */
};

struct digest {
    unsigned id;
    const char *name;
    size_t len;             /* bytes of a digest */
    size_t fixed, per_byte; /* to digest a key of len bytes takes fixed + per_byte * len bytes */

    /* Writes the digest to out[0..len). What is written behind it is wiped. False: a bad key. */
    bool (*make)(const char *key, size_t key_len, char *out);

    const char *bad;   /* why a key has no digest: "not UTF-8" */
    const char *wrong; /* what digits are not: "is not a SHA-1 digest (40 hexadecimal digits)" */
};

/* NULL: there is none. */
const struct digest *digest_by_id(unsigned id);
const struct digest *digest_by_name(const char *name);

/* Why no key can be digested; NULL: they can. */
const char *digest_missing(void);

#endif
