/* The encoder of counted sets. */
#include "kind/counted/encode.h"

#include <stdlib.h>
#include <string.h>

#include "kind/counted/parts.h"
#include "kind/counted/writer.h"

/* Bytes are handed to the sink in pieces of about these sizes. */
enum { PIECE = 1 << 20, LINES_PIECE = 1 << 16 };

/* Bytes after a block that the bit writers may overwrite. */
enum { SLACK = 16 };

struct counted_encoder {
    struct counted counted;
    struct counted_sink sink;
    struct counted_made made;
    bool any;
    uint64_t previous;
    /* The block whose entries are being collected. */
    uint64_t block, block_last; /* its number, its largest fingerprint */
    uint64_t *value, *count;    /* arrays of `room` elements */
    size_t n, room;
    /* The group that is being encoded, and the bytes that wait for the sink. */
    uint64_t group, end_group;
    uint64_t ends[COUNTED_BLOCKS]; /* as in a large group's table, not counting the table's bytes */
    unsigned slot;                 /* blocks of the group that are encoded */
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

static void begin_block(struct counted_encoder *e, uint64_t block)
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
    e->group = first;
    e->end_group = end;
    begin_block(e, first * COUNTED_BLOCKS);
    return e;
}

void counted_encoder_free(struct counted_encoder *e)
{
    if (e == NULL)
        return;
    free(e->value);
    free(e->count);
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
static bool make_room(struct counted_encoder *e, uint64_t len, struct err *err)
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

static bool end_group(struct counted_encoder *e, struct err *err)
{
    size_t len = e->out_len - e->group_at, table = 8 * (size_t)e->slot;
    uint64_t base = e->made.groups_len + e->group_at;
    bool large = len > COUNTED_GROUP_BYTES;
    for (unsigned i = 0; i < e->slot; i++)
        large |= (e->ends[i] & COUNTED_LARGE) != 0;
    uint8_t *line = e->lines + e->lines_len;
    put_le64(line, large ? base | COUNTED_LARGE : base);
    for (unsigned i = 0; i < e->slot; i++) {
        unsigned end = large ? 0 : (unsigned)e->ends[i];
        line[8 + 2 * i] = (uint8_t)end;
        line[8 + 2 * i + 1] = (uint8_t)(end >> 8);
    }
    e->lines_len += 8 + 2 * (size_t)e->slot;
    if (large) {
        if (!make_room(e, table, err))
            return false;
        uint8_t *group = e->out + e->group_at;
        memmove(group + table, group, len);
        for (unsigned i = 0; i < e->slot; i++)
            put_le64(group + 8 * i, e->ends[i] + table);
        e->out_len += table;
    }
    e->group++;
    e->slot = 0;
    e->group_at = e->out_len;
    return (e->out_len < PIECE || flush_groups(e, err)) &&
           (e->lines_len + COUNTED_LINE <= LINES_PIECE || flush_lines(e, err));
}

static bool put_large(struct counted_encoder *e, struct err *err)
{
    uint64_t first = counted_block_first(&e->counted, e->block), most = 0;
    unsigned wide = counted_wide(&e->counted), counts = 0;
    for (size_t i = 0; i < e->n; i++)
        most |= e->count[i] - 1;
    for (; most > 0; most >>= 8)
        counts++;
    uint64_t size = wide + counts;
    if (!make_room(e, 1 + size * e->n + SLACK, err))
        return false;
    uint8_t *to = e->out + e->out_len;
    *to++ = (uint8_t)counts;
    for (size_t i = 0; i < e->n; i++, to += size) {
        put_le64(to, e->value[i] - first);
        put_le64(to + wide, e->count[i] - 1);
    }
    e->out_len += 1 + (size_t)size * e->n;
    return true;
}

static void put_remainders(struct counted_encoder *e, uint8_t *to, uint64_t bit)
{
    struct counted_writer w = counted_writer_at(to, bit);
    unsigned low = e->counted.low;
    uint64_t mask = counted_mask(low);
    for (size_t i = e->n; i-- > 0;)
        counted_write(&w, e->value[i] & mask, low);
    counted_write_end(&w);
}

static bool put_block(struct counted_encoder *e, struct err *err)
{
    enum { WORDS = (COUNTED_BUCKETS + COUNTED_ENTRIES) / 64 };
    unsigned buckets = counted_block_buckets(&e->counted, e->block), low = e->counted.low;
    struct counted_code code = counted_best_code(e->count, e->n);
    uint64_t bits = buckets + e->n, all = bits + code.bits + e->n * low, len = (all + 7) / 8;
    if (!make_room(e, len + 8 * WORDS + SLACK, err))
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
    if (code.bits > 0)
        counted_put_counts(to, bits, &code, e->count, e->n);
    put_remainders(e, to, 8 * len - e->n * low);
    e->out_len += (size_t)len;
    return true;
}

/* Encodes the collected block. */
static bool end_block(struct counted_encoder *e, struct err *err)
{
    bool large = e->n > COUNTED_ENTRIES;
    if (e->n > 0 && !(large ? put_large(e, err) : put_block(e, err)))
        return false;
    e->ends[e->slot++] = (e->out_len - e->group_at) | (large ? COUNTED_LARGE : 0);
    e->n = 0;
    return e->slot < counted_group_blocks(&e->counted, e->group) || end_group(e, err);
}

/* Ends the current block and starts the given one. All blocks between are empty. */
static bool go_to_block(struct counted_encoder *e, uint64_t block, struct err *err)
{
    while (e->block < block) {
        if (!end_block(e, err))
            return false;
        e->block++;
    }
    begin_block(e, block);
    return true;
}

static bool grow(struct counted_encoder *e, struct err *err)
{
    size_t room = e->room > 0 ? 2 * e->room : COUNTED_ENTRIES;
    uint64_t *value = room < SIZE_MAX / 16 ? realloc(e->value, room * sizeof *value) : NULL;
    if (value != NULL)
        e->value = value;
    uint64_t *count = value != NULL ? realloc(e->count, room * sizeof *count) : NULL;
    if (count == NULL)
        return fail(err, "out of memory");
    e->count = count;
    e->room = room;
    return true;
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
        if (e->n == e->room && !grow(e, err))
            return false;
        e->value[e->n] = v;
        e->count[e->n++] = times;
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
        if (!end_block(e, err))
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
