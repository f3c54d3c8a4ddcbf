/* SPDX-License-Identifier: MIT
 * Guava's BloomFilter as Java serializes it (ObjectOutputStream): a header with k and the number of
 * words, the words as writeTo writes them, then the funnel and the strategy as objects.
 */
#ifndef FOREIGN_JAVA_H
#define FOREIGN_JAVA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JAVA_HEADER = 226, /* bytes before the words */
    JAVA_TAIL = 320,   /* at least the bytes after them, with a funnel of Guava */
};

/* Is this the beginning of a serialized filter? Of fewer bytes than JAVA_HEADER: no. */
bool java_begins(const uint8_t *p, uint64_t len);

void java_get(const uint8_t header[JAVA_HEADER], uint32_t *k, uint32_t *words);
void java_put(uint8_t header[JAVA_HEADER], uint32_t k, uint32_t words);

/* Writes what follows the words, with a funnel of Guava by its number in the layout's list and the
 * strategy MURMUR128_MITZ_64 or _32. Returns its length. */
size_t java_tail(unsigned funnel, bool is_64, uint8_t out[JAVA_TAIL]);

/* The strategy of a tail with any funnel. False: it does not end in a strategy. */
bool java_strategy(const uint8_t *tail, uint64_t len, bool *is_64);

#endif
