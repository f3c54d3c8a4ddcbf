/*
 * Secrets. The keys of a filter with a secret are hashed by SipHash-2-4 with a key that comes from
 * 32 random bytes in a file. The filter's header has the secret's mark, which tells secrets apart
 * and betrays nothing of them. man/seen.5 has the derivations; all are BLAKE2b by libsodium.
 *
 *     struct secret secret;
 *     if (!secret_read(&secret, "site.secret", &others, &err)) ...
 *     secret_seed(&secret, &rule.seed);
 *     secret_mark(&secret, hash_keyed(), rule.seed.number, rule.prep, &rule.mark); // a new filter
 *     secret_check(&secret, &header, name, &err)                                   // another
 *     secret_wipe(&secret);
 *
 * What a header has been given by somebody with the secret, its proof shows: the hash function, its
 * seed and the preparation of keys. Other filters are made of a filter without its secret, and a
 * file can be verified without it; so the proof says nothing of layers and bits.
 */
#ifndef STORE_SECRET_H
#define STORE_SECRET_H

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

/* Reads the secret in a file; *others is set if other users may read or change that. */
bool secret_read(struct secret *secret, const char *path, bool *others, struct err *err);

/* Makes such a file, of random bytes and of mode 0600. It appears complete and on disk, or not at
 * all; one that exists is an error. */
bool secret_make(const char *path, struct err *err);

/* The key by which keys are hashed, for that seed->number. */
void secret_seed(const struct secret *secret, struct hash_seed *seed);

/* The mark for the header of a filter with that hash function, seed->number and preparation. */
void secret_mark(const struct secret *secret, const struct hash_fn *hash, uint64_t number,
                 uint32_t prep, struct hash_mark *mark);

/* Was the header made with this secret? The error is a predicate to follow the secret's name: "is
 * not the secret that ...". `path` names the filter in it. */
bool secret_check(const struct secret *secret, const struct header *h, const char *path,
                  struct err *err);

void secret_id_text(const struct hash_mark *mark, char text[SECRET_ID_TEXT]);

void secret_wipe(struct secret *secret);

/* The version of libsodium; NULL: the program is built without it, and no secret can be read. */
const char *secret_sodium_version(void);

#endif
