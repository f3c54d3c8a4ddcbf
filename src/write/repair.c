/* SPDX-License-Identifier: MIT */
#include "write/repair.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "kind/foreign.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/newfile.h"
#include "file/pages.h"
#include "file/session.h"
#include "write/assembly.h"

/* Counts the damaged pages of each layer. */
static void count_page(void *ctx, unsigned layer, uint64_t page, uint64_t offset, const char *why)
{
    uint64_t *damaged = ctx;
    (void)page;
    (void)offset;
    (void)why;
    damaged[layer]++;
}

/* Sets all bits of a page. Bytes behind the last bit are padding, or belong to the other program's
 * user (kind/foreign.h). Those of a damaged page cannot be told: then this fails. */
static bool fill_page(const struct layer *l, uint64_t page, uint8_t *out)
{
    const struct layout *layout = l->kind->layout;
    uint64_t m = l->kind->shape(l).m, words = m == 0 ? l->data_len : (m + 63) / 64 * 8;
    if (l->data_len > words && page * LAYER_PAGE + layer_page_len(l, page) > words)
        return false;
    uint64_t bits = layout != NULL && layout->reach != NULL ? layout->reach(l) : m;
    if (m == 0)
        bits = 8 * l->data_len;
    uint64_t first = page * LAYER_PAGE * 8, left = bits > first ? bits - first : 0;
    memset(out, 0, LAYER_PAGE);
    uint64_t n = left < LAYER_PAGE * 8 ? left : LAYER_PAGE * 8;
    memset(out, 0xff, (size_t)(n / 8));
    if (n % 8 != 0)
        out[n / 8] = (uint8_t)((1u << n % 8) - 1);
    return true;
}

/* A tenth of the pages with all bits set: an FPR of a tenth. */
enum { MOST_FILLED = 10 };

/* Fills the damaged pages of a layer that was copied. */
static bool fill_layer(struct repair *r, struct assembly *a, unsigned layer, struct err *err)
{
    const struct layer *l = &a->header.layers[layer];
    const struct target t = header_target(&a->header, layer, a->file.fd, a->out, 1);
    struct err why;
    uint8_t buf[LAYER_PAGE];
    for (uint64_t page = 0; page < layer_pages(l) && !format_is_void(&a->header, layer); page++) {
        if (pages_check_one(&a->in[0], layer, page, &why))
            continue;
        if (!fill_page(l, page, buf))
            return fail(err, "%s, which cannot be repaired: make it again", why.text);
        if (!target_write_pages(&t, buf, layer_page_len(l, page), page * LAYER_PAGE, err))
            return false;
        r->n_filled++;
    }
    return true;
}

/* Plans a copy of the input that takes its place. */
static void plan_copy(struct assembly *a, bool damaged)
{
    const struct filter *f = &a->in[0];
    a->header = f->header;
    assembly_succeed(a);
    a->header.epoch = 1;
    a->header.state = STATE_CLEAN;
    if (!damaged)
        chain_recount(filter_layers(f), a->threads, &a->header.counters);
    for (unsigned i = 0; i < f->header.n_layers; i++)
        assembly_take(a, i, FROM_COPY, &f->header.layers[i], f->data[i]);
}

static bool write_copy(struct repair *r, struct assembly *a, bool damaged, struct err *err)
{
    const struct header *old = &a->in[0].header;
    if (old->state == STATE_CLEAN && !damaged) /* another process has repaired it */
        return true;
    if (old->state == STATE_WRITING)
        return fail(err, "keys are being added to '%s': run this again when that has ended",
                    r->path);
    plan_copy(a, damaged);
    bool ok = assembly_write(a, err);
    for (unsigned i = 0; ok && i < a->header.n_layers; i++)
        ok = fill_layer(r, a, i, err);
    return ok && assembly_commit(a, err);
}

/* Nobody changes the file meanwhile: whoever adds keys has marked it as being written. */
static bool replace(struct repair *r, bool damaged, struct err *err)
{
    struct assembly a = {.out = r->path, .replace = true, .threads = r->threads};
    bool ok = assembly_begin(&a, err) && assembly_inputs(&a, &r->path, 1, "", err) &&
              write_copy(r, &a, damaged, err);
    assembly_close(&a);
    return ok;
}

/* The next writer of a file ends a session whose writers are dead, and writes both slots. */
static bool write_in_place(struct repair *r, struct filter *f, struct err *err)
{
    struct session s;
    bool damaged = f->slot_damaged;
    if (f->header.state == STATE_CLEAN && !damaged)
        return true;
    bool ok = session_begin(&s, f, err) && session_end(&s, true, err);
    r->was_left = s.found_dead;
    r->was_dirty = f->header.state == STATE_DIRTY;
    r->slot_was_damaged = damaged && f->header.state == STATE_CLEAN;
    return ok || r->was_dirty;
}

/* Counts the damaged pages; fails if they are too many. */
static bool check_pages(struct repair *r, const struct filter *f, bool *damaged, struct err *err)
{
    uint64_t unchecked, in_layer[FORMAT_MAX_LAYERS] = {0};
    *damaged = pages_check_all(f, r->threads, &unchecked, count_page, in_layer) != 0;
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        uint64_t pages = layer_pages(&f->header.layers[i]);
        r->n_pages += pages;
        if (in_layer[i] > pages / MOST_FILLED)
            return fail(err,
                        "'%s' is damaged in %" PRIu64 " of the %" PRIu64 " page%s of layer %u, "
                        "which is too much to repair: make it again",
                        r->path, in_layer[i], pages, num_plural(pages), i);
    }
    return true;
}

static bool measure(struct repair *r, struct err *err)
{
    struct filter f;
    struct census layer[FORMAT_MAX_LAYERS], all;
    if (!filter_open(&f, r->path, FILTER_READ, err))
        return false;
    filter_expect(&f, true);
    layers_measure(filter_layers(&f), r->threads, layer, &all);
    filter_close(&f);
    r->fpr = all.fpr;
    return true;
}

bool repair_file(struct repair *r, struct err *err)
{
    struct filter f;
    struct header h;
    bool damaged;
    if (!filter_read_header(r->path, &h, err))
        return false;
    if (format_is_immutable(&h))
        return true;
    if (!filter_open(&f, r->path, FILTER_WRITE, err))
        return false;
    newfile_clean(r->path);
    bool ok = write_in_place(r, &f, err) && check_pages(r, &f, &damaged, err);
    filter_close(&f);
    if (!ok || !(r->was_dirty || damaged))
        return ok;
    return replace(r, damaged, err) && (r->n_filled == 0 || measure(r, err));
}
