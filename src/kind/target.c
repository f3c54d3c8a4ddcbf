/* SPDX-License-Identifier: MIT */
#include "kind/target.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/parallel.h"
#include "kind/foreign.h"

/* Checksums per write, and pages that a thread reads back at a time. */
enum { SUMS_AT_ONCE = 1024, PIECE = 256 };

/* Writes the pages that are not zero. */
static bool write_sparse(const struct target *t, const uint8_t *data, uint64_t len, uint64_t at,
                         struct err *err)
{
    uint64_t off = t->layer->data_off;
    for (size_t n; len > 0; data += n, at += n, len -= n) {
        n = LAYER_PAGE - (size_t)(at % LAYER_PAGE);
        n = n < len ? n : (size_t)len;
        if (!bytes_zero(data, n) && !disk_write(t->fd, data, n, off + at, t->name, err))
            return false;
    }
    return true;
}

bool target_write(const struct target *t, const void *data, uint64_t len, uint64_t at,
                  struct err *err)
{
    const struct layer *layer = t->layer;
    return layout_is_sparse(layer)
               ? write_sparse(t, data, len, at, err)
               : disk_write(t->fd, data, len, layer->data_off + at, t->name, err);
}

/* All that was written so far goes to the disk whenever a piece crosses a multiple of this:
 * requests for less are slow. */
enum { WRITE_BACK = 16 << 20 };

void target_write_back(const struct target *t, uint64_t len, uint64_t at)
{
    if (at / WRITE_BACK != (at + len) / WRITE_BACK)
        port_write_back(t->fd);
}

void target_resize(const struct target *t, uint64_t data_len)
{
    t->layer->data_len = data_len;
    t->place(t->header);
}

/* Writes the checksums of pages [first, first + n) of the layer, whose bytes are at `pages`; NULL:
 * they are zero. */
static bool write_sums(const struct target *t, const uint8_t *pages, uint64_t first, uint64_t n,
                       struct err *err)
{
    static const uint8_t zeroes[LAYER_PAGE];
    const struct layer *layer = t->layer;
    uint64_t end = first + n;
    for (uint64_t page = first; page < end;) {
        uint8_t sums[SUMS_AT_ONCE * LAYER_SUM];
        uint64_t off = layer->sums_off + page * LAYER_SUM, len = 0;
        for (; len < sizeof sums && page < end; len += LAYER_SUM, page++) {
            const uint8_t *data = pages == NULL ? zeroes : pages + (page - first) * LAYER_PAGE;
            put_le32(sums + len, layer_page_sum(t->seed, page, data, layer_page_len(layer, page)));
        }
        if (!disk_write(t->fd, sums, len, off, t->name, err))
            return false;
    }
    return true;
}

bool target_write_pages(const struct target *t, const uint8_t *pages, uint64_t len, uint64_t at,
                        struct err *err)
{
    return write_sums(t, pages, at / LAYER_PAGE, (len + LAYER_PAGE - 1) / LAYER_PAGE, err) &&
           target_write(t, pages, len, at, err);
}

bool target_zero_sums(const struct target *t, struct err *err)
{
    const struct layer *layer = t->layer;
    return write_sums(t, NULL, 0, layer_pages(layer), err);
}

static bool read_back(const struct target *t, uint8_t *buf, size_t len, uint64_t off,
                      struct err *err)
{
    size_t got;
    if (!disk_read(t->fd, buf, len, off, &got))
        return fail_errno(err, "cannot read '%s'", t->name);
    return got == len || fail(err, "cannot read '%s': it ends early", t->name);
}

/* What threads sum up or copy, in pieces. */
struct copy {
    const struct target *target;
    const uint8_t *data; /* NULL: it is in the file */
};

static bool sum_piece(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    const struct target *t = ((const struct copy *)ctx)->target;
    uint64_t at = i * PIECE * LAYER_PAGE, left = t->layer->data_len - at;
    size_t len = left < PIECE * LAYER_PAGE ? (size_t)left : PIECE * LAYER_PAGE;
    (void)worker;
    uint8_t *buf = malloc(len);
    bool ok = buf != NULL
                  ? read_back(t, buf, len, t->layer->data_off + at, err) &&
                        write_sums(t, buf, i * PIECE, (len + LAYER_PAGE - 1) / LAYER_PAGE, err)
                  : fail(err, "out of memory");
    free(buf);
    return ok;
}

bool target_sums(const struct target *t, struct err *err)
{
    struct copy c = {.target = t};
    return parallel_try(t->threads, (layer_pages(t->layer) + PIECE - 1) / PIECE, sum_piece, &c,
                        err);
}

bool target_copy(const struct target *t, const uint8_t *data, struct err *err)
{
    return target_write(t, data, t->layer->data_len, 0, err) && target_sums(t, err);
}

static bool copy_piece(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    const struct copy *c = ctx;
    uint64_t at = i * PIECE * LAYER_PAGE, left = c->target->layer->data_len - at;
    uint64_t len = left < PIECE * LAYER_PAGE ? left : PIECE * LAYER_PAGE;
    (void)worker;
    if (!target_write_pages(c->target, c->data + at, len, at, err))
        return false;
    target_write_back(c->target, len, at);
    return true;
}

bool target_write_all(const struct target *t, const uint8_t *data, struct err *err)
{
    struct copy c = {t, data};
    return parallel_try(t->threads, (layer_pages(t->layer) + PIECE - 1) / PIECE, copy_piece, &c,
                        err);
}
