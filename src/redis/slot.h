/*
 * Slots of a Redis Cluster (Redis Cluster Specification, "Key distribution model"): a key belongs
 * to slot CRC16(key) mod 16384. If it holds a '{' and behind it a '}' that is not the very next
 * byte, only what is between the first of each counts, so that keys can be made to lie together.
 */
#ifndef REDIS_SLOT_H
#define REDIS_SLOT_H

#include <stddef.h>

enum { SLOTS = 16384 };

unsigned slot_of(const void *key, size_t len);

#endif
