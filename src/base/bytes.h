/* SPDX-License-Identifier: MIT */
/* A run of bytes; and loads and stores of little-endian (and a few big-endian) numbers, whatever
 * the machine's byte order and alignment. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *data;
    size_t len;
};

static inline bool byte_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTES_LE32(v) (v)
#define BYTES_LE64(v) (v)
#else
#define BYTES_LE32(v) __builtin_bswap32(v)
#define BYTES_LE64(v) __builtin_bswap64(v)
#endif

static inline uint32_t get_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(BYTES_LE32(v));
}

static inline void put_be32(void *p, uint32_t v)
{
    v = __builtin_bswap32(BYTES_LE32(v));
    memcpy(p, &v, sizeof v);
}

static inline uint32_t get_le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return BYTES_LE32(v);
}

static inline uint64_t get_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return BYTES_LE64(v);
}

static inline void put_le32(void *p, uint32_t v)
{
    v = BYTES_LE32(v);
    memcpy(p, &v, sizeof v);
}

static inline void put_le64(void *p, uint64_t v)
{
    v = BYTES_LE64(v);
    memcpy(p, &v, sizeof v);
}

static inline uint64_t get_be64(const void *p)
{
    return __builtin_bswap64(get_le64(p));
}

static inline void put_be64(void *p, uint64_t v)
{
    put_le64(p, __builtin_bswap64(v));
}

/* Are all bytes zero? True if len is 0. */
static inline bool bytes_zero(const void *p, size_t len)
{
    const uint8_t *byte = p;
    return len == 0 || (byte[0] == 0 && memcmp(byte, byte + 1, len - 1) == 0);
}

/* The last byte `c` of these, or NULL. */
static inline void *bytes_last(const void *p, char c, size_t len)
{
    char *at;
    memcpy(&at, &p, sizeof at);
    while (len > 0)
        if (at[--len] == c)
            return at + len;
    return NULL;
}

/* The number of set bits. */
static inline uint64_t bytes_count(const void *p, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)p;
    uint64_t n = 0, word;
    for (; len >= sizeof word; bytes += sizeof word, len -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        n += (unsigned)__builtin_popcountll(word);
    }
    for (; len > 0; len--)
        n += (unsigned)__builtin_popcount(*bytes++);
    return n;
}

/* IEEE 754 binary64, stored as its 64 bits. */
static inline double get_double(const void *p)
{
    uint64_t bits = get_le64(p);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline void put_double(void *p, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_le64(p, bits);
}

#endif
