/* Makes a counted set in memory: for tests and fuzzing; the program writes sets to files. */
#ifndef COUNTED_MAKE_H
#define COUNTED_MAKE_H

#include <stdlib.h>
#include <string.h>

#include "kind/counted/encode.h"

struct counted_memory {
    struct counted counted;
    uint8_t *data; /* malloc'ed */
    uint64_t len;
};

struct counted_pieces {
    uint8_t *data;
    size_t lines_len, len, room;
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

/* All of a stream, with `low` for so many entries. */
static inline bool counted_make(struct counted_memory *out, const struct counted *design,
                                uint64_t entries, struct counted_stream *from, struct err *err)
{
    struct counted c = *design;
    counted_design(&c, entries);
    uint64_t lines = counted_directory_len(&c);
    uint64_t room = counted_expected_len(&c, entries) + (1 << 20);
    struct counted_pieces p = {.len = (size_t)lines, .room = (size_t)room};
    const struct counted_sink sink = {counted_keep_lines, counted_keep_groups, &p};
    struct counted_made made;
    p.data = room < SIZE_MAX ? malloc((size_t)room) : NULL;
    if (p.data == NULL)
        return fail(err, "out of memory");
    struct counted_encoder *e = counted_encoder_new(&c, 0, counted_groups(&c), &sink, err);
    bool ok = e != NULL && counted_encode_all(e, from, &made, err);
    counted_encoder_free(e);
    if (!ok) {
        free(p.data);
        return false;
    }
    c.entries = made.entries;
    c.total = made.total;
    *out = (struct counted_memory){.counted = c, .data = p.data, .len = p.len};
    return true;
}

#endif
