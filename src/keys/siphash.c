#include "keys/siphash.h"

#include <stdlib.h>

#include "base/bytes.h"

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

static void hash_keys(const char *const *data, const size_t *len, size_t n,
                      const struct hash_seed *seed, uint64_t *out, size_t stride)
{
    (void)stride;
    for (size_t i = 0; i < n; i++)
        out[i] = siphash(data[i], len[i], seed->key);
}

static void hash_records(const char *const *record, size_t n, const struct hash_seed *seed,
                         uint64_t *out, size_t stride)
{
    (void)stride;
    for (size_t i = 0; i < n; i++)
        out[i] = siphash(record[i], (size_t)(record[i + 1] - record[i]) - 1, seed->key);
}

const struct hash_fn hash_siphash_2_4 = {.id = 10,
                                         .name = "siphash-2-4",
                                         .lanes = 1,
                                         .keyed = true,
                                         .keys = hash_keys,
                                         .records = hash_records};
