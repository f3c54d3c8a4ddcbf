/* SPDX-License-Identifier: MIT */
/* Makes a counted set in memory: for tests and fuzzing; the program writes sets to files. */
#ifndef COUNTED_MAKE_H
#define COUNTED_MAKE_H

#include <stdlib.h>
#include <string.h>

#include "kind/counted/stream.h"

/* Reads a whole set. */
static inline void counted_read(struct counted_reader *r, const struct counted_set *set)
{
    counted_read_range(r, set, 0, UINT64_MAX);
}

struct counted_memory {
    struct counted counted;
    uint8_t *data; /* malloc'ed */
    uint64_t len;
};

struct counted_pieces {
    uint8_t *data;
    size_t lines_len, len, room;
    uint64_t groups_len;
};

static inline bool counted_keep_lines(void *ctx, const uint8_t *data, size_t len, struct err *err)
{
    struct counted_pieces *p = ctx;
    (void)err;
    memcpy(p->data + p->lines_len, data, len);
    p->lines_len += len;
    return true;
}

static inline bool counted_keep_groups(void *ctx, const uint8_t *data, size_t len, struct err *err)
{
    struct counted_pieces *p = ctx;
    if (len > p->room - p->len) {
        size_t room = p->room / 2 * 3 + len;
        uint8_t *grown = room > p->room ? realloc(p->data, room) : NULL;
        if (grown == NULL)
            return fail(err, "out of memory");
        p->data = grown;
        p->room = room;
    }
    memcpy(p->data + p->len, data, len);
    p->len += len;
    return true;
}

/* All entries of a stream, in arrays. */
struct counted_all {
    uint64_t *value, *count;
    size_t n;
};

static inline bool counted_take_all(struct counted_stream *from, struct counted_all *all,
                                    struct err *err)
{
    size_t room = 0;
    struct counted_run run;
    *all = (struct counted_all){0};
    while (counted_next(from, &run, err)) {
        if (run.n == 0)
            return true;
        if (run.n > room - all->n) {
            room = 2 * room + COUNTED_RUN;
            all->value = realloc(all->value, room * 8);
            all->count = realloc(all->count, room * 8);
        }
        if (all->value == NULL || all->count == NULL)
            return fail(err, "out of memory");
        memcpy(all->value + all->n, run.value, run.n * 8);
        memcpy(all->count + all->n, run.count, run.n * 8);
        all->n += run.n;
    }
    return false;
}

/* Encodes the entries of a group, of which all[*at] is the first, measuring them first: so some
 * blocks may be large. */
static inline bool counted_make_group(const struct counted *c, uint64_t group,
                                      const struct counted_all *all, size_t *at,
                                      struct counted_pieces *p, struct counted_made *made,
                                      struct err *err)
{
    static struct counted_array a;
    const struct counted_sink sink = {counted_keep_lines, counted_keep_groups, p};
    uint64_t end = counted_group_first(c, group + 1);
    size_t n = 0, lines = p->lines_len;
    while (n < all->n - *at && (end == 0 || all->value[*at + n] < end))
        n++;
    struct counted_encoder *e = counted_encoder_new(c, group, group + 1, &sink, err);
    bool ok = e != NULL;
    for (unsigned pass = 0; ok && pass < 2; pass++) {
        counted_array(&a, n > 0 ? all->value + *at : NULL, n > 0 ? all->count + *at : NULL, n);
        ok = pass == 0 ? counted_measure(e, &a.stream, made, err)
                       : counted_encode_all(e, &a.stream, made, err);
    }
    counted_encoder_free(e);
    *at += n;
    if (ok)
        counted_move_lines(p->data + lines, p->lines_len - lines, p->groups_len);
    p->groups_len += ok ? made->groups_len : 0;
    return ok;
}

/* All of a stream, with `low` for so many entries. */
static inline bool counted_make(struct counted_memory *out, const struct counted *design,
                                uint64_t entries, struct counted_stream *from, struct err *err)
{
    struct counted c = *design;
    counted_design(&c, entries);
    uint64_t lines = counted_directory_len(&c);
    uint64_t room = counted_expected_len(&c, entries) + (1 << 20);
    struct counted_pieces p = {.len = (size_t)lines, .room = (size_t)room};
    struct counted_made made;
    struct counted_all all;
    size_t at = 0;
    p.data = room < SIZE_MAX ? malloc((size_t)room) : NULL;
    if (p.data == NULL)
        return fail(err, "out of memory");
    bool ok = counted_take_all(from, &all, err);
    c.entries = c.total = 0;
    for (uint64_t group = 0; ok && group < counted_groups(&c); group++) {
        ok = counted_make_group(&c, group, &all, &at, &p, &made, err);
        c.entries += made.entries;
        c.total += made.total;
    }
    free(all.value);
    free(all.count);
    if (!ok) {
        free(p.data);
        return false;
    }
    *out = (struct counted_memory){.counted = c, .data = p.data, .len = p.len};
    return true;
}

#endif
