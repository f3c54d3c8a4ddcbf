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

/* Waits for the part's turn, and reserves space for its groups at *at. */
static bool take_turn(struct counted_layer *l, uint64_t first, uint64_t end,
                      const struct counted_part *part, uint64_t *at, struct err *err)
{
    pthread_mutex_lock(&l->lock);
    while (l->next != first && !l->gave_up)
        pthread_cond_wait(&l->turned, &l->lock);
    bool ok = l->gave_up ? fail(err, "given up")
              : part->total > UINT64_MAX - l->counted.total
                  ? fail(err, "the sum of the counts would be 2^64 or more")
                  : true;
    *at = l->at;
    if (ok) {
        l->counted.entries += part->entries;
        l->counted.total += part->total;
        l->at += part->groups_len;
        l->next = end;
        pthread_cond_broadcast(&l->turned);
    }
    pthread_mutex_unlock(&l->lock);
    return ok;
}

/* Writes the part in its turn, with the bytes at `groups`. */
static bool put_part(struct counted_layer *l, uint64_t first, uint64_t end,
                     const struct counted_part *part, const uint8_t *groups, struct err *err)
{
    uint64_t at, directory = counted_directory_len(&l->counted);
    if (!take_turn(l, first, end, part, &at, err))
        return false;
    counted_move_lines(part->lines, part->lines_len, at);
    return target_write(l->target, part->lines, part->lines_len, first * COUNTED_LINE, err) &&
           target_write(l->target, groups, part->groups_len, directory + at, err);
}

bool counted_layer_part(struct counted_layer *l, uint64_t first, uint64_t end,
                        struct counted_stream *entries, struct err *err)
{
    const struct counted design = {.bits = l->counted.bits, .low = l->counted.low};
    struct counted_part part;
    bool ok = counted_encode(&design, first, end, entries, &part, err) &&
              put_part(l, first, end, &part, part.groups, err);
    counted_part_free(&part);
    return ok;
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
    uint64_t from = group_begin(set, first), lines = first * COUNTED_LINE;
    uint64_t lines_end = end * COUNTED_LINE;
    if (lines_end > set->directory_len)
        lines_end = set->directory_len;
    struct counted_part part = {.lines = malloc((size_t)(lines_end - lines)),
                                .lines_len = (size_t)(lines_end - lines),
                                .groups_len = (size_t)(group_begin(set, end) - from)};
    if (part.lines == NULL)
        return fail(err, "out of memory");
    memcpy(part.lines, set->data + lines, part.lines_len);
    counted_move_lines(part.lines, part.lines_len, 0 - from);
    bool ok = put_part(l, first, end, &part, set->data + set->directory_len + from, err);
    free(part.lines);
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
