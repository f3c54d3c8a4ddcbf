/*
 * The hash functions of a PHP class for Bloom filters in Redis, and the hash function of such a
 * filter: lane i is the value of function i of those that the seed lists; it is 0 behind the last.
 *
 * The functions, of 32 bits, come from Arash Partow's General Purpose Hash Function Algorithms
 * Library. In PHP they give other values: a sum or product that does not fit a signed integer of 64
 * bits is rounded to a double.
 *
 * A list of functions is a seed: four bits for each, the lowest first, then zeros.
 */
#ifndef KEYS_PHP_H
#define KEYS_PHP_H

#include "keys/hash.h"

/* As stored in a seed; 0 is none. */
enum php_function {
    PHP_BKDR = 1,
    PHP_SDBM,
    PHP_JS,
    PHP_DJB,
    PHP_DEK,
    PHP_FNV,
    PHP_ELF,
    PHP_PJW,
    PHP_LAST = PHP_PJW
};

enum { PHP_MOST = 8 }; /* functions of a filter */

extern const struct hash_fn hash_php_32;

/* What the class calls it: "BKDRHash". NULL: there is no such function. */
const char *php_name(unsigned function);

/* 0: no function has that name. */
unsigned php_by_name(const char *name);

/* How many functions a seed lists; 0: it is not such a list. */
unsigned php_functions(uint64_t seed);

#endif
