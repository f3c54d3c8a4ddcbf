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
