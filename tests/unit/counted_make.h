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

/* ---- An array of entries, as a stream. `count` may be NULL: all are 1. */
struct counted_array {
    struct counted_stream stream;
    const uint64_t *value, *count;
    size_t n, at;
    uint64_t ones[COUNTED_RUN];
};

static inline bool next_of_array(struct counted_stream *stream, struct counted_run *run,
                                 struct err *err)
{
    struct counted_array *a = (struct counted_array *)stream;
    size_t n = a->n - a->at < COUNTED_RUN ? a->n - a->at : COUNTED_RUN;
    (void)err;
    *run = (struct counted_run){0};
    if (n == 0)
        return true;
    *run = (struct counted_run){
        .value = a->value + a->at, .count = a->count != NULL ? a->count + a->at : a->ones, .n = n};
    a->at += n;
    return true;
}

static inline void counted_array(struct counted_array *a, const uint64_t *value,
                                 const uint64_t *count, size_t n)
{
    a->stream.next = next_of_array;
    a->value = value;
    a->count = count;
    a->n = n;
    a->at = 0;
    for (size_t i = 0; i < COUNTED_RUN; i++)
        a->ones[i] = 1;
}

struct counted_memory {
    struct counted counted;
    uint8_t *data; /* malloc'ed */
    uint64_t len;
};

/* All of a stream, with `low` for so many entries. */
static inline bool counted_make(struct counted_memory *out, const struct counted *design,
                                uint64_t entries, struct counted_stream *from, struct err *err)
{
    struct counted c = *design;
    struct counted_part part;
    *out = (struct counted_memory){.data = NULL};
    counted_design(&c, entries);
    bool ok = counted_encode(&c, 0, counted_groups(&c), from, &part, err);
    uint8_t *data = ok ? malloc(part.lines_len + part.groups_len) : NULL;
    if (data != NULL) {
        memcpy(data, part.lines, part.lines_len);
        if (part.groups_len > 0)
            memcpy(data + part.lines_len, part.groups, part.groups_len);
        c.entries = part.entries;
        c.total = part.total;
        *out = (struct counted_memory){c, data, part.lines_len + part.groups_len};
    }
    counted_part_free(&part);
    return !ok || data != NULL ? ok : fail(err, "out of memory");
}

#endif
