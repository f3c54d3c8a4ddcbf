/* SPDX-License-Identifier: MIT */
/* The encoder of counted sets. */
#include "kind/counted/stream.h"

#include <stdlib.h>
#include <string.h>

#include "kind/counted/parts.h"

/* Bytes after a block that the bit writers may overwrite. */
enum { SLACK = 16 };

struct encoder {
    struct counted counted;
    struct counted_part *part;
    size_t room;          /* of part->groups */
    uint64_t first, last; /* fingerprints that the part may have */
    uint64_t previous;
    /* The block whose entries are being collected. */
    uint64_t block, block_last; /* its number, its largest fingerprint */
    uint64_t *value, *count;    /* room for those of a group */
    size_t n;                   /* its entries */
    uint64_t any_counts;        /* each count less 1, all ORed */
    /* The group that is being encoded. */
    size_t begin;                  /* where it begins in part->groups */
    size_t entries;                /* that it has so far */
    uint64_t ends[COUNTED_BLOCKS]; /* as in a large group's table, not counting the table's bytes */
    unsigned slot;                 /* blocks of the group that are encoded */
};

uint64_t counted_group_first(const struct counted *c, uint64_t group)
{
    return group < counted_groups(c) ? counted_block_first(c, group * COUNTED_BLOCKS)
                                     : counted_top(c) + 1;
}

void counted_move_lines(uint8_t *lines, size_t len, uint64_t by)
{
    for (size_t at = 0; at < len; at += COUNTED_LINE)
        put_le64(lines + at, get_le64(lines + at) + by);
}

static void start_block(struct encoder *e, uint64_t block)
{
    uint64_t top = counted_top(&e->counted), first = counted_block_first(&e->counted, block);
    uint64_t width = counted_mask(e->counted.low + COUNTED_BUCKET_BITS);
    e->block = block;
    e->block_last = top - first < width ? top : first + width;
}

/* Returns where the next `len` bytes of groups go; NULL: out of memory. */
static uint8_t *make_out_room(struct encoder *e, size_t len, struct err *err)
{
    enum { ROOM = 1 << 16 };
    struct counted_part *part = e->part;
    if (len > e->room - part->groups_len) {
        size_t room = part->groups_len + len + e->room / 2 + ROOM;
        uint8_t *groups = realloc(part->groups, room);
        if (groups == NULL) {
            fail(err, "out of memory");
            return NULL;
        }
        part->groups = groups;
        e->room = room;
    }
    return part->groups + part->groups_len;
}

static bool is_large_group(const struct encoder *e)
{
    bool large = e->part->groups_len - e->begin > COUNTED_GROUP_BYTES;
    for (unsigned i = 0; i < e->slot; i++)
        large |= (e->ends[i] & COUNTED_LARGE) != 0;
    return large;
}

/* Inserts the table of a group in front of its blocks. */
static bool put_table(struct encoder *e, struct err *err)
{
    size_t table = 8 * (size_t)e->slot;
    if (make_out_room(e, table, err) == NULL)
        return false;
    uint8_t *group = e->part->groups + e->begin;
    memmove(group + table, group, e->part->groups_len - e->begin);
    for (unsigned i = 0; i < e->slot; i++)
        put_le64(group + 8 * i, e->ends[i] + table);
    e->part->groups_len += table;
    return true;
}

static bool finish_group(struct encoder *e, struct err *err)
{
    bool large = is_large_group(e);
    uint8_t *line = e->part->lines + e->part->lines_len;
    put_le64(line, large ? e->begin | COUNTED_LARGE : e->begin);
    for (unsigned i = 0; i < e->slot; i++) {
        unsigned end = large ? 0 : (unsigned)e->ends[i];
        line[8 + 2 * i] = (uint8_t)end;
        line[8 + 2 * i + 1] = (uint8_t)(end >> 8);
    }
    e->part->lines_len += 8 + 2 * (size_t)e->slot;
    if (large && !put_table(e, err))
        return false;
    e->slot = 0;
    e->entries = 0;
    e->begin = e->part->groups_len;
    return true;
}

static bool put_large_block(struct encoder *e, struct err *err)
{
    unsigned wide = counted_wide(&e->counted), bytes = 0;
    uint64_t first = counted_block_first(&e->counted, e->block);
    for (uint64_t most = e->any_counts; most > 0; most >>= 8)
        bytes++;
    size_t len = 1 + e->n * (wide + bytes);
    uint8_t *to = make_out_room(e, len + SLACK, err);
    if (to == NULL)
        return false;
    *to++ = (uint8_t)bytes;
    for (size_t i = 0; i < e->n; i++, to += wide + bytes) {
        put_le64(to, e->value[i] - first);
        put_le64(to + wide, e->count[i] - 1);
    }
    e->part->groups_len += len;
    return true;
}

static void put_remainders(const struct encoder *e, uint8_t *to, uint64_t bit)
{
    struct counted_writer w = counted_writer_at(to, bit);
    unsigned low = e->counted.low;
    uint64_t mask = counted_mask(low);
    for (size_t i = e->n; i-- > 0;)
        counted_write(&w, e->value[i] & mask, low);
    counted_write_end(&w);
}

static bool put_block(struct encoder *e, struct err *err)
{
    enum { WORDS = (COUNTED_BUCKETS + COUNTED_ENTRIES) / 64 };
    const struct counted_code counts = counted_best_code(e->count, e->n);
    unsigned low = e->counted.low;
    uint64_t bits = counted_block_buckets(&e->counted, e->block) + e->n; /* before the counts */
    size_t len = (size_t)(bits + counts.bits + e->n * low + 7) / 8;
    uint8_t *to = make_out_room(e, len + 8 * WORDS + SLACK, err);
    if (to == NULL)
        return false;
    uint64_t word[WORDS] = {0};
    for (size_t i = 0; i < e->n; i++) {
        size_t zero = (size_t)(e->value[i] >> low & (COUNTED_BUCKETS - 1)) + i;
        word[zero / 64] |= (uint64_t)1 << zero % 64;
    }
    /* Up to 7 padding bits after the last word must be zero, too. */
    put_le64(to + 8 * WORDS, 0);
    for (unsigned i = 0; i < WORDS; i++)
        put_le64(to + 8 * i, 64 * i + 64 <= bits ? ~word[i]
                             : 64 * i < bits     ? ~word[i] & counted_mask(bits % 64)
                                                 : 0);
    if (counts.bits > 0)
        counted_put_counts(to, bits, &counts, e->count, e->n);
    put_remainders(e, to, 8 * len - e->n * low);
    e->part->groups_len += len;
    return true;
}

/* Encodes the collected block. */
static bool finish_block(struct encoder *e, struct err *err)
{
    bool large = e->n > COUNTED_ENTRIES;
    bool ok = large ? put_large_block(e, err) : e->n == 0 || put_block(e, err);
    if (!ok)
        return false;
    e->ends[e->slot++] = (e->part->groups_len - e->begin) | (large ? COUNTED_LARGE : 0);
    e->n = 0;
    e->any_counts = 0;
    return e->slot < counted_group_blocks(&e->counted, e->block++ / COUNTED_BLOCKS) ||
           finish_group(e, err);
}

/* Encodes all blocks before the given one. Those after the collected one are empty. */
static bool finish_blocks(struct encoder *e, uint64_t end, struct err *err)
{
    while (e->block < end)
        if (!finish_block(e, err))
            return false;
    return true;
}

static bool encode_run(struct encoder *e, const struct counted_run *run, struct err *err)
{
    struct counted_part *part = e->part;
    for (size_t i = 0; i < run->n; i++) {
        uint64_t v = run->value[i], times = run->count[i];
        if ((part->entries > 0 && v <= e->previous) || v < e->first || v > e->last)
            return fail(err, "the fingerprints of a counted set are not in order");
        if (times == 0 || times > UINT64_MAX - part->total)
            return fail(err, "the counts of a counted set do not fit 64 bits");
        if (v > e->block_last) {
            uint64_t block = v >> e->counted.low >> COUNTED_BUCKET_BITS;
            if (!finish_blocks(e, block, err))
                return false;
            start_block(e, block);
        }
        if (e->entries++ == COUNTED_CROWD)
            return kind_crowded(COUNTED_CROWD, err);
        e->value[e->n] = v;
        e->count[e->n++] = times;
        e->any_counts |= times - 1;
        e->previous = v;
        part->entries++;
        part->total += times;
    }
    return true;
}

static bool encode_all(struct encoder *e, uint64_t end, struct counted_stream *from,
                       struct err *err)
{
    uint64_t blocks = counted_blocks(&e->counted);
    struct counted_run run;
    do {
        if (!counted_next(from, &run, err) || !encode_run(e, &run, err))
            return false;
    } while (run.n > 0);
    return finish_blocks(e, end <= blocks / COUNTED_BLOCKS ? end * COUNTED_BLOCKS : blocks, err);
}

bool counted_encode(const struct counted *design, uint64_t first, uint64_t end,
                    struct counted_stream *from, struct counted_part *part, struct err *err)
{
    struct encoder e = {.counted = *design,
                        .part = part,
                        .first = counted_group_first(design, first),
                        .last = counted_group_first(design, end) - 1,
                        .value = malloc(COUNTED_CROWD * sizeof(uint64_t)),
                        .count = malloc(COUNTED_CROWD * sizeof(uint64_t))};
    *part = (struct counted_part){.lines = malloc((size_t)(end - first) * COUNTED_LINE)};
    start_block(&e, first * COUNTED_BLOCKS);
    bool ok = e.value != NULL && e.count != NULL && part->lines != NULL
                  ? encode_all(&e, end, from, err)
                  : fail(err, "out of memory");
    free(e.value);
    free(e.count);
    return ok;
}

void counted_part_free(struct counted_part *part)
{
    free(part->lines);
    free(part->groups);
}
