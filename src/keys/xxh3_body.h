/* SPDX-License-Identifier: MIT
 * XXH3 for one instruction set. Included by xxh3_*.c, which select the instruction set and define
 *
 *     XXH3_VARIANT    the name of the struct xxh3_variant that is made here
 *     XXH3_NAME, XXH3_AVAILABLE    its struct variant
 *     XXH3_TARGET     its instructions, as in __attribute__((target(...))), if not the default
 *     XXH_VECTOR      the choice of vectors of <xxhash.h>, where its default would differ
 *
 * XXH3 has a separate path for each range of key lengths. With mixed lengths, the CPU mispredicts
 * the path of every other key, which costs more than the hash. So the keys of a group are sorted by
 * path, without a branch, and hashed path by path.
 */
#include "keys/xxh3.h"

#ifdef CPU_X86
#include <immintrin.h>
#endif
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/ahead.h"
#include "base/variant.h"
#include "keys/split.h"

/* No system header may follow: its inline functions would be compiled for that target. */
#ifdef XXH3_TARGET
#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define PUSH_TARGET(t) PRAGMA(clang attribute push(__attribute__((target(t))), apply_to = function))
#else
#define PUSH_TARGET(t) _Pragma("GCC push_options") PRAGMA(GCC target(t))
#endif
PUSH_TARGET(XXH3_TARGET)
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

/* X(path, shortest key, longest key). */
#define WAYS(X)                                                                                    \
    X(0, 0, 0)                                                                                     \
    X(1, 1, 3)                                                                                     \
    X(2, 4, 8)                                                                                     \
    X(3, 9, 16)                                                                                    \
    X(4, 17, 32)                                                                                   \
    X(5, 33, 64)                                                                                   \
    X(6, 65, 96)                                                                                   \
    X(7, 97, 128)                                                                                  \
    X(8, 129, 240)                                                                                 \
    X(9, 241, SIZE_MAX)

#define PLUS_ONE(way, shortest, longest) +1
enum { N_WAYS = 0 WAYS(PLUS_ONE) };

/* Keys are mostly adjacent in memory. The bytes this far ahead, in a batch that is not split yet,
 * are prefetched while the CPU computes the hash: this saves a twentieth of the time of a query. */
enum { AHEAD = 16 << 10 };

/* The keys of a group, and the destination of their hashes. */
struct keys {
    const char *const *data;
    const size_t *len;
    uint64_t seed;
    uint64_t *out;
};

/* which[j] = ways + 1 + i selects key i, in the form of split()'s output. The compiler knows the
 * range of lengths, so it drops the other paths. */
#define HASH_WAY(way, shortest, longest)                                                           \
    __attribute__((flatten)) static void hash_way_##way(                                           \
        struct keys keys, const char *const *which, const char *ways, size_t n)                    \
    {                                                                                              \
        for (size_t j = 0; j < n; j++) {                                                           \
            size_t i = (size_t)(which[j] - ways) - 1, len = keys.len[i];                           \
            if (len - (shortest) > (longest) - (shortest)) /* outside the range */                 \
                __builtin_unreachable();                                                           \
            ahead_fetch(ahead_of(keys.data[i], AHEAD));                                            \
            keys.out[i] = XXH3_64bits_withSeed(keys.data[i], len, keys.seed);                      \
        }                                                                                          \
    }

WAYS(HASH_WAY)

static uint64_t hash_one(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

/* The loops over a group have a constant number of turns and no branch, so that they are
 * vectorized. */

static void find_ways(const size_t *restrict len, char *restrict ways)
{
    unsigned char shortened[XXH3_GROUP];
    for (size_t i = 0; i < XXH3_GROUP; i++)
        shortened[i] = (unsigned char)(len[i] < UCHAR_MAX ? len[i] : UCHAR_MAX);
#define LONGER(way, shortest, longest) +(shortened[i] > (unsigned char)(longest))
    for (size_t i = 0; i < XXH3_GROUP; i++)
        ways[i] = (char)(0 WAYS(LONGER));
}

static void hash_listed(unsigned way, struct keys keys, const char *const *which, const char *ways,
                        size_t n)
{
    switch (way) {
#define CASE(c, shortest, longest)                                                                 \
    case c:                                                                                        \
        hash_way_##c(keys, which, ways, n);                                                        \
        break;
        WAYS(CASE)
    }
}

static void hash_group(const char *const *data, const size_t *len, uint64_t seed, uint64_t *out)
{
    _Alignas(64) char ways[XXH3_GROUP];
    const char *which[XXH3_GROUP + SPLIT_SLACK];
    size_t between[XXH3_GROUP];
    if (len == NULL)
        for (size_t i = 0; i < XXH3_GROUP; i++)
            between[i] = hash_len(data, NULL, i);
    const struct keys keys = {data, len != NULL ? len : between, seed, out};
    find_ways(keys.len, ways);
    if (memcmp(ways, ways + 1, XXH3_GROUP - 1) == 0) {
        for (size_t i = 0; i < XXH3_GROUP; i++)
            which[i] = ways + i + 1;
        hash_listed((unsigned)ways[0], keys, which, ways, XXH3_GROUP);
        return;
    }
    for (unsigned way = 0; way < N_WAYS; way++) {
        size_t scanned;
        size_t n = split(ways, XXH3_GROUP, (char)way, which, XXH3_GROUP, &scanned);
        hash_listed(way, keys, which, ways, n);
    }
}

const struct xxh3_variant XXH3_VARIANT = {{XXH3_NAME, XXH3_AVAILABLE}, hash_one, hash_group};

#ifdef XXH3_TARGET
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
