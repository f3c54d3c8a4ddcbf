/*
 * HighwayHash compiled for one instruction set. Private to highway*.c.
 */
#ifndef KEYS_HIGHWAY_VARIANT_H
#define KEYS_HIGHWAY_VARIANT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/variant.h"

enum { HIGHWAY_LANES = 4, HIGHWAY_PACKET = HIGHWAY_LANES * 8, HIGHWAY_LAST = 6 };

struct highway_variant {
    struct variant variant;
    /* The halves of the hash go to out[0] and out[stride]. */
    void (*one)(const char *data, size_t len, uint64_t *out, size_t stride);
};

extern const struct highway_variant highway_avx2;

/* Redisson's key. */
static const uint64_t highway_key[HIGHWAY_LANES] = {0x9e3779b97f4a7c15, 0xf39cc0605cedc834,
                                                    0x1082276bf3a27251, 0xf86c6a11d0c18e95};

/* The initial state, from the reference implementation (google/highwayhash). */
static const uint64_t highway_begin0[HIGHWAY_LANES] = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0,
                                                       0x13198a2e03707344, 0x243f6a8885a308d3};
static const uint64_t highway_begin1[HIGHWAY_LANES] = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c,
                                                       0xbe5466cf34e90c6c, 0x452821e638d01377};

/* Makes the packet of the last n bytes of a key; n is 1 to HIGHWAY_PACKET - 1. */
static inline void highway_rest(const char *data, unsigned n, char packet[HIGHWAY_PACKET])
{
    const unsigned words = n / 4 * 4, odd = n % 4;
    memset(packet, 0, HIGHWAY_PACKET);
    memcpy(packet, data, words);
    if (n >= 16) {
        memcpy(packet + HIGHWAY_PACKET - 4, data + n - 4, 4);
    } else if (odd > 0) {
        packet[16] = data[words];
        packet[17] = data[words + odd / 2];
        packet[18] = data[n - 1];
    }
}

#endif
