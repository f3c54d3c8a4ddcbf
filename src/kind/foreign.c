/* SPDX-License-Identifier: MIT */
#include "kind/foreign.h"

#include <string.h>

#include "base/bytes.h"

/* Reverses the bits of each byte of a word. */
static uint64_t reverse_bits(uint64_t w)
{
    w = (w >> 4 & 0x0f0f0f0f0f0f0f0f) | (w & 0x0f0f0f0f0f0f0f0f) << 4;
    w = (w >> 2 & 0x3333333333333333) | (w & 0x3333333333333333) << 2;
    return (w >> 1 & 0x5555555555555555) | (w & 0x5555555555555555) << 1;
}

static uint64_t reorder_word(uint64_t w, enum layout_order order)
{
    switch (order) {
    case ORDER_HIGH_FIRST:
        return reverse_bits(w);
    case ORDER_BIG_WORDS:
        return __builtin_bswap64(w);
    default:
        return w;
    }
}

/* Converts between a foreign order and ours; every order is its own inverse. An incomplete last
 * word is padded with zeroes, and the padding is not written. */
static void reorder(uint8_t *out, const uint8_t *in, size_t len, enum layout_order order)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        put_le64(out + i, reorder_word(get_le64(in + i), order));
    if (i < len) {
        uint8_t last[8] = {0};
        memcpy(last, in + i, len - i);
        put_le64(last, reorder_word(get_le64(last), order));
        memcpy(out + i, last, len - i);
    }
}

void layout_take(const struct layout_bits *bits, uint64_t at, uint8_t *out, size_t len)
{
    uint64_t there = at < bits->len ? bits->len - at : 0;
    size_t n = there < len ? (size_t)there : len;
    if (n > 0)
        reorder(out, bits->data + at, n, bits->order);
    memset(out + n, 0, len - n);
}

bool layout_put(const struct layout_sink *sink, unsigned file, const uint8_t *bits, uint64_t len,
                enum layout_order order, struct err *err)
{
    uint8_t piece[1 << 14];
    for (uint64_t at = 0; at < len; at += sizeof piece) {
        size_t n = len - at < sizeof piece ? (size_t)(len - at) : sizeof piece;
        reorder(piece, bits + at, n, order);
        if (!sink->write(sink->ctx, file, piece, n, err))
            return false;
    }
    return true;
}
