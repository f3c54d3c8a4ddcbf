/*
 * Collects the keys of a chunk of input from its batches, to add them to a store in one call.
 *
 *     struct writer_keys keys = {0};
 *     keys.n = 0;                                  // before the first batch of each chunk
 *     writer_keys_take(&keys, batch);
 *     store_add(s, writer_keys_hashes(&keys), keys.known, keys.n, &done, &err);
 *     writer_keys_free(&keys);
 */
#ifndef STORE_WRITER_KEYS_H
#define STORE_WRITER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/batch.h"
#include "store/store.h"

/* The keys of the first n records of a chunk, except those whose bit is set in `known`. */
struct writer_keys {
    uint64_t *hash;  /* lane l of record i is hash[l * room + i] */
    uint64_t *known; /* bit i: record i has no key, or a known one */
    size_t n, room;
    /* With key_rule.bytes: bytes[i] is the key of record i, in the chunk or in `copies`. */
    struct key_bytes *bytes;
    struct key_copies *copies;
};

/* Appends all records of a batch; those without a key (batch.bad) as known. Only the last batch may
 * have fewer than BATCH_MAX records. A call with n == 0 frees the key copies of the chunk before.
 * False: out of memory. */
bool writer_keys_take(struct writer_keys *keys, const struct batch *b);
void writer_keys_free(struct writer_keys *keys);

static inline struct hashes writer_keys_hashes(const struct writer_keys *keys)
{
    return (struct hashes){keys->hash, keys->room, keys->bytes};
}

#endif
