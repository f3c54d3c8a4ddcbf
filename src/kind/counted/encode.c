/* SPDX-License-Identifier: MIT */
/* Encodes entries as blocks. */
#include <stdlib.h>
#include <string.h>

#include "kind/counted/parts.h"

void counted_move_lines(uint8_t *lines, size_t len, uint64_t by)
{
    for (size_t at = 0; at < len; at += COUNTED_LINE)
        put_le64(lines + at, get_le64(lines + at) + by);
}

/* Where the next `len` bytes of blocks go; NULL: out of memory. */
static uint8_t *make_out_room(struct counted_part *part, size_t len, size_t *room)
{
    enum { ROOM = 1 << 14 };
    if (len > *room - part->blocks_len) {
        size_t more = part->blocks_len + len + *room / 2 + ROOM;
        uint8_t *blocks = realloc(part->blocks, more);
        if (blocks == NULL)
            return NULL;
        part->blocks = blocks;
        *room = more;
    }
    return part->blocks + part->blocks_len;
}

/* Appends a block with n entries, n > 0. */
static bool put_block(unsigned low, const struct counted_entry *e, size_t n,
                      struct counted_part *part, size_t *room, struct err *err)
{
    uint64_t counts, marks = COUNTED_BUCKETS + n;
    unsigned order = counted_order(e, n, &counts);
    size_t len = (size_t)(marks + n * low + counts + 7) / 8;
    uint8_t *to = make_out_room(part, len + COUNTED_SLACK, room);
    if (to == NULL)
        return fail(err, "out of memory");
    struct counted_writer w = {to, marks};
    memset(to, 0xff, (size_t)marks / 8 + 1);
    for (size_t i = 0; i < n; i++) {
        size_t zero = (size_t)(e[i].value >> low & (COUNTED_BUCKETS - 1)) + i;
        to[zero / 8] &= (uint8_t) ~(1U << zero % 8);
    }
    counted_write(&w, 0, 0); /* with low = 0, too, the bits behind are zero */
    for (size_t i = 0; i < n; i++)
        counted_write(&w, e[i].value & counted_mask(low), low);
    if (counts > 0)
        counted_put_counts(&w, e, n, order);
    part->blocks_len += len;
    return true;
}

bool counted_encode(const struct counted *design, uint64_t first, uint64_t end,
                    const struct counted_entry *e, size_t n, struct counted_part *part,
                    struct err *err)
{
    size_t at = 0, stretch = 0, room = 0;
    *part = (struct counted_part){.lines = malloc((size_t)(end - first) * COUNTED_LINE)};
    if (part->lines == NULL)
        return fail(err, "out of memory");
    for (uint64_t block = first; block < end; block++) {
        const size_t begin = at;
        if (block % COUNTED_STRETCH == 0)
            stretch = at;
        for (; at < n && counted_block_of(design, e[at].value) == block; at++)
            part->sums.total += e[at].count;
        if (at - stretch > COUNTED_CROWD)
            return kind_crowded(COUNTED_CROWD, err);
        if (at > begin && !put_block(design->low, e + begin, at - begin, part, &room, err))
            return false;
        put_le64(part->lines + part->lines_len, part->blocks_len | (uint64_t)(at - begin)
                                                                       << COUNTED_END_BITS);
        part->lines_len += COUNTED_LINE;
    }
    part->sums.entries = n;
    return true;
}

void counted_part_free(struct counted_part *part)
{
    free(part->lines);
    free(part->blocks);
}
