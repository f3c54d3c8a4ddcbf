/* SPDX-License-Identifier: MIT */
/* Makes a layer with fewer columns for the same keys. Each column solves its own equations, so any
 * column can be left out. */
#include <stdlib.h>
#include <string.h>

#include "kind/ribbon/ribbon.h"
#include "kind/target.h"

struct drop {
    const struct target *target;
    struct ribbon from, to;
    const uint8_t *data; /* of the old layer */
    uint64_t at;         /* offset of the next block in the new layer */
    uint8_t *directory;  /* the new one */
};

static void copy_table(const struct drop *d, uint64_t segments, const uint8_t **in, uint8_t **out)
{
    uint64_t narrow = ribbon_narrow(&d->from, segments), fewer = ribbon_narrow(&d->to, segments);
    for (uint64_t i = 0; i < segments; i++) {
        size_t columns = d->to.columns + (i >= fewer);
        memcpy(*out, *in, 8 * columns);
        *out += 8 * columns;
        *in += 8 * (size_t)(d->from.columns + (i >= narrow));
    }
}

static bool copy_block(struct drop *d, const struct ribbon_entry *e, struct err *err)
{
    uint64_t head = ribbon_head_len(e), len = ribbon_block_len(&d->to, e);
    uint8_t *block = len < SIZE_MAX ? malloc((size_t)len + 1) : NULL;
    if (block == NULL)
        return fail(err, "out of memory");
    const uint8_t *in = d->data + e->at + head;
    uint8_t *out = block + head;
    memcpy(block, d->data + e->at, (size_t)head);
    for (unsigned table = 0; table < RIBBON_TABLES; table++)
        copy_table(d, e->segments[table], &in, &out);
    bool ok = target_write(d->target, block, len, d->at, err);
    d->at += len;
    free(block);
    return ok;
}

/* Copies blocks in the order of their entries. */
static bool copy_blocks(struct drop *d, uint64_t directory, struct err *err)
{
    for (uint64_t i = 0; i < (uint64_t)1 << d->from.bits; i++) {
        struct ribbon_entry e;
        ribbon_get_entry(d->data + directory + i * RIBBON_ENTRY, &e);
        uint64_t at = d->at;
        if (!copy_block(d, &e, err))
            return false;
        e.at = at;
        ribbon_put_entry(&e, d->directory + i * RIBBON_ENTRY);
    }
    return true;
}

/* Average columns of a key, times 2^32. */
static uint64_t width(const struct ribbon *ribbon)
{
    return (uint64_t)ribbon->columns << 32 | ribbon->wide;
}

struct dropped {
    const struct layer *from;
    const uint8_t *data;
};

static double fpr_of_dropped(void *ctx, const struct ribbon *ribbon)
{
    const struct dropped *d = ctx;
    return ribbon_layer_fpr(ribbon, d->from, d->data);
}

static bool drop_layer(struct drop *d, const struct layer *from, struct err *err)
{
    uint64_t directory_len = ribbon_directory_len(&d->from);
    d->to.bits = d->from.bits;
    d->directory = malloc((size_t)directory_len);
    if (d->directory == NULL)
        return fail(err, "out of memory");
    /* A forged directory can have correct checksums, so its entries are validated. */
    uint64_t first = (from->data_len - directory_len) / LAYER_PAGE;
    for (uint64_t page = first; page < layer_pages(from); page++)
        if (!from->kind->check_page(from, d->data, page, err))
            return false;
    struct dropped dropped = {from, d->data};
    ribbon_keep_rate(&d->to, d->target->layer->fpr_design, fpr_of_dropped, &dropped);
    if (width(&d->to) > width(&d->from))
        d->to = d->from;
    if (!copy_blocks(d, from->data_len - directory_len, err))
        return false;
    ribbon_to(&d->to, d->target->layer);
    target_resize(d->target, d->at + directory_len);
    return target_write(d->target, d->directory, directory_len, d->at, err) &&
           target_sums(d->target, err);
}

bool ribbon_drop(const struct target *target, const struct layer *from, const uint8_t *data,
                 double *fpr, struct err *err)
{
    struct drop d = {
        .target = target, .from = ribbon_of(from), .to = ribbon_of(target->layer), .data = data};
    bool ok = drop_layer(&d, from, err);
    *fpr = ribbon_layer_fpr(&d.to, from, data);
    free(d.directory);
    return ok;
}
