/* SPDX-License-Identifier: MIT
 * Hash functions for keys. A filter names its function in its header. The function gives a key one
 * or several 64-bit values, its lanes; everything else is derived from these.
 *
 *     const struct hash_fn *fn = hash_by_id(id);    // NULL: unknown
 *     uint64_t hash[HASH_LANES * N];                // fn->lanes * N of them are used
 *     struct hash_seed seed = {.number = 0};
 *     fn->keys(data, len, n, &seed, hash, N);       // n <= N
 *     struct hashes h = {hash, N, NULL};
 *
 * To add a function, write its file with one `struct hash_fn`, and name it in hash.c.
 * Functions of other programs are defined with their layouts. seen(5) lists the ids. All 64 bits of
 * a lane must look random, because kinds cut it in parts: after raw FNV-1a, the counters of a Bloom
 * filter disagree with its bits.
 */
#ifndef KEYS_HASH_H
#define KEYS_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HASH_LANES = 14, /* at most */
    HASH_KEY = 16,   /* bytes */
    HASH_MARK = 16,  /* bytes */
};

/* The seed of a hash function. */
struct hash_seed {
    uint64_t number;       /* stored in the filter */
    uint8_t key[HASH_KEY]; /* for a `keyed` function: a secret, stored nowhere */
};

/* What a filter's header stores about the key and its origin (file/secret.h). */
struct hash_mark {
    uint8_t id[HASH_MARK];
    uint8_t proof[HASH_MARK];
};

struct hash_fn {
    uint32_t id; /* as stored in a file */
    const char *name;
    unsigned lanes;
    bool keyed; /* uses seed->key, not seed->number */

    /* Writes lane l of key i, data[i] of len[i] bytes, to out[l * stride + i], for i < n. If len is
     * NULL, the keys are adjacent records, each followed by a terminator of one byte: key i is
     * [data[i], data[i + 1] - 1). */
    void (*keys)(const char *const *data, const size_t *len, size_t n, const struct hash_seed *seed,
                 uint64_t *out, size_t stride);
};

/* A prepared key: what is hashed. */
struct key_bytes {
    const char *data;
    size_t len;
};

/* Keys in one batch: enough for prefetching to hide memory latency, few enough to stay in the
 * first-level cache. On filters larger than the cache, 256 was 10 % faster than 32 and 64. */
enum { HASH_BATCH = 256 };

/* A batch of hashed keys: lane l of key i is lane0[l * stride + i]. */
struct hashes {
    const uint64_t *lane0;
    size_t stride;
    const struct key_bytes *bytes; /* the keys themselves; NULL unless a store wants them */
};

/* The hashes of a function with one lane. */
static inline struct hashes hashes_of(const uint64_t *hash)
{
    return (struct hashes){hash, 0, NULL};
}

/* One lane of all keys; l is less than the function's number of lanes. */
static inline const uint64_t *hashes_lane(struct hashes h, unsigned l)
{
    return h.lane0 + l * h.stride;
}

/* The batch without its first i keys. */
static inline struct hashes hashes_from(struct hashes h, size_t i)
{
    const struct key_bytes *bytes = h.bytes != NULL ? h.bytes + i : NULL;
    return (struct hashes){h.lane0 + i, h.stride, bytes};
}

/* Those of other programs, NULL after the last: defined where their layouts are. */
extern const struct hash_fn *const hash_list_foreign[];

/* The function with that id, or NULL. */
const struct hash_fn *hash_by_id(uint32_t id);

/* The default function of new filters; layouts of other programs have their own. */
const struct hash_fn *hash_usual(void);

/* The function of filters with a secret (file/secret.h). */
const struct hash_fn *hash_keyed(void);

/* The length of key i in keys(). */
static inline size_t hash_len(const char *const *data, const size_t *len, size_t i)
{
    return len != NULL ? len[i] : (size_t)(data[i + 1] - data[i]) - 1;
}

#endif
