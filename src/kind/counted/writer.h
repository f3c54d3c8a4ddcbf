/* Writes bit strings: bit i is bit i mod 8 of byte i div 8. */
#ifndef KIND_COUNTED_WRITER_H
#define KIND_COUNTED_WRITER_H

#include "base/bytes.h"

struct counted_writer {
    uint8_t *to;
    uint64_t word; /* the next `fill` bits, to be written to `to`; fill is at most 63 */
    unsigned fill;
};

/* Starts at bit number `bit`. Keeps the bits before it. */
static inline struct counted_writer counted_writer_at(uint8_t *data, uint64_t bit)
{
    uint8_t *to = data + bit / 8;
    unsigned fill = bit & 7;
    return (struct counted_writer){.to = to, .word = *to & ((1u << fill) - 1), .fill = fill};
}

/* Appends the low `width` bits of v, at most 64. All higher bits of v must be zero. */
static inline void counted_write(struct counted_writer *w, uint64_t v, unsigned width)
{
    w->word |= v << w->fill;
    if (w->fill + width < 64) {
        w->fill += width;
        return;
    }
    put_le64(w->to, w->word);
    w->to += 8;
    w->word = w->fill > 0 ? v >> (64 - w->fill) : 0;
    w->fill = w->fill + width - 64;
}

/* Writes the last bits. Also zeroes at least the 8 bits after them, and at most 9 bytes. */
static inline void counted_write_end(const struct counted_writer *w)
{
    put_le64(w->to, w->word);
    w->to[8] = 0;
}

#endif
