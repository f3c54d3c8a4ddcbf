/* SPDX-License-Identifier: MIT */
#include "foreign/foreign.h"

#include <math.h>
#include <string.h>

#include "base/disk.h"
#include "keys/prep.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/layers.h"

bool foreign_filter(const struct header *h, struct layout_filter *filter, struct err *err)
{
    if (h->hash->keyed)
        return fail(err, "has a secret, which other programs do not know");
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!kind_is_foreign(h->layers[i].kind) || h->layers[i].kind != h->layers[0].kind)
            return fail(err, "does not have the layout of another program");
    if (h->n_layers > 1 && (!format_grows(h) || chain_newest(h) != h->n_layers - 1))
        return fail(err, "has several layers, which do not form a valid chain of its layout");
    *filter = (struct layout_filter){.hash = h->hash,
                                     .seed = h->seed,
                                     .encoding = prep_encoding(h->prep),
                                     .n_design = h->n_design,
                                     .fpr_design = h->fpr_design,
                                     .assumed = (h->compat & COMPAT_ASSUMED) != 0,
                                     .n_added = h->counters.keys_added,
                                     .n_layers = h->n_layers};
    memcpy(filter->layer, h->layers, h->n_layers * sizeof *h->layers);
    return true;
}

/* Bytes converted and written at a time. */
enum { PIECE = 1 << 16 };

static bool write_layer(const struct target *t, const struct layout_bits *bits, struct err *err)
{
    uint8_t piece[PIECE];
    uint64_t len = t->layer->data_len - bits->extra_len;
    /* The new file is all zero, so bytes beyond bits->len need not be written. */
    uint64_t there = bits->len < len ? bits->len : len;
    for (uint64_t at = 0; at < there; at += PIECE) {
        size_t n = len - at < PIECE ? (size_t)(len - at) : PIECE;
        layout_take(bits, at, piece, n);
        if (!target_write(t, piece, n, at, err))
            return false;
    }
    return (bits->extra_len == 0 || target_write(t, bits->extra, bits->extra_len, len, err)) &&
           target_sums(t, err);
}

/* Sets the counters, what layers had before each other, and their FPRs, from the bits, where the
 * other program does not count keys. */
static void count_keys(struct header *h, const struct layout_filter *filter, uint8_t *const *data,
                       unsigned threads, struct census *census)
{
    struct census layer[FORMAT_MAX_LAYERS];
    layers_measure((struct layers){h, data}, threads, layer, census);
    uint64_t n = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (!h->layers[i].kind->layout->counts)
            h->layers[i].n_before = n;
        n += (uint64_t)round(layer[i].n);
        if (i + 1 < h->n_layers)
            h->layers[i].fpr_closed = layer[i].fpr;
    }
    h->made = h->layers[0].kind->layout->counts ? filter->n_added : n;
    h->counters = (struct counters){.records = h->made, .keys_added = h->made};
    if (!h->layers[0].kind->layout->counts)
        h->compat |= COMPAT_ESTIMATED;
}

static bool read_back(struct header *h, const struct layout_filter *filter, int fd,
                      const char *name, unsigned threads, struct census *census, struct err *err)
{
    uint8_t *data[FORMAT_MAX_LAYERS];
    struct mapped map;
    if (!mapped_open(&map, fd, h->file_len, name))
        return fail_errno(err, "cannot map '%s'", name);
    for (unsigned i = 0; i < h->n_layers; i++)
        data[i] = (uint8_t *)map.data + h->layers[i].data_off;
    count_keys(h, filter, data, threads, census);
    mapped_close(&map);
    return true;
}

bool foreign_write(struct header *h, const struct layout_filter *filter,
                   const struct layout_bits *bits, struct newfile *file, const char *name,
                   unsigned threads, struct census *census, struct err *err)
{
    if (!header_reserve(h, file, err))
        return false;
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct target target = header_target(h, i, file->fd, name, threads);
        if (!write_layer(&target, &bits[i], err))
            return false;
    }
    return read_back(h, filter, file->fd, name, threads, census, err);
}
