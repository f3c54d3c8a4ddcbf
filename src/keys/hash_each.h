/*
 * Defines keys() and records() of a struct hash_fn, from a function that hashes one key:
 *
 *     static void one(const char *data, size_t len, uint64_t seed, uint64_t *out, size_t stride);
 *     HASH_EACH(one)      // makes one_keys() and one_records()
 *
 * `one` writes lane l to out[l * stride]. Its seed is the number of the struct hash_seed.
 */
#ifndef KEYS_HASH_EACH_H
#define KEYS_HASH_EACH_H

#include "keys/hash.h"

#define HASH_EACH(one)                                                                             \
    static void one##_keys(const char *const *data, const size_t *len, size_t n,                   \
                           const struct hash_seed *seed, uint64_t *out, size_t stride)             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            one(data[i], len[i], seed->number, out + i, stride);                                   \
    }                                                                                              \
                                                                                                   \
    static void one##_records(const char *const *record, size_t n, const struct hash_seed *seed,   \
                              uint64_t *out, size_t stride)                                        \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            one(record[i], (size_t)(record[i + 1] - record[i]) - 1, seed->number, out + i,         \
                stride);                                                                           \
    }

#endif
