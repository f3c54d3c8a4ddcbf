/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of bits-and-blooms/bloom. */
#include "round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct written out = round_trip("bitsandblooms", data, size);
    if (out.data != NULL)
        MUST(out.len == size && memcmp(out.data, data, size) == 0);
    free(out.data);
    return 0;
}
