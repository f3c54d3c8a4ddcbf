/* SPDX-License-Identifier: MIT */
/* Writes the parts of a layer in order. */
#include "kind/counted/layer.h"

#include <stdlib.h>
#include <string.h>

#include "kind/counted/parts.h"
#include "kind/target.h"

void counted_layer_begin(struct counted_layer *l, const struct target *target,
                         const struct counted *design)
{
    *l = (struct counted_layer){.target = target, .counted = *design};
    l->counted.entries = l->counted.total = 0;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->turned, NULL);
}

void counted_layer_free(struct counted_layer *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->turned);
}

void counted_layer_give_up(struct counted_layer *l)
{
    pthread_mutex_lock(&l->lock);
    l->gave_up = true;
    pthread_cond_broadcast(&l->turned);
    pthread_mutex_unlock(&l->lock);
}

/* The most groups that are encoded in memory at once, so that a part without entries takes no more
 * memory either: the directory has 256 KiB for them. */
enum { MOST_GROUPS = 4096 };

/* A growing buffer. */
struct bytes {
    uint8_t *data;
    size_t len, room;
};

struct part {
    struct bytes lines, groups;
};

static bool append_bytes(struct bytes *b, const uint8_t *data, size_t len, struct err *err)
{
    if (len == 0)
        return true;
    if (len > b->room - b->len) {
        size_t room = b->room + b->room / 2 + len;
        uint8_t *grown = room > b->room ? realloc(b->data, room) : NULL;
        if (grown == NULL)
            return fail(err, "out of memory");
        b->data = grown;
        b->room = room;
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

/* The context is a struct part, or begins with one. */
static bool keep_lines(void *ctx, const uint8_t *data, size_t len, struct err *err)
{
    return append_bytes(&((struct part *)ctx)->lines, data, len, err);
}

static bool keep_groups(void *ctx, const uint8_t *data, size_t len, struct err *err)
{
    return append_bytes(&((struct part *)ctx)->groups, data, len, err);
}

/* Waits for the part's turn, and reserves space for its groups at *at. */
static bool take_turn(struct counted_layer *l, uint64_t first, uint64_t end,
                      const struct counted_made *made, uint64_t *at, struct err *err)
{
    pthread_mutex_lock(&l->lock);
    while (l->next != first && !l->gave_up)
        pthread_cond_wait(&l->turned, &l->lock);
    bool ok = l->gave_up ? fail(err, "given up")
              : made->total > UINT64_MAX - l->counted.total
                  ? fail(err, "the sum of the counts would be 2^64 or more")
                  : true;
    *at = l->at;
    if (ok) {
        l->counted.entries += made->entries;
        l->counted.total += made->total;
        l->at += made->groups_len;
        l->next = end;
        pthread_cond_broadcast(&l->turned);
    }
    pthread_mutex_unlock(&l->lock);
    return ok;
}

static bool write_lines(struct counted_layer *l, uint64_t first, struct part *part, uint64_t at,
                        struct err *err)
{
    counted_move_lines(part->lines.data, part->lines.len, at);
    return target_write(l->target, part->lines.data, part->lines.len, first * COUNTED_LINE, err);
}

static bool write_groups(struct counted_layer *l, const uint8_t *data, size_t len, uint64_t at,
                         struct err *err)
{
    return target_write(l->target, data, len, counted_directory_len(&l->counted) + at, err);
}

static struct counted design_of(const struct counted_layer *l)
{
    return (struct counted){.bits = l->counted.bits, .low = l->counted.low};
}

static bool is_done(struct counted_source *source, struct err *err)
{
    return source->done == NULL || source->done(source, err);
}

/* Encodes a part in memory, and writes it. Stops with *crowded if it has a large block. */
static bool write_part(struct counted_layer *l, uint64_t first, uint64_t end,
                       struct counted_source *source, bool *crowded, struct err *err)
{
    struct part part = {{NULL, 0, 0}, {NULL, 0, 0}};
    const struct counted_sink sink = {keep_lines, keep_groups, &part};
    const struct counted design = design_of(l);
    struct counted_made made;
    uint64_t at;
    struct counted_encoder *e = counted_encoder_new(&design, first, end, &sink, err);
    struct counted_stream *entries = e != NULL ? source->open(source, first, end, err) : NULL;
    bool ok = entries != NULL && counted_encode_all(e, entries, &made, err);
    *crowded = e != NULL && counted_is_crowded(e);
    counted_encoder_free(e);
    ok = ok && is_done(source, err) && take_turn(l, first, end, &made, &at, err) &&
         write_lines(l, first, &part, at, err) &&
         write_groups(l, part.groups.data, part.groups.len, at, err);
    free(part.lines.data);
    free(part.groups.data);
    return ok;
}

/* A group whose bytes are written at once. */
struct through {
    struct part part; /* its line */
    struct counted_layer *layer;
    uint64_t at;
};

static bool write_through(void *ctx, const uint8_t *data, size_t len, struct err *err)
{
    struct through *t = ctx;
    t->at += len;
    return write_groups(t->layer, data, len, t->at - len, err);
}

static bool encode_group(struct counted_layer *l, struct counted_encoder *e, uint64_t group,
                         struct counted_source *source, struct through *t, struct err *err)
{
    struct counted_made made, again;
    struct counted_stream *entries = source->open(source, group, group + 1, err);
    uint64_t at;
    if (entries == NULL || !counted_measure(e, entries, &made, err) ||
        !take_turn(l, group, group + 1, &made, &at, err))
        return false;
    t->at = at;
    entries = source->open(source, group, group + 1, err);
    return entries != NULL && counted_encode_all(e, entries, &again, err) &&
           ((again.entries == made.entries && again.groups_len == made.groups_len) ||
            fail(err, "the data of a counted set is not valid")) &&
           is_done(source, err) && write_lines(l, group, &t->part, at, err);
}

/* Writes a group with a large block. */
static bool write_group(struct counted_layer *l, uint64_t group, struct counted_source *source,
                        struct err *err)
{
    struct through through = {.layer = l};
    const struct counted_sink sink = {keep_lines, write_through, &through};
    const struct counted design = design_of(l);
    struct counted_encoder *e = counted_encoder_new(&design, group, group + 1, &sink, err);
    bool ok = e != NULL && encode_group(l, e, group, source, &through, err);
    counted_encoder_free(e);
    free(through.part.lines.data);
    return ok;
}

bool counted_layer_part(struct counted_layer *l, uint64_t first, uint64_t end,
                        struct counted_source *source, struct err *err)
{
    bool crowded = true;
    struct err failure;
    if (end - first <= MOST_GROUPS && write_part(l, first, end, source, &crowded, &failure))
        return true;
    if (!crowded) {
        *err = failure;
        return false;
    }
    uint64_t middle = first + (end - first) / 2;
    return middle == first ? write_group(l, first, source, err)
                           : counted_layer_part(l, first, middle, source, err) &&
                                 counted_layer_part(l, middle, end, source, err);
}

/* Where a group begins, counted from the first group. For group = counted_groups: where the last
 * group ends. */
static uint64_t group_begin(const struct counted_set *set, uint64_t group)
{
    if (group == counted_groups(&set->counted))
        return set->len - set->directory_len;
    return get_le64(set->data + group * COUNTED_LINE) & ~COUNTED_LARGE;
}

bool counted_layer_copy(struct counted_layer *l, uint64_t first, uint64_t end,
                        const struct counted_set *set, struct err *err)
{
    uint64_t from = group_begin(set, first), lines = first * COUNTED_LINE, at;
    uint64_t lines_end = end * COUNTED_LINE;
    if (lines_end > set->directory_len)
        lines_end = set->directory_len;
    struct counted_made made = {.lines_len = lines_end - lines,
                                .groups_len = group_begin(set, end) - from};
    struct bytes moved = {NULL, 0, 0};
    bool ok = append_bytes(&moved, set->data + lines, (size_t)made.lines_len, err) &&
              take_turn(l, first, end, &made, &at, err);
    if (ok) {
        counted_move_lines(moved.data, moved.len, at - from);
        ok = target_write(l->target, moved.data, moved.len, lines, err) &&
             target_write(l->target, set->data + set->directory_len + from, made.groups_len,
                          set->directory_len + at, err);
    }
    free(moved.data);
    return ok;
}

bool counted_layer_end(struct counted_layer *l, struct err *err)
{
    static const uint8_t zeroes[8];
    struct layer *layer = l->target->layer;
    counted_to(&l->counted, layer);
    target_resize(l->target, counted_directory_len(&l->counted) + l->at);
    /* An earlier attempt with another `low` may have written more, so zero the padding. */
    uint64_t padding = layer->sums_off - layer->data_off - layer->data_len;
    return target_write(l->target, zeroes, padding, layer->data_len, err) &&
           target_sums(l->target, err);
}
