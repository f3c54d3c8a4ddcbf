/*
 * Hash functions for keys. A filter names its function in its header. The function gives a key one
 * or two 64-bit values, its lanes; everything else is derived from these.
 *
 *     const struct hash_fn *fn = hash_by_id(id);                   // NULL: unknown
 *     uint64_t *const lane[HASH_LANES] = {hash, hash2};    // the first fn->lanes are used
 *     fn->keys(data, len, n, seed, lane);
 *
 * To add a function, write its file with one `struct hash_fn`, and add it to the list in hash.c.
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

    /* Writes lane l of key i, data[i] of len[i] bytes, to lane[l][i], for i < n. */
    void (*keys)(const char *const *data, const size_t *len, size_t n, uint64_t seed,
                 uint64_t *const *lane);

    /* The same for n adjacent records. Each ends with a terminator of one byte, which is not
     * hashed: key i is [record[i], record[i + 1] - 1). */
    void (*records)(const char *const *record, size_t n, uint64_t seed, uint64_t *const *lane);
};

/* A batch of hashed keys: lane l of key i is lane[l][i]. Lanes that the function lacks are NULL. */
struct hashes {
    const uint64_t *lane[HASH_LANES];
};

/* The hashes of a function with one lane. */
static inline struct hashes hashes_of(const uint64_t *hash)
{
    return (struct hashes){{hash, NULL}};
}

/* The batch without its first i keys. */
static inline struct hashes hashes_from(struct hashes h, size_t i)
{
    return (struct hashes){{h.lane[0] + i, h.lane[1] != NULL ? h.lane[1] + i : NULL}};
}

/* The function with that id, or NULL. */
const struct hash_fn *hash_by_id(uint32_t id);

/* The default function of new filters; other programs' layouts have their own. */
const struct hash_fn *hash_usual(void);

#endif
