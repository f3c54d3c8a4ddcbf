/* SPDX-License-Identifier: MIT */
/* Makes a counted set in memory: for tests and fuzzing; the program writes sets to files. */
#ifndef COUNTED_MAKE_H
#define COUNTED_MAKE_H

#include <stdlib.h>
#include <string.h>

#include "kind/counted/entries.h"

struct counted_memory {
    struct counted counted;
    uint8_t *data; /* malloc'ed */
    uint64_t len;
};

/* The set of n entries; `design` has the bits. */
static inline bool counted_make(struct counted_memory *out, const struct counted *design,
                                const struct counted_entry *e, size_t n, struct err *err)
{
    struct counted c = *design;
    struct counted_part part;
    *out = (struct counted_memory){.data = NULL};
    counted_design(&c, n);
    bool ok = counted_encode(&c, 0, counted_blocks(&c), e, n, &part, err);
    uint8_t *data = ok ? calloc(part.lines_len + part.blocks_len + COUNTED_SLACK, 1) : NULL;
    if (data != NULL) {
        memcpy(data, part.lines, part.lines_len);
        if (part.blocks_len > 0)
            memcpy(data + part.lines_len, part.blocks, part.blocks_len);
        c.entries = part.sums.entries;
        c.total = part.sums.total;
        *out = (struct counted_memory){c, data, part.lines_len + part.blocks_len + COUNTED_SLACK};
    }
    counted_part_free(&part);
    return !ok || data != NULL ? ok : fail(err, "out of memory");
}

/* All entries of a set. free(to->at). */
static inline bool counted_read(const struct counted_set *set, struct counted_entries *to,
                                struct counted_sums *read, struct err *err)
{
    *to = (struct counted_entries){0};
    *read = (struct counted_sums){0};
    return counted_read_range(set, 0, UINT64_MAX, 0, to, read, err);
}

#endif
