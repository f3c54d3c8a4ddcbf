/* SPDX-License-Identifier: MIT */
/* The counts of a block, in the code that counted.h describes. */
#include "kind/counted/parts.h"

static unsigned log2_of(uint64_t x)
{
    return 63 - (unsigned)__builtin_clzll(x);
}

static uint64_t golomb_bits(const struct counted_entry *e, size_t n, unsigned order)
{
    uint64_t bits = n * (order + 1);
    for (size_t i = 0; i < n; i++)
        bits += 2 * log2_of(((e[i].count - 1) >> order) + 1);
    return bits;
}

unsigned counted_order(const struct counted_entry *e, size_t n, uint64_t *bits)
{
    uint64_t any = 0, least, next;
    unsigned order = 0;
    *bits = 0;
    for (size_t i = 0; i < n; i++)
        any |= e[i].count - 1;
    if (any == 0)
        return 0;
    for (least = golomb_bits(e, n, 0); order < 63; order++, least = next)
        if ((next = golomb_bits(e, n, order + 1)) >= least)
            break;
    *bits = 8 + least;
    return order;
}

void counted_put_counts(struct counted_writer *w, const struct counted_entry *e, size_t n,
                        unsigned order)
{
    counted_write(w, order, 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = e[i].count - 1, y = (x >> order) + 1; /* 1 to 2^64 - 1 */
        unsigned c = log2_of(y);
        uint64_t rest = x - (counted_mask(c) << order);
        if (2 * c + 1 + order <= 64) {
            counted_write(w, (uint64_t)1 << c | rest << c << 1, 2 * c + 1 + order);
            continue;
        }
        counted_write(w, (uint64_t)1 << c, c + 1);
        counted_write(w, rest, c + order);
    }
}

/* Reads a count at *bit, which is below `end`, and advances. 0: it is not valid. */
static inline uint64_t get_count(const uint8_t *data, uint64_t *bit, uint64_t end, unsigned order)
{
    uint64_t zeros = counted_bits(data, *bit, 64);
    if (zeros == 0)
        return 0;
    unsigned c = (unsigned)__builtin_ctzll(zeros), width = c + order;
    uint64_t at = *bit + c + 1;
    if (width > 64 || at + width > end)
        return 0;
    *bit = at + width;
    uint64_t less = counted_mask(c) << order, x = counted_bits(data, at, width) + less;
    return x >= less ? x + 1 : 0; /* 0, too, if x is 2^64 - 1 */
}

bool counted_get_counts(const struct counted_set *set, const struct counted_block *b,
                        struct counted_entry *e)
{
    uint64_t bit = counted_counts_at(set, b), end = 8 * b->end, some = 0;
    if (end - bit < 8) {
        for (unsigned i = 0; i < b->n; i++)
            e[i].count = 1;
    } else {
        unsigned order = (unsigned)counted_bits(set->data, bit, 8);
        bit += 8;
        for (unsigned i = 0; i < b->n; i++) {
            e[i].count = order < 64 && bit < end ? get_count(set->data, &bit, end, order) : 0;
            if (e[i].count == 0)
                return false;
            some |= e[i].count - 1;
        }
        if (some == 0)
            return false;
    }
    return end - bit < 8 && counted_bits(set->data, bit, (unsigned)(end - bit)) == 0;
}

uint64_t counted_get_count(const struct counted_set *set, const struct counted_block *b, uint64_t i)
{
    uint64_t bit = counted_counts_at(set, b), end = 8 * b->end, count = 1;
    if (end - bit < 8)
        return 1;
    unsigned order = (unsigned)counted_bits(set->data, bit, 8);
    bit += 8;
    for (uint64_t left = i + 1; left > 0; left--) {
        if (order == 0) { /* a run of ones is a run of counts of 1 */
            uint64_t ones = (unsigned)__builtin_ctzll(~counted_bits(set->data, bit, 63));
            if (ones >= left)
                return bit + left <= end;
            bit += ones;
            left -= ones;
        }
        count = order < 64 && bit < end ? get_count(set->data, &bit, end, order) : 0;
        if (count == 0)
            return 0;
    }
    return count;
}
