/* SPDX-License-Identifier: MIT */
/* XXH3 for the CPU that the program is compiled for. */
#define XXH3_VARIANT   xxh3_plain
#define XXH3_NAME      "plain"
#define XXH3_AVAILABLE NULL
#include "keys/xxh3_body.h"
