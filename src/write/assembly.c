/* SPDX-License-Identifier: MIT */
#include "write/assembly.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/output.h"
#include "file/design.h"
#include "file/header.h"
#include "file/layers.h"
#include "file/pages.h"

bool assembly_begin(struct assembly *a, struct err *err)
{
    return newfile_open(&a->file, a->out, a->replace, err) &&
           (!a->prints || output_is_apart(a->file.old_fd, a->out, err));
}

static bool replaces(const struct assembly *a, unsigned i)
{
    return a->out != NULL && newfile_replaces(&a->file, a->in[i].fd);
}

bool assembly_inputs(struct assembly *a, const char *const *paths, unsigned n, const char *done,
                     struct err *err)
{
    if (a->out != NULL && !newfile_hold(&a->file, err))
        return false;
    a->in = calloc(n, sizeof *a->in);
    if (a->in == NULL)
        return fail(err, "out of memory");
    for (unsigned i = 0; i < n; i++) {
        if (!borrow_open(&a->in[i], paths[i], a->borrow, err))
            return false;
        a->n_in++;
        if (!header_check_same(&a->in[0].header, paths[0], &a->in[i].header, paths[i], done, err))
            return false;
        a->replaces_input |= replaces(a, i);
    }
    if (a->out != NULL && !a->replaces_input)
        newfile_let_go(&a->file);
    return true;
}

bool assembly_check_sound(const struct assembly *a, struct err *err)
{
    for (unsigned i = 0; i < a->n_in; i++)
        if (!pages_check_sound(&a->in[i], a->threads, err))
            return false;
    return true;
}

void assembly_like(struct assembly *a)
{
    struct header *h = &a->header;
    header_begin_like(h, &a->in[0].header, a->reproducible);
    for (unsigned i = 1; i < a->n_in; i++)
        header_join_keys(h, &a->in[i].header);
    header_join_profiles(h, a->in, a->n_in);
    for (unsigned i = 0; i < a->n_in; i++)
        if (replaces(a, i)) {
            h->n_batches = a->in[i].header.n_batches;
            memcpy(h->batch, a->in[i].header.batch, sizeof h->batch);
        }
}

void assembly_succeed(struct assembly *a)
{
    for (unsigned i = 0; i < a->n_in && !a->reproducible; i++)
        if (replaces(a, i))
            filter_successor_id(&a->in[i], a->header.id);
}

void assembly_take(struct assembly *a, unsigned i, enum origin_how how, const struct layer *layer,
                   const uint8_t *data)
{
    struct origin *o = &a->origin[i];
    *o = (struct origin){.how = how, .layer = layer, .data = data};
    o->parts = (struct union_of){.n = 1, .layer = &o->layer, .data = &o->data};
}

/* Bytes converted and written at a time. */
enum { PIECE = 1 << 16 };

static bool write_layout_bits(const struct target *t, const struct layout_bits *bits,
                              struct err *err)
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

/* A copy has the checksums of what is in the new file: a writer may change the old one while it is
 * read. */
static bool write_layer(struct assembly *a, unsigned i, struct err *err)
{
    const struct origin *o = &a->origin[i];
    struct target t = header_target(&a->header, i, a->file.fd, a->out, a->threads);
    const struct kind *kind = t.layer->kind;
    t.n = o->n;
    t.presumed = o->presumed;
    switch (o->how) {
    case FROM_KEYS:
        return kind->building->build(&t, o->keys, &a->each[i], err);
    case FROM_TABLES:
        return table_write_union(&t, &o->parts, &a->each[i], err);
    case FROM_COPY:
        return target_copy(&t, o->data, err);
    case FROM_MEMORY:
        return target_write_all(&t, o->data, err);
    case FROM_LONGER:
        return kind->dropping->write(&t, o->layer, o->data, &a->each[i].fpr, err);
    case FROM_COUNTS:
        return kind->counts->combine(o->op, o->parts.layer, o->parts.data, o->parts.n, &t,
                                     a->threads, &a->seen, err);
    case FROM_FOREIGN:
        return write_layout_bits(&t, o->bits, err);
    default:
        return target_zero_sums(&t, err);
    }
}

bool assembly_write(struct assembly *a, struct err *err)
{
    /* What is combined has a length that nobody knows before. Scratch has no name. */
    bool reserves = a->origin[0].how != FROM_COUNTS && a->file.path != NULL;
    format_place(&a->header);
    bool ok = !reserves || header_reserve(&a->header, &a->file, err);
    /* In order: the offset of a layer depends on the lengths of those before it, which may change
     * as they are written. */
    for (unsigned i = 0; ok && i < a->header.n_layers; i++)
        ok = write_layer(a, i, err);
    return ok;
}

bool assembly_measure(struct assembly *a, bool prints, struct err *err)
{
    uint8_t *data[FORMAT_MAX_LAYERS];
    struct header *h = &a->header;
    struct layers layers = {h, data};
    struct mapped map;
    if (!mapped_open(&map, a->file.fd, h->file_len, a->out))
        return fail_errno(err, "cannot map '%s'", a->out);
    for (unsigned i = 0; i < h->n_layers; i++)
        data[i] = (uint8_t *)map.data + h->layers[i].data_off;
    if (prints)
        layers_measure(layers, a->threads, a->each, &a->census);
    else
        layers_census_each(layers, a->threads, a->each);
    mapped_close(&map);
    return true;
}

bool assembly_sample(struct assembly *a, struct err *err)
{
    return a->header.layers[0].kind->sampled_fpr == NULL || assembly_measure(a, true, err);
}

void assembly_count(struct assembly *a, const uint64_t *counted)
{
    struct header *h = &a->header;
    uint64_t n = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (counted == NULL)
            h->layers[i].n_before = n;
        n += (uint64_t)round(a->each[i].n);
        if (i + 1 < h->n_layers)
            h->layers[i].fpr_closed = a->each[i].fpr;
    }
    if (counted == NULL)
        h->compat |= COMPAT_ESTIMATED;
    h->made = counted != NULL ? *counted : n;
    h->counters = (struct counters){.records = h->made, .keys_added = h->made};
}

bool assembly_adopt(struct assembly *a, const struct layout_filter *filter,
                    const struct layout_bits *bits, const struct key_rule *rule, struct err *err)
{
    header_begin_foreign(&a->header, filter, rule, a->reproducible);
    for (unsigned i = 0; i < filter->n_layers; i++)
        a->origin[i] = (struct origin){.how = FROM_FOREIGN, .bits = &bits[i]};
    if (!assembly_write(a, err) || !assembly_measure(a, a->prints, err))
        return false;
    assembly_count(a, filter->layer[0].kind->layout->counts ? &filter->n_added : NULL);
    return true;
}

bool assembly_check_intact(const struct assembly *a, struct err *err)
{
    for (unsigned i = 0; i < a->n_in; i++)
        if (!filter_check_intact(&a->in[i], err))
            return false;
    return true;
}

bool assembly_commit(struct assembly *a, struct err *err)
{
    bool ok = assembly_check_intact(a, err) && header_write(&a->header, a->file.fd, a->out, err) &&
              newfile_commit(&a->file, err);
    if (a->replaces_input && !a->loses_keys)
        a->file.attached = false; /* the new file has the writers' keys */
    /* Writers of a replaced file need not wait for what the command prints. */
    newfile_close(&a->file);
    return ok;
}

void assembly_close(struct assembly *a)
{
    for (unsigned i = 0; i < a->n_in; i++)
        filter_close(&a->in[i]);
    newfile_close(&a->file);
    free(a->in);
}

bool assembly_empty(const char *path, const struct header *h, struct err *err)
{
    struct assembly a = {.out = path, .threads = 1, .header = *h};
    bool ok = assembly_begin(&a, err) && assembly_write(&a, err) && assembly_commit(&a, err);
    assembly_close(&a);
    struct stat st;
    return ok || (stat(path, &st) == 0 && st.st_size > 0);
}
