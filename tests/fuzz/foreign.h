/* SPDX-License-Identifier: MIT
 * Hostile files of other programs: what a layout makes of them. What it accepts must be sound, and
 * must come back as it was, zero bytes at its end excepted.
 */
#ifndef FOREIGN_H
#define FOREIGN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "foreign/layout.h"
#include "must.h"

/* What a layout has read. */
struct foreign {
    struct layout_spec spec;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
};

/* Reads one file; the spec must be a good one. */
static inline bool foreign_read(struct foreign *f, const char *spec, const char *name,
                                const uint8_t *data, size_t size)
{
    const struct layout_foreign in = {.name = {name}, .data = {data}, .len = {size}};
    struct err err = {.text = ""};
    memset(f->bits, 0, sizeof f->bits);
    MUST(layout_parse(spec, &f->spec, &err));
    if (!f->spec.kind->layout->read(&f->spec, &in, &f->filter, f->bits, &err)) {
        MUST(err.text[0] != '\0');
        return false;
    }
    for (unsigned i = 0; i < f->filter.n_layers; i++)
        MUST(f->filter.layer[i].kind->check(&f->filter.layer[i], &err));
    return true;
}

static inline void foreign_free(struct foreign *f)
{
    for (unsigned i = 0; i < LAYOUT_LAYERS; i++)
        free(f->bits[i].owned);
}

struct written {
    uint8_t *data;
    size_t len, room;
};

static inline bool foreign_append(void *ctx, unsigned file, const void *data, size_t len,
                                  struct err *err)
{
    struct written *to = ctx;
    (void)err;
    MUST(file == 0);
    if (to->room - to->len < len) {
        to->room = 2 * (to->len + len);
        to->data = realloc(to->data, to->room);
        MUST(to->data != NULL);
    }
    memcpy(to->data + to->len, data, len);
    to->len += len;
    return true;
}

/* Writes the file of a filter of one layer, whose data that is. The caller frees to->data. */
static inline void foreign_write(const struct foreign *f, const uint8_t *data, const char *name,
                                 bool pad, struct written *to)
{
    struct layout_sink sink = {.write = foreign_append, .ctx = to, .name = name, .pad = pad};
    struct err err;
    *to = (struct written){0};
    MUST(f->spec.kind->layout->write(&f->filter, &data, &sink, &err));
}

/* Reads a bitmap, and writes it. Filters of more than `largest` bytes are only read. */
static inline void foreign_bitmap(const char *spec, const uint8_t *data, size_t size,
                                  uint64_t largest)
{
    struct foreign f;
    struct written out;
    if (!foreign_read(&f, spec, "-", data, size))
        return;
    uint64_t len = f.filter.layer[0].data_len, m = f.filter.layer[0].geometry[0];
    MUST(layout_trimmed(data, size) <= (m + 7) / 8);
    if (len <= largest) {
        uint8_t *bits = malloc(len);
        MUST(bits != NULL);
        layout_take(&f.bits[0], 0, bits, len);
        for (uint64_t bit = m; bit < 8 * len; bit++)
            MUST((bits[bit / 8] >> bit % 8 & 1) == 0);
        for (int pad = 0; pad < 2; pad++) {
            foreign_write(&f, bits, "-", pad != 0, &out);
            MUST(out.len == (pad != 0 ? (m + 7) / 8 : layout_trimmed(data, size)));
            size_t same = out.len < size ? out.len : size;
            MUST(same == 0 || memcmp(out.data, data, same) == 0);
            MUST(out.len == same || bytes_zero(out.data + same, out.len - same));
            free(out.data);
        }
        free(bits);
    }
    foreign_free(&f);
}

#endif
