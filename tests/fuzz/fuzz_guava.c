/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of Guava's BloomFilter. */
#include "round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct written out = round_trip("guava", data, size);
    /* What follows the words is not kept. */
    if (out.data != NULL)
        MUST(out.len <= size && memcmp(out.data, data, out.len) == 0);
    free(out.data);
    return 0;
}
