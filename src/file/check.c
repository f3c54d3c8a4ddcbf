/* SPDX-License-Identifier: MIT */
#include "file/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/disk.h"
#include "file/format.h"
#include "file/pages.h"
#include "file/session.h"

__attribute__((format(printf, 3, 4))) static void note(struct check *c, uint64_t offset,
                                                       const char *fmt, ...)
{
    if (c->n++ > 0 && offset >= c->offset)
        return;
    c->offset = offset;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->text, sizeof c->text, fmt, ap);
    va_end(ap);
}

static void note_page(void *ctx, unsigned layer, uint64_t page, uint64_t offset, const char *why)
{
    struct check *c = ctx;
    c->n_pages++;
    note(c, offset, "page %" PRIu64 " of layer %u %s", page, layer, why);
}

static void check_zero(struct check *c, uint64_t from, uint64_t to, const char *what)
{
    for (uint64_t at = from; at < to; at++)
        if (c->file.map[at] != 0) {
            note(c, at, "%s", what);
            return;
        }
}

static bool is_immutable(const struct check *c)
{
    return format_is_immutable(&c->file.header);
}

static void check_slot(struct check *c, uint64_t offset)
{
    struct header h;
    struct err why;
    if (!format_decode(c->file.map + offset, FORMAT_PAGE, &h, &why))
        note(c, offset, "one of the two copies of the header is not valid");
}

static void check_slots(struct check *c)
{
    if (is_immutable(c))
        return; /* its only header was checked when it was opened */
    /* A live writer writes one slot at a time, and filter_open has waited for it to finish. */
    if (c->file.slot_damaged) {
        check_slot(c, FORMAT_SLOT_A);
        check_slot(c, FORMAT_SLOT_B);
    }
    if (c->health == FILTER_CLEAN)
        check_zero(c, FORMAT_SESSION, FORMAT_FIRST_LAYER,
                   "the session page of a clean file is not zero");
}

/* Checks the padding, which nothing else reads, and the bitmap of touched pages, which only writers
 * use. */
static void check_tables(struct check *c)
{
    static const char padding[] = "padding is not zero";
    const struct header *h = &c->file.header;
    uint64_t at = is_immutable(c) ? format_len(h) : FORMAT_FIRST_LAYER;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct layer *l = &h->layers[i];
        uint64_t pages = layer_pages(l);
        if (is_immutable(c)) {
            check_zero(c, at, l->data_off, padding);
            check_zero(c, l->data_off + l->data_len, l->sums_off, padding);
            at = l->sums_off + FORMAT_SUM * pages;
            continue;
        }
        check_zero(c, at, l->sums_off, padding);
        at = l->sums_off + FORMAT_SUM * pages;
        check_zero(c, at, l->touched_off, padding);
        at = l->touched_off + (pages + 7) / 8;
        if (c->health == FILTER_CLEAN && !format_is_void(h, i))
            check_zero(c, l->touched_off, at, "a clean file has pages marked as touched");
        check_zero(c, at, l->data_off, padding);
        at = l->data_off + l->data_len;
    }
}

/* Checks what follows the last layer. A filter that grows may have begun its next one there, and
 * been killed: checksums of pages, and zeros. Another file was refused for its length. */
static void check_rest(struct check *c)
{
    uint8_t buf[FORMAT_PAGE];
    uint64_t from = c->file.header.file_len, size = (uint64_t)c->file.status.st_size;
    uint64_t rest = size > from ? size - from : 0, pages = rest / FORMAT_PAGE;
    uint64_t sums = (pages * FORMAT_SUM + FORMAT_PAGE - 1) / FORMAT_PAGE * FORMAT_PAGE;
    if (rest % FORMAT_PAGE != 0)
        sums = 0;
    size_t got = 1;
    for (uint64_t at = from + sums; at < size && got > 0; at += got) {
        if (!disk_read(c->file.fd, buf, sizeof buf, at, &got)) {
            note(c, at + got, "cannot be read: %s", strerror(errno));
            return;
        }
        for (size_t i = 0; i < got; i++)
            if (buf[i] != 0) {
                note(c, at + i, "bytes follow the last layer");
                return;
            }
    }
}

/* Checks what single pages do not show. */
static void check_layers(struct check *c)
{
    for (unsigned i = 0; i < c->file.header.n_layers; i++) {
        const struct layer *l = &c->file.header.layers[i];
        struct err why;
        if (l->kind->check_whole != NULL &&
            !l->kind->check_whole(l, c->file.data[i], c->threads, &why))
            note(c, l->data_off, "layer %u: %s", i, why.text);
    }
}

/* Do the counters agree with each other, and with the bits? A mismatch is not damage while
 * checksums match: chosen keys can set fewer or more bits than others. */
static void check_counters(struct check *c)
{
    const struct header *h = &c->file.header;
    const struct counters *n = &h->counters;
    uint64_t offset = !is_immutable(c) && h->epoch % 2 != 0 ? FORMAT_SLOT_B : FORMAT_SLOT_A;
    if (n->keys_added > n->records || h->made > n->keys_added) {
        note(c, offset, "the counters in the header contradict each other");
        return;
    }
    struct census layer[FORMAT_MAX_LAYERS];
    layers_census_each(filter_layers(&c->file), c->threads, layer);
    c->disagree = !layers_counters_agree(h, n, layer, &c->n_bits, &c->n_counted);
}

static void check_once(struct check *c)
{
    c->n = c->n_pages = 0;
    c->disagree = false;
    c->health = filter_health(&c->file);
    check_slots(c);
    check_tables(c);
    if (c->health == FILTER_CLEAN)
        check_rest(c);
    pages_check_all(&c->file, c->threads, &c->unchecked, note_page, c);
    if (c->health == FILTER_CLEAN && c->n == 0)
        check_layers(c);
    if (c->health == FILTER_CLEAN && c->n == 0)
        check_counters(c);
    bool is_dirty = session_is_dirty(&c->file);
    c->repairable = c->n == c->n_pages && (is_dirty || (c->n > 0 && c->health == FILTER_DIRTY));
}

/* Findings are void if a writer came or went during the check. Then the check is repeated, up to
 * this number of tries. */
enum { TRIES = 5 };

bool check_all(struct check *c, struct err *err)
{
    struct filter *f = &c->file;
    for (int tries = 0; tries < TRIES; tries++) {
        uint64_t epoch = f->header.epoch;
        check_once(c);
        if ((c->n == 0 && !c->disagree) || is_immutable(c))
            return filter_check_intact(f, err);
        if (!filter_reload(f, err))
            return false;
        if (f->header.epoch == epoch)
            return c->n > 0 || filter_check_intact(f, err);
    }
    c->disagree = false;
    return c->n == 0 ? filter_check_intact(f, err)
                     : fail(err, "'%s' kept changing while it was checked", f->path);
}
