#include "keys/xxh64.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "keys/hash_each.h"

static __attribute__((nonnull)) void xxh64(const char *data, size_t len, uint64_t seed,
                                           uint64_t *out, size_t stride)
{
    (void)stride;
    out[0] = XXH64(data, len, seed);
}

HASH_EACH(xxh64)

const struct hash_fn hash_xxh64 = {
    .id = 7, .name = "xxh64", .lanes = 1, .keys = hash_keys, .records = hash_records};
