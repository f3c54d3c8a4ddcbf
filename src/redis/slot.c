#include "redis/slot.h"

#include <string.h>

/* CRC-16/XMODEM: polynomial x^16 + x^12 + x^5 + 1, initial value 0, nothing reflected. Four bits at
 * a time: the remainder of i * x^16, i < 16, is the integer product of i and the polynomial's lower
 * part 0x1021. The bits of 0x1021 are at least 4 apart, so nothing carries. */
static unsigned crc16(const unsigned char *p, size_t len)
{
    unsigned crc = 0;
    for (; len > 0; p++, len--) {
        crc = (crc << 4 ^ (crc >> 12 ^ *p >> 4) * 0x1021) & 0xffff;
        crc = (crc << 4 ^ (crc >> 12 ^ (*p & 15)) * 0x1021) & 0xffff;
    }
    return crc;
}

unsigned slot_of(const void *key, size_t len)
{
    const unsigned char *begin = key, *end = begin + len;
    const unsigned char *open = len > 0 ? memchr(begin, '{', len) : NULL;
    if (open != NULL) {
        const unsigned char *tag = open + 1;
        const unsigned char *close = tag < end ? memchr(tag, '}', (size_t)(end - tag)) : NULL;
        if (close != NULL && close > tag) {
            begin = tag;
            end = close;
        }
    }
    return crc16(begin, (size_t)(end - begin)) % SLOTS;
}
