/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "foreign/classic.h"

/* With WITH_FOREIGN=no, the others are not built. */
#ifdef SEEN_FOREIGN
const struct kind *const kind_list_foreign[] = {
    &kind_guava, &kind_gozero, &kind_redisson, &kind_php, &kind_redisbloom, &kind_dcso, NULL};
#else
const struct kind *const kind_list_foreign[] = {NULL};
#endif
