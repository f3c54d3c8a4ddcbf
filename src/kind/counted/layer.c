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

void counted_layer_give_up(struct counted_layer *l, const struct err *why)
{
    pthread_mutex_lock(&l->lock);
    if (!l->gave_up)
        l->why = *why;
    l->gave_up = true;
    pthread_cond_broadcast(&l->turned);
    pthread_mutex_unlock(&l->lock);
}

/* With the lock: takes the next place for a part, at *at. Whether a sum of counts fits is checked
 * where they are added up (combine.c). */
static void take_place(struct counted_layer *l, uint64_t end, const struct counted_part *part,
                       uint64_t *at)
{
    *at = l->at;
    l->counted.entries += part->sums.entries;
    l->counted.total += part->sums.total;
    l->at += part->blocks_len;
    l->next = end;
    pthread_cond_broadcast(&l->turned);
}

/* Waits for the part's turn, and writes it with the bytes at `blocks`. */
static bool put_part(struct counted_layer *l, uint64_t first, uint64_t end,
                     const struct counted_part *part, const uint8_t *blocks, struct err *err)
{
    uint64_t at = 0, directory = counted_directory_len(&l->counted);
    pthread_mutex_lock(&l->lock);
    while (l->next != first && !l->gave_up)
        pthread_cond_wait(&l->turned, &l->lock);
    bool ok = !l->gave_up;
    if (ok)
        take_place(l, end, part, &at);
    else
        *err = l->why;
    pthread_mutex_unlock(&l->lock);
    if (!ok)
        return false;
    counted_move_lines(part->lines, part->lines_len, at);
    return target_write(l->target, part->lines, part->lines_len, first * COUNTED_LINE, err) &&
           target_write(l->target, blocks, part->blocks_len, directory + at, err);
}

bool counted_layer_part(struct counted_layer *l, uint64_t first, uint64_t end,
                        const struct counted_entry *e, size_t n, struct err *err)
{
    const struct counted design = {.bits = l->counted.bits, .low = l->counted.low};
    struct counted_part part;
    bool ok = counted_encode(&design, first, end, e, n, &part, err) &&
              put_part(l, first, end, &part, part.blocks, err);
    counted_part_free(&part);
    return ok;
}

bool counted_layer_copy(struct counted_layer *l, uint64_t first, uint64_t end,
                        const struct counted_set *set, struct err *err)
{
    struct counted_block a, z;
    const size_t len = (size_t)(end - first) * COUNTED_LINE;
    if (!counted_find_block(set, first, &a) || !counted_find_block(set, end - 1, &z))
        return fail(err, "the data of a counted set is not valid");
    struct counted_part part = {
        .lines = malloc(len), .lines_len = len, .blocks_len = (size_t)(z.end - a.begin)};
    if (part.lines == NULL)
        return fail(err, "out of memory");
    memcpy(part.lines, set->data + first * COUNTED_LINE, len);
    counted_move_lines(part.lines, len, set->directory_len - a.begin);
    bool ok = put_part(l, first, end, &part, set->data + a.begin, err);
    free(part.lines);
    return ok;
}

bool counted_layer_end(struct counted_layer *l, struct err *err)
{
    static const uint8_t zeros[COUNTED_SLACK + 8];
    struct layer *layer = l->target->layer;
    uint64_t end = counted_directory_len(&l->counted) + l->at;
    if (end > COUNTED_MAX_LEN - COUNTED_SLACK)
        return fail(err, "a counted set of more than 256 TiB");
    counted_to(&l->counted, layer);
    target_resize(l->target, end + COUNTED_SLACK);
    /* An earlier attempt with another `low` may have written more, so zero the padding. */
    uint64_t padding = layer->sums_off - layer->data_off - layer->data_len;
    return target_write(l->target, zeros, COUNTED_SLACK + padding, end, err) &&
           target_sums(l->target, err);
}
