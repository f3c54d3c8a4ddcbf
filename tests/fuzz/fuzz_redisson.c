/* SPDX-License-Identifier: MIT */
/* Bitmaps as Redisson's. The first four bytes are the number of bits, less one. The next two are
 * the number of positions, less one, in the low 12 bits, and the codec. */
#include <inttypes.h>

#include "foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const codecs[] = {"string", "long",      "int",      "bytes",   "json",
                                         "kryo5",  "kryo5long", "kryo5int", "kryo5ref"};
    char spec[128], shown[LAYOUT_TEXT];
    struct foreign f;
    if (size < 6)
        return 0;
    uint64_t m = (uint64_t)get_le32(data) % UINT32_C(0xfffffffe) + 1;
    unsigned k = data[4] + 1U + (data[5] & 15U) * 256, codec = (data[5] >> 4) % 9U;
    snprintf(spec, sizeof spec, "redisson:codec=%s,bits=%" PRIu64 ",k=%u", codecs[codec], m, k);
    data += 6;
    size -= 6;
    foreign_bitmap(spec, data, size, 1 << 20);
    if (foreign_read(&f, spec, "-", data, size)) {
        layout_show(&f.filter, shown, sizeof shown);
        MUST(strcmp(shown, spec) == 0);
        foreign_free(&f);
    }
    return 0;
}
