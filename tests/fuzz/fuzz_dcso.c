/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of DCSO's bloom. */
#include "round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct written out = round_trip("dcso", data, size);
    /* All but seven bytes, which mean nothing. */
    if (out.data != NULL)
        MUST(out.len == size && out.data[0] == data[0] &&
             memcmp(out.data + 8, data + 8, size - 8) == 0);
    free(out.data);
    return 0;
}
