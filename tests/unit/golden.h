/* SPDX-License-Identifier: MIT
 * Golden filters of other programs (tests/vectors) in memory, and the keys that were asked.
 *
 *     struct golden file = golden_open("dcso/dc_data.bloom");
 *     struct taken taken;
 *     if (golden_take("dcso", file.data, file.len, &taken, &err)) ...   // the layer's data
 *     golden_answer(&taken, &keys, 1000);
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "keys/encoding.h"
#include "foreign/layout.h"

struct golden {
    uint8_t *data;
    size_t len;
};

/* A file below tests/vectors as it is; data is NULL if there is none of that name. */
static inline struct golden golden_open_raw(const char *name)
{
    char path[512];
    struct golden g = {0};
    snprintf(path, sizeof path, "%s/%s", VECTORS, name);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return g;
    g.data = malloc(1 << 20);
    if (g.data != NULL)
        g.len = fread(g.data, 1, 1 << 20, in);
    fclose(in);
    return g;
}

/* A file below tests/vectors, or NAME.gz, inflated, if there is none of that name. */
static inline struct golden golden_open(const char *name)
{
    enum { GZIP_WINDOW = 15 + 16 }; /* inflateInit2: the largest, and a gzip header */
    char zipped[256];
    struct golden g = golden_open_raw(name), out = {malloc(1 << 20), 0};
    if (g.data != NULL && out.data != NULL) {
        free(out.data);
        return g;
    }
    snprintf(zipped, sizeof zipped, "%s.gz", name);
    g = golden_open_raw(zipped);
    z_stream z = {
        .next_in = g.data, .avail_in = (uInt)g.len, .next_out = out.data, .avail_out = 1 << 20};
    if (g.data == NULL || out.data == NULL || inflateInit2(&z, GZIP_WINDOW) != Z_OK ||
        inflate(&z, Z_FINISH) != Z_STREAM_END)
        exit(2);
    out.len = (size_t)z.total_out;
    inflateEnd(&z);
    free(g.data);
    return out;
}

enum { GOLDEN_LINES = 1000 };

/* Keys, one a line. */
struct golden_keys {
    struct golden text;
    size_t n, len[GOLDEN_LINES];
    const char *key[GOLDEN_LINES];
};

static inline struct golden_keys golden_keys(const char *name)
{
    struct golden_keys keys = {.text = golden_open(name)};
    const char *at = (const char *)keys.text.data, *end = at + keys.text.len, *line_end;
    for (; at < end && keys.n < GOLDEN_LINES; at = line_end + 1) {
        line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL)
            exit(2);
        keys.key[keys.n] = at;
        keys.len[keys.n++] = (size_t)(line_end - at);
    }
    return keys;
}

/* A table with titles, fields separated by tabs. golden_row() goes to its next row, beginning with
 * the first after the titles; fields that are not there are empty. False: there is no row. */
enum { GOLDEN_FIELDS = 20 };

struct golden_table {
    struct golden text;
    size_t at;
    char *field[GOLDEN_FIELDS];
};

static inline struct golden_table golden_table(const char *name)
{
    struct golden_table t = {.text = golden_open(name)};
    t.at = (size_t)((uint8_t *)memchr(t.text.data, '\n', t.text.len) - t.text.data) + 1;
    return t;
}

static inline bool golden_row(struct golden_table *t)
{
    static char empty[] = "";
    char *row = (char *)t->text.data + t->at;
    if (t->at >= t->text.len)
        return false;
    size_t len = (size_t)((char *)memchr(row, '\n', t->text.len - t->at) - row);
    row[len] = '\0';
    t->at += len + 1;
    for (int i = 0; i < GOLDEN_FIELDS; i++) {
        char *tab = strchr(row, '\t');
        t->field[i] = row;
        if (tab != NULL)
            *tab = '\0';
        row = tab != NULL ? tab + 1 : empty;
    }
    return true;
}

/* Bytes in hexadecimal, in place. */
static inline struct golden golden_hex(char *text)
{
    struct golden g = {(uint8_t *)text, strlen(text) / 2};
    for (size_t i = 0; i < g.len; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            exit(2);
        g.data[i] = (uint8_t)byte;
    }
    return g;
}

/* A filter that a layout has read, its only layer's data in memory. */
struct taken {
    struct layout_filter filter;
    uint8_t *data;
};

static inline struct layer *taken_layer(struct taken *t)
{
    return &t->filter.layer[0];
}

static inline bool golden_take_in(const char *spec_text, const struct layout_foreign *in,
                                  struct taken *out, struct err *err)
{
    struct layout_spec spec;
    struct layout_bits bits[LAYOUT_LAYERS] = {{0}};
    *out = (struct taken){0};
    if (!layout_parse(spec_text, &spec, err))
        return false;
    bool ok = spec.kind->layout->read(&spec, in, &out->filter, bits, err) &&
              spec.kind->check(taken_layer(out), err);
    if (ok) {
        size_t all = (size_t)taken_layer(out)->data_len, plain = all - (size_t)bits[0].extra_len;
        out->data = malloc(all);
        layout_take(&bits[0], 0, out->data, plain);
        if (bits[0].extra_len > 0)
            memcpy(out->data + plain, bits[0].extra, (size_t)bits[0].extra_len);
    }
    free(bits[0].owned);
    return ok;
}

static inline bool golden_take(const char *spec_text, const void *file, size_t len,
                               struct taken *out, struct err *err)
{
    const struct layout_foreign in = {.name = {"it"}, .data = {file}, .len = {len}};
    return golden_take_in(spec_text, &in, out, err);
}

/* A new filter of a layout. */
static inline bool golden_design(const char *spec_text, uint64_t n, double p, struct taken *out,
                                 struct err *err)
{
    struct layout_spec spec;
    *out = (struct taken){0};
    if (!layout_parse(spec_text, &spec, err) ||
        !spec.kind->layout->design(&spec, n, p, &out->filter, err) ||
        !spec.kind->check(taken_layer(out), err))
        return false;
    out->data = calloc(1, (size_t)taken_layer(out)->data_len);
    return out->data != NULL;
}

static inline bool golden_append(void *ctx, unsigned file, const void *data, size_t len,
                                 struct err *err)
{
    struct golden *to = ctx;
    (void)file, (void)err;
    to->data = realloc(to->data, to->len + len + 1);
    memcpy(to->data + to->len, data, len);
    to->len += len;
    return true;
}

/* What the layout writes. */
static inline struct golden golden_write(struct taken *t)
{
    struct golden out = {0};
    struct err err;
    const struct layout_sink sink = {.write = golden_append, .ctx = &out, .name = "it"};
    const uint8_t *data[] = {t->data};
    if (!taken_layer(t)->kind->layout->write(&t->filter, data, &sink, &err)) {
        printf("# %s\n", err.text);
        exit(2);
    }
    return out;
}

/* Hashes key i; false if it has no encoding. */
static inline bool golden_hash(const struct taken *t, const struct golden_keys *keys, size_t i,
                               uint64_t hash[HASH_LANES])
{
    const struct encoding *e = encoding_by_id(t->filter.encoding);
    size_t len = keys->len[i];
    const char *key = keys->key[i];
    char *room = e != NULL ? malloc(e->fixed + e->per_byte * len + 1) : NULL;
    if (e != NULL)
        key = e->encode(key, len, room, &len);
    if (key != NULL)
        t->filter.hash->keys(&key, &len, 1, &(struct hash_seed){.number = t->filter.seed}, hash, 1);
    free(room);
    return key != NULL;
}

/* Adds keys [from, to), and counts those that change a bit. */
static inline void golden_add(struct taken *t, const struct golden_keys *keys, size_t from,
                              size_t to)
{
    for (size_t i = from; i < to; i++) {
        uint64_t hash[HASH_LANES], present = 0;
        if (!golden_hash(t, keys, i, hash))
            exit(2);
        taken_layer(t)->kind->add(taken_layer(t), t->data, (struct hashes){hash, 1, NULL}, 1,
                                  &present);
        t->filter.n_added += present == 0;
    }
}

/* Is the first key in? */
static inline bool golden_has(struct taken *t, struct hashes key)
{
    const struct layer *layer = taken_layer(t);
    uint64_t present = 0;
    layer->kind->query(layer, t->data, key, 1, &present);
    return present != 0;
}

/* '1' or '0' for each of n keys, each followed by a newline, as in *.absent. */
static inline struct golden golden_answer(struct taken *t, const struct golden_keys *keys, size_t n)
{
    struct golden out = {malloc(2 * n + 1), 2 * n};
    for (size_t i = 0; i < n; i++) {
        uint64_t hash[HASH_LANES];
        if (!golden_hash(t, keys, i, hash))
            exit(2);
        out.data[2 * i] = golden_has(t, (struct hashes){hash, 1, NULL}) ? '1' : '0';
        out.data[2 * i + 1] = '\n';
    }
    return out;
}

static inline bool golden_equal(struct golden a, struct golden b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline void golden_free(struct taken *t)
{
    free(t->data);
    t->data = NULL;
}

#endif
