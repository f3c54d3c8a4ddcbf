/*
 * The hash functions of a PHP class for Bloom filters in Redis. A filter of this class uses several
 * of them: lane i is the value of function i in the list of the seed; lanes after the last are 0.
 *
 * The functions, of 32 bits, come from Arash Partow's General Purpose Hash Function Algorithms
 * Library. In PHP they give other values: a sum or product that does not fit a signed integer of 64
 * bits is rounded to a double.
 *
 * The seed is a list of functions: four bits for each, the lowest first, then zeros.
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

enum { PHP_MOST = 8 }; /* functions of a filter, at most */

extern const struct hash_fn hash_php_32;

/* The name of a function in the class: "BKDRHash". NULL: there is no such function. */
const char *php_name(unsigned function);

/* 0: no function has that name. */
unsigned php_by_name(const char *name);

/* The number of functions in a seed; 0: the seed is not a list of functions. */
unsigned php_functions(uint64_t seed);

#endif
