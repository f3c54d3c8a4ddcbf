/*
 * The hash functions that keys are hashed with. A filter names its function in its header, and all
 * else about a key is derived from what that gives: one or two 64-bit values, its lanes.
 *
 *     const struct hash_fn *fn = hash_by_id(id);                   // NULL: unknown
 *     uint64_t *const lane[HASH_LANES] = {hash, hash2};    // the first fn->lanes are used
 *     fn->keys(data, len, n, seed, lane);
 *
 * To add a function: write its file with one `struct hash_fn`, and name it in the list in hash.c.
 */
#ifndef KEYS_HASH_H
#define KEYS_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_LANES = 2 }; /* at most */

struct hash_fn {
    uint32_t id; /* as stored in a file */
    const char *name;
    unsigned lanes;

    /* Lane l of key i, data[i] of len[i] bytes, is written to lane[l][i], for i < n. */
    void (*keys)(const char *const *data, const size_t *len, size_t n, uint64_t seed,
                 uint64_t *const *lane);

    /* The same for n records that lie one behind the other, each with a terminator of one byte,
     * which is not hashed: key i is [record[i], record[i + 1] - 1). */
    void (*records)(const char *const *record, size_t n, uint64_t seed, uint64_t *const *lane);
};

/* A batch of hashed keys: lane l of key i is lane[l][i]. Lanes that the function has not got are not
 * there. */
struct hashes {
    const uint64_t *lane[HASH_LANES];
};

/* Those of a function with one lane. */
static inline struct hashes hashes_of(const uint64_t *hash)
{
    return (struct hashes){{hash, NULL}};
}

/* The batch without its first i keys. */
static inline struct hashes hashes_from(struct hashes h, size_t i)
{
    return (struct hashes){{h.lane[0] + i, h.lane[1] != NULL ? h.lane[1] + i : NULL}};
}

/* The function of that id, or NULL. */
const struct hash_fn *hash_by_id(uint32_t id);

/* What filters are made with unless they are to be of another program's layout. */
const struct hash_fn *hash_usual(void);

#endif
