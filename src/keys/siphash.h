/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), by libsodium: who
 * does not know its key cannot tell the hashes of keys from random numbers. Where the program is
 * built without libsodium (SEEN_SODIUM undefined), the function is known and hashes nothing: nobody
 * calls it without a secret, and none can be read there (store/secret.h). */
#ifndef KEYS_SIPHASH_H
#define KEYS_SIPHASH_H

#include "keys/hash.h"

extern const struct hash_fn hash_siphash_2_4;

#endif
