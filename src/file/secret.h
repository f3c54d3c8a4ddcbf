/* SPDX-License-Identifier: MIT
 * Secrets. A secret is a file of 32 random bytes. The keys of a filter with a secret are hashed by
 * SipHash-2-4 with a key derived from it. The filter's header has a mark, which identifies the
 * secret and reveals nothing about it. man/seen.5 has the derivations; all are BLAKE2b, computed by
 * libsodium.
 *
 *     struct secret secret;
 *     if (!secret_read(&secret, "site.secret", &others, &err)) ...
 *     secret_seed(&secret, &rule.seed);
 *     secret_mark(&secret, hash_keyed(), rule.seed.number, rule.prep, &rule.mark); // a new filter
 *     secret_check(&secret, &header, name, &err)                         // an existing filter
 *     secret_wipe(&secret);
 *
 * The proof in the mark shows that somebody with the secret chose three header fields: the hash
 * function, its seed and the preparation of keys. It does not cover layers and bits: without the
 * secret, a filter can be verified and other filters can be made from it.
 */
#ifndef FILE_SECRET_H
#define FILE_SECRET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"

enum {
    SECRET_LEN = 32, /* bytes of a file */
    SECRET_ID_TEXT = 2 * HASH_MARK + 1,
};

struct secret {
    uint8_t bytes[SECRET_LEN];
};

struct header;

/* Reads the secret in a file; sets *others if other users may read or change that file. A file that
 * belongs to another user than this one and root, or that such a user can replace, is an error. */
bool secret_read(struct secret *secret, const char *path, bool *others, struct err *err);

/* Makes a secret file of random bytes, with mode 0600. The file appears complete and on disk, or
 * not at all. An existing file is an error. */
bool secret_make(const char *path, struct err *err);

/* Sets seed->key, which keys are hashed with, from the secret and seed->number. */
void secret_seed(const struct secret *secret, struct hash_seed *seed);

/* Makes the mark for a filter header with this hash function, seed number and preparation. */
void secret_mark(const struct secret *secret, const struct hash_fn *hash, uint64_t number,
                 uint32_t prep, struct hash_mark *mark);

/* Checks that the header was made with this secret. The error text lacks its subject, the secret's
 * name: "is not the secret of ...". `path` names the filter in it. */
bool secret_check(const struct secret *secret, const struct header *h, const char *path,
                  struct err *err);

void secret_id_text(const struct hash_mark *mark, char text[SECRET_ID_TEXT]);

void secret_wipe(struct secret *secret);

/* The version of libsodium; NULL: the program is built without it, and no secret can be read. */
const char *secret_sodium_version(void);

#endif
