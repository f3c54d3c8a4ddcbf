/* SPDX-License-Identifier: MIT
 * Hostile files of a layout of one layer: all uses of what is accepted stay inside its data, and
 * what is written of it is read as the same filter, and written the same again.
 */
#ifndef ROUND_H
#define ROUND_H

#include "foreign.h"

/* The data of the layer that was read. */
static inline uint8_t *round_data(const struct foreign *f)
{
    const struct layer *layer = &f->filter.layer[0];
    const struct layout_bits *bits = &f->bits[0];
    MUST(f->filter.n_layers == 1 && layer->kind == f->spec.kind);
    MUST(f->filter.fpr_design > 0 && f->filter.fpr_design < 1);
    MUST(f->filter.n_design > 0 && layer->n_design == f->filter.n_design);
    MUST(bits->extra_len <= layer->data_len);
    MUST(layer->data_len <= bits->len + 8 + bits->extra_len);
    size_t plain = (size_t)(layer->data_len - bits->extra_len);
    uint8_t *data = malloc((size_t)layer->data_len);
    MUST(data != NULL);
    layout_take(bits, 0, data, plain);
    if (bits->extra_len > 0)
        memcpy(data + plain, bits->extra, (size_t)bits->extra_len);
    return data;
}

static inline bool round_inside(void *ctx, uint64_t page)
{
    MUST(page < layer_pages(ctx));
    return true;
}

static inline void round_estimate(const struct layer *layer, const uint8_t *data)
{
    struct census c;
    layer->kind->census(layer, data, 1, &c);
    MUST(c.fpr >= 0 && c.fpr <= 1 && c.n_low <= c.n && c.n <= c.n_high && c.n_low >= 0);
    double predicted = layer->kind->fpr_at(layer, (double)layer->n_design);
    MUST(predicted >= 0 && predicted <= 1);
}

/* Every use that commands make of a layer. Estimates take most of the time: after the first 300
 * inputs, more than a corpus has, one in 64 gets them. */
static inline void round_use(struct layer *layer, uint8_t *data)
{
    enum { KEYS = 4, FIRST = 300, EACH = 64 };
    static unsigned long inputs;
    uint64_t hash[KEYS * HASH_LANES], present = 0, had = 0;
    for (size_t i = 0; i < sizeof hash / sizeof *hash; i++)
        hash[i] = i % KEYS == 0 ? 0 : i % KEYS == 1 ? UINT64_MAX : i * 0x9e3779b97f4a7c15;
    const struct hashes keys = {hash, KEYS, NULL};
    if (inputs++ < FIRST || inputs % EACH == 0)
        round_estimate(layer, data);
    layer_each_page(layer, data, keys, KEYS, round_inside, layer);
    layer->kind->add(layer, data, keys, KEYS, &had);
    layer->kind->query(layer, data, keys, KEYS, &present);
    MUST(present == (1 << KEYS) - 1);
}

/* Returns what is written of the filter; no data if it is refused. */
static inline struct written round_trip(const char *spec, const uint8_t *data, size_t size)
{
    struct foreign first, second;
    struct written written, again;
    const struct layout_foreign in = {.name = {"-"}, .data = {data}, .len = {size}};
    bool good = foreign_read(&first, spec, "-", data, size);
    first.spec.kind->layout->recognize(&in);
    if (!good) {
        MUST(first.bits[0].owned == NULL);
        return (struct written){0};
    }
    struct layout_filter *a = &first.filter, *b = &second.filter;
    uint8_t *one = round_data(&first);
    foreign_write(&first, one, "-", false, &written);
    MUST(foreign_read(&second, spec, "-", written.data, written.len));
    uint8_t *two = round_data(&second);
    foreign_write(&second, two, "-", false, &again);
    MUST(memcmp(&a->layer[0], &b->layer[0], sizeof a->layer[0]) == 0);
    MUST(memcmp(one, two, (size_t)a->layer[0].data_len) == 0);
    MUST(a->n_added == b->n_added && a->assumed == b->assumed && a->encoding == b->encoding);
    MUST(again.len == written.len && memcmp(again.data, written.data, again.len) == 0);
    round_use(&a->layer[0], one);
    free(one);
    free(two);
    free(again.data);
    foreign_free(&first);
    foreign_free(&second);
    return written;
}

#endif
