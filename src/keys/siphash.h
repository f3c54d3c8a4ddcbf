/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), by libsodium.
 * Without its key, its hashes cannot be told from random numbers. If the program is built without
 * libsodium (SEEN_SODIUM undefined), the function is known but aborts. It is never called then: it
 * needs a secret, and such a build cannot read one (store/secret.h). */
#ifndef KEYS_SIPHASH_H
#define KEYS_SIPHASH_H

#include "keys/hash.h"

extern const struct hash_fn hash_siphash_2_4;

#endif
