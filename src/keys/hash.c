/* SPDX-License-Identifier: MIT */
#include "keys/hash.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "keys/xxh3.h"

/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), by libsodium.
 * Without its key, its hashes cannot be told from random numbers. If the program is built without
 * libsodium (SEEN_SODIUM undefined), the function is known but aborts. It is never called then: it
 * needs a secret, and such a build cannot read one (file/secret.h). */

#ifdef SEEN_SODIUM
#include <sodium.h>

_Static_assert(HASH_KEY == crypto_shorthash_siphash24_KEYBYTES, "the key is passed on as it is");

static uint64_t siphash(const char *data, size_t len, const uint8_t *key)
{
    uint8_t out[crypto_shorthash_siphash24_BYTES];
    crypto_shorthash_siphash24(out, (const uint8_t *)data, len, key);
    return get_le64(out);
}
#else
static uint64_t siphash(const char *data, size_t len, const uint8_t *key)
{
    (void)data, (void)len, (void)key;
    abort();
}
#endif

static void siphash_keys(const char *const *data, const size_t *len, size_t n,
                         const struct hash_seed *seed, uint64_t *out, size_t stride)
{
    (void)stride;
    for (size_t i = 0; i < n; i++)
        out[i] = siphash(data[i], hash_len(data, len, i), seed->key);
}

static const struct hash_fn hash_siphash_2_4 = {
    .id = 10, .name = "siphash-2-4", .lanes = 1, .keyed = true, .keys = siphash_keys};

const struct hash_fn *hash_by_id(uint32_t id)
{
    const struct hash_fn *const *other = hash_list_foreign;
    if (id == hash_xxh3_64.id || id == hash_siphash_2_4.id)
        return id == hash_xxh3_64.id ? &hash_xxh3_64 : &hash_siphash_2_4;
    while (*other != NULL && (*other)->id != id)
        other++;
    return *other;
}

const struct hash_fn *hash_usual(void)
{
    return &hash_xxh3_64;
}

const struct hash_fn *hash_keyed(void)
{
    return &hash_siphash_2_4;
}
