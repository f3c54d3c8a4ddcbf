/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of Spark's BloomFilter. */
#include "round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct written out = round_trip("spark", data, size);
    if (out.data != NULL)
        MUST(out.len == size && memcmp(out.data, data, size) == 0);
    free(out.data);
    return 0;
}
