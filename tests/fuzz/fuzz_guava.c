/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of Guava's BloomFilter. */
#include "round.h"

static void try(const char *spec, const uint8_t *data, size_t size)
{
    struct written out = round_trip(spec, data, size);
    if (out.data != NULL)
        MUST(out.len == size && memcmp(out.data, data, size) == 0);
    free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try("guava", data, size);
    try("guava:funnel=bytes", data, size); /* what Java serialized may have any funnel */
    return 0;
}
