/* SPDX-License-Identifier: MIT */
/* The encoder of counted sets. */
#include "kind/counted/stream.h"

#include <stdlib.h>
#include <string.h>

#include "kind/counted/parts.h"

/* Bytes are handed to the sink in pieces of about these sizes. */
enum { PIECE = 1 << 20, LINES_PIECE = 1 << 16 };

/* Bytes after a block that the bit writers may overwrite. */
enum { SLACK = 16 };

enum mode {
    WHOLE,   /* groups are collected in `out`; a large block ends it */
    MEASURE, /* of one group, the lengths of its blocks are noted; nothing is written */
    STREAM,  /* this group is written, as it was measured */
};

struct counted_encoder {
    struct counted counted;
    struct counted_sink sink;
    struct counted_made made;
    enum mode mode;
    bool any, crowded;
    uint64_t previous;
    /* The block whose entries are being collected. */
    uint64_t block, block_last; /* its number, its largest fingerprint */
    uint64_t n, any_counts;     /* its entries; each count less 1, all ORed */
    uint64_t value[COUNTED_ENTRIES], count[COUNTED_ENTRIES]; /* of the first entries */
    /* The group that is being encoded, and the bytes that wait for the sink. */
    uint64_t first_group, group, end_group;
    uint64_t group_base;           /* where it begins in the output */
    uint64_t group_len;            /* of its blocks so far, without the table */
    uint64_t ends[COUNTED_BLOCKS]; /* as in a large group's table, not counting the table's bytes */
    uint8_t count_bytes[COUNTED_BLOCKS]; /* of its large blocks */
    unsigned slot;                       /* blocks of the group that are encoded */
    uint8_t *out;
    size_t out_len, out_room, group_at; /* where the group begins in out */
    uint8_t lines[LINES_PIECE];
    size_t lines_len;
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

static void start_block(struct counted_encoder *e, uint64_t block)
{
    uint64_t top = counted_top(&e->counted), first = counted_block_first(&e->counted, block);
    uint64_t width = counted_mask(e->counted.low + COUNTED_BUCKET_BITS);
    e->block = block;
    e->block_last = top - first < width ? top : first + width;
}

struct counted_encoder *counted_encoder_new(const struct counted *design, uint64_t first,
                                            uint64_t end, const struct counted_sink *sink,
                                            struct err *err)
{
    struct counted_encoder *e = calloc(1, sizeof *e);
    if (e == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    e->counted = *design;
    e->sink = *sink;
    e->group = e->first_group = first;
    e->end_group = end;
    start_block(e, first * COUNTED_BLOCKS);
    return e;
}

void counted_encoder_free(struct counted_encoder *e)
{
    if (e == NULL)
        return;
    free(e->out);
    free(e);
}

static bool flush_lines(struct counted_encoder *e, struct err *err)
{
    size_t len = e->lines_len;
    e->made.lines_len += len;
    e->lines_len = 0;
    return len == 0 || e->sink.lines(e->sink.ctx, e->lines, len, err);
}

/* Hands all finished groups to the sink. */
static bool flush_groups(struct counted_encoder *e, struct err *err)
{
    size_t len = e->group_at, rest = e->out_len - len;
    if (len == 0)
        return true;
    bool ok = e->sink.groups(e->sink.ctx, e->out, len, err);
    memmove(e->out, e->out + len, rest);
    e->made.groups_len += len;
    e->group_at = 0;
    e->out_len = rest;
    return ok;
}

/* Makes room for `len` more bytes of output. */
static bool make_out_room(struct counted_encoder *e, uint64_t len, struct err *err)
{
    if (len < e->out_room && e->out_len < e->out_room - len)
        return true;
    uint64_t room = e->out_len + len + PIECE + e->out_room / 2;
    uint8_t *out = room < SIZE_MAX / 2 ? realloc(e->out, (size_t)room) : NULL;
    if (out == NULL)
        return fail(err, "out of memory");
    e->out = out;
    e->out_room = (size_t)room;
    return true;
}

static bool is_large_group(const struct counted_encoder *e)
{
    unsigned blocks = counted_group_blocks(&e->counted, e->group);
    bool large = (e->ends[blocks - 1] & ~COUNTED_LARGE) > COUNTED_GROUP_BYTES;
    for (unsigned i = 0; i < blocks; i++)
        large |= (e->ends[i] & COUNTED_LARGE) != 0;
    return large;
}

static void put_group_line(struct counted_encoder *e, bool large)
{
    uint8_t *line = e->lines + e->lines_len;
    put_le64(line, large ? e->group_base | COUNTED_LARGE : e->group_base);
    for (unsigned i = 0; i < e->slot; i++) {
        unsigned end = large ? 0 : (unsigned)e->ends[i];
        line[8 + 2 * i] = (uint8_t)end;
        line[8 + 2 * i + 1] = (uint8_t)(end >> 8);
    }
    e->lines_len += 8 + 2 * (size_t)e->slot;
}

/* Inserts the table of a group in front of what is in `out` of its blocks. */
static bool put_table(struct counted_encoder *e, struct err *err)
{
    size_t blocks = counted_group_blocks(&e->counted, e->group), table = 8 * blocks;
    if (!make_out_room(e, table, err))
        return false;
    uint8_t *group = e->out + e->group_at;
    memmove(group + table, group, e->out_len - e->group_at);
    for (size_t i = 0; i < blocks; i++)
        put_le64(group + 8 * i, e->ends[i] + table);
    e->out_len += table;
    return true;
}

static bool finish_group(struct counted_encoder *e, struct err *err)
{
    bool large = is_large_group(e);
    if (e->mode == MEASURE) {
        e->made.lines_len = 8 + 2 * (uint64_t)e->slot;
        e->made.groups_len = e->group_len + (large ? 8 * (uint64_t)e->slot : 0);
    } else {
        put_group_line(e, large);
        if (large && e->mode == WHOLE && !put_table(e, err))
            return false;
    }
    e->group++;
    e->slot = 0;
    e->group_len = 0;
    e->group_at = e->out_len;
    e->group_base = e->made.groups_len + e->out_len;
    return (e->out_len < PIECE || flush_groups(e, err)) &&
           (e->lines_len + COUNTED_LINE <= LINES_PIECE || flush_lines(e, err));
}

/* Writes an entry of a large block. */
static bool put_large_entry(struct counted_encoder *e, uint64_t v, uint64_t count, struct err *err)
{
    unsigned wide = counted_wide(&e->counted);
    if (!make_out_room(e, wide + 8 + SLACK, err))
        return false;
    uint8_t *to = e->out + e->out_len;
    put_le64(to, v - counted_block_first(&e->counted, e->block));
    put_le64(to + wide, count - 1);
    e->out_len += wide + e->count_bytes[e->slot];
    e->group_at = e->out_len;
    return e->out_len < PIECE || flush_groups(e, err);
}

/* Begins a large block, with the entries that were collected. */
static bool start_large(struct counted_encoder *e, struct err *err)
{
    if (!make_out_room(e, 1 + SLACK, err))
        return false;
    e->out[e->out_len++] = e->count_bytes[e->slot];
    for (size_t i = 0; i < COUNTED_ENTRIES; i++)
        if (!put_large_entry(e, e->value[i], e->count[i], err))
            return false;
    return true;
}

/* The encoding of a block that is not large. */
struct code {
    struct counted_code counts;
    uint64_t bits, len; /* before the counts; bytes of all */
};

static struct code code_of(const struct counted_encoder *e)
{
    struct code c = {.counts = counted_best_code(e->count, (size_t)e->n)};
    c.bits = counted_block_buckets(&e->counted, e->block) + e->n;
    c.len = (c.bits + c.counts.bits + e->n * e->counted.low + 7) / 8;
    return c;
}

static void put_remainders(struct counted_encoder *e, uint8_t *to, uint64_t bit)
{
    struct counted_writer w = counted_writer_at(to, bit);
    unsigned low = e->counted.low;
    uint64_t mask = counted_mask(low);
    for (size_t i = (size_t)e->n; i-- > 0;)
        counted_write(&w, e->value[i] & mask, low);
    counted_write_end(&w);
}

static bool put_block(struct counted_encoder *e, const struct code *code, struct err *err)
{
    enum { WORDS = (COUNTED_BUCKETS + COUNTED_ENTRIES) / 64 };
    unsigned low = e->counted.low;
    uint64_t bits = code->bits;
    if (!make_out_room(e, code->len + 8 * WORDS + SLACK, err))
        return false;
    uint8_t *to = e->out + e->out_len;
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
    if (code->counts.bits > 0)
        counted_put_counts(to, bits, &code->counts, e->count, (size_t)e->n);
    put_remainders(e, to, 8 * code->len - e->n * low);
    e->out_len += (size_t)code->len;
    return true;
}

/* The length of the collected block, which is large. */
static uint64_t measure_large(struct counted_encoder *e)
{
    unsigned bytes = 0;
    for (uint64_t most = e->any_counts; most > 0; most >>= 8)
        bytes++;
    e->count_bytes[e->slot] = (uint8_t)bytes;
    return 1 + e->n * (counted_wide(&e->counted) + bytes);
}

/* Encodes the collected block. Of a large one all has been written. */
static bool finish_block(struct counted_encoder *e, struct err *err)
{
    bool large = e->n > COUNTED_ENTRIES;
    if (large) {
        e->group_len += measure_large(e);
    } else if (e->n > 0) {
        struct code code = code_of(e);
        if (e->mode != MEASURE && !put_block(e, &code, err))
            return false;
        e->group_len += code.len;
    }
    e->ends[e->slot++] = e->group_len | (large ? COUNTED_LARGE : 0);
    e->n = e->any_counts = 0;
    return e->slot < counted_group_blocks(&e->counted, e->group) || finish_group(e, err);
}

/* Ends the current block and starts the given one. All blocks between are empty. */
static bool go_to_block(struct counted_encoder *e, uint64_t block, struct err *err)
{
    while (e->block < block) {
        if (!finish_block(e, err))
            return false;
        e->block++;
    }
    start_block(e, block);
    return true;
}

/* Takes an entry that makes a block large, or a later one. */
static bool crowd(struct counted_encoder *e, uint64_t v, uint64_t times, struct err *err)
{
    if (e->mode == STREAM)
        return (e->n > COUNTED_ENTRIES || start_large(e, err)) && put_large_entry(e, v, times, err);
    e->crowded = e->mode == WHOLE;
    return !e->crowded || fail(err, "a block of a counted set is large");
}

bool counted_encode(struct counted_encoder *e, const uint64_t *value, const uint64_t *count,
                    size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t v = value[i], times = count != NULL ? count[i] : 1;
        if ((e->any && v <= e->previous) || v > counted_top(&e->counted))
            return fail(err, "the fingerprints of a counted set are not in order");
        if (times == 0 || times > UINT64_MAX - e->made.total)
            return fail(err, "the counts of a counted set do not fit 64 bits");
        if (v > e->block_last) {
            uint64_t block = v >> e->counted.low >> COUNTED_BUCKET_BITS;
            if (block / COUNTED_BLOCKS >= e->end_group)
                return fail(err, "a fingerprint is not in its part of a counted set");
            if (!go_to_block(e, block, err))
                return false;
        } else if (!e->any && v < counted_block_first(&e->counted, e->block)) {
            return fail(err, "a fingerprint is not in its part of a counted set");
        }
        if (e->n < COUNTED_ENTRIES) {
            e->value[e->n] = v;
            e->count[e->n] = times;
        } else if (!crowd(e, v, times, err)) {
            return false;
        }
        e->n++;
        e->any_counts |= times - 1;
        e->any = true;
        e->previous = v;
        e->made.entries++;
        e->made.total += times;
    }
    return true;
}

bool counted_encoder_end(struct counted_encoder *e, struct counted_made *made, struct err *err)
{
    while (e->group < e->end_group) {
        if (!finish_block(e, err))
            return false;
        e->block++;
    }
    if (!flush_groups(e, err) || !flush_lines(e, err))
        return false;
    *made = e->made;
    return true;
}

bool counted_encode_all(struct counted_encoder *e, struct counted_stream *from,
                        struct counted_made *made, struct err *err)
{
    struct counted_run run;
    do {
        if (!counted_next(from, &run, err) || !counted_encode(e, run.value, run.count, run.n, err))
            return false;
    } while (run.n > 0);
    return counted_encoder_end(e, made, err);
}

bool counted_is_crowded(const struct counted_encoder *e)
{
    return e->crowded;
}

bool counted_measure(struct counted_encoder *e, struct counted_stream *from,
                     struct counted_made *made, struct err *err)
{
    e->mode = MEASURE;
    if (!counted_encode_all(e, from, made, err))
        return false;
    /* Begin again. */
    e->mode = STREAM;
    e->made = (struct counted_made){0};
    e->any = false;
    e->group = e->first_group;
    e->group_base = 0;
    start_block(e, e->group * COUNTED_BLOCKS);
    return !is_large_group(e) || put_table(e, err);
}
