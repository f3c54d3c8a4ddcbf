/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "foreign/classic.h"
#include "keys/encoding.h"
#include "foreign/hash.h"

/* With WITH_FOREIGN=no, the others are not built. */
#ifdef SEEN_FOREIGN
const struct hash_fn *const hash_list_foreign[] = {
    &hash_murmur3_128,       &hash_murmur3_128_suffix,
    &hash_murmur3_128_twice, &hash_highway_128,
    &hash_murmur64a_pair,    &hash_murmur2_pair,
    &hash_fnv1_64,           &hash_php_32,
    &hash_murmur3_spark,     NULL};
const struct kind *const kind_list_foreign[] = {
    &kind_guava, &kind_gozero,        &kind_redisson, &kind_php, &kind_redisbloom,
    &kind_dcso,  &kind_bitsandblooms, &kind_spark,    NULL};
#else
const struct encoding encoding_list_foreign[] = {{0}};
const struct hash_fn *const hash_list_foreign[] = {NULL};
const struct kind *const kind_list_foreign[] = {NULL};
#endif
