/* SPDX-License-Identifier: MIT */
/* Bitmaps as go-zero's. The first four bytes are the number of bits, less one. */
#include <inttypes.h>

#include "foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char spec[64];
    if (size < 4)
        return 0;
    snprintf(spec, sizeof spec, "gozero:bits=%" PRIu64, (uint64_t)get_le32(data) + 1);
    foreign_bitmap(spec, data + 4, size - 4, 1 << 20);
    return 0;
}
