/*
 * Slots of a Redis Cluster (Redis Cluster Specification, "Key distribution model"): a key belongs
 * to slot CRC16(key) mod 16384. If at least one byte lies between the first '{' of the key and the
 * next '}', only those bytes are hashed. So keys can be placed in the same slot.
 */
#ifndef REDIS_SLOT_H
#define REDIS_SLOT_H

#include <stddef.h>

enum { SLOTS = 16384 };

unsigned slot_of(const void *key, size_t len);

#endif
