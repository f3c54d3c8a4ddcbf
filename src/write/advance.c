/* SPDX-License-Identifier: MIT */
#include "write/advance.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"
#include "base/err.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/session.h"
#include "write/borrow.h"

void (*advance_step)(int step);

static void step_done(int step)
{
    if (advance_step != NULL)
        advance_step(step);
}

static bool write_zero_sums(const struct filter *f, const struct header *h, unsigned layer,
                            struct err *err)
{
    struct header copy = *h;
    struct target target = header_target(&copy, layer, f->fd, f->path, 1);
    return target_zero_sums(&target, err);
}

/* For a file system that cannot reserve blocks. */
static bool write_zeroes(const struct filter *f, uint64_t from, uint64_t len, struct err *err)
{
    static const uint8_t zeroes[64 << 10];
    for (uint64_t n; from < len; from += n) {
        n = len - from < sizeof zeroes ? len - from : sizeof zeroes;
        if (!disk_write(f->fd, zeroes, n, from, f->path, err))
            return false;
    }
    return true;
}

/* Extends the file to `len` with allocated zeroes. First truncates it to the header's length, in
 * case an earlier attempt left data behind it. */
static bool lengthen(const struct filter *f, uint64_t len, struct err *err)
{
    uint64_t from = f->header.file_len;
    bool ok;
    if (ftruncate(f->fd, (off_t)from) != 0)
        return fail_errno(err, "cannot change the length of '%s'", f->path);
    do
        ok = port_reserve(f->fd, (off_t)from, (off_t)(len - from));
    while (!ok && errno == EINTR);
    if (!ok && errno == ENOSYS)
        return write_zeroes(f, from, len, err);
    return ok || fail_errno(err, "cannot make room in '%s'", f->path);
}

/* Appends h's last layer, empty: to the file on disk, if there is one. On failure, truncates the
 * file again. */
static bool append_layer(struct session *s, const struct header *h, struct err *err)
{
    struct filter *f = s->filter;
    if (f->in_memory)
        return filter_prepare(f, h, err);
    if (lengthen(f, h->file_len, err) && write_zero_sums(f, h, h->n_layers - 1, err) &&
        session_sync(s, err) && filter_prepare(f, h, err))
        return true;
    int ignored = ftruncate(f->fd, (off_t)f->header.file_len);
    (void)ignored;
    return false;
}

/* Empties a layer, with its touched bits and checksums, also on disk. Keeps the blocks allocated if
 * the file system can. */
static bool empty_layer(struct session *s, const struct header *h, unsigned layer, struct err *err)
{
    const struct filter *f = s->filter;
    const struct layer *l = &h->layers[layer];
    if (f->in_memory || !port_clear(f->fd, (off_t)l->data_off, (off_t)l->data_len))
        memset(f->data[layer], 0, (size_t)l->data_len);
    if (f->in_memory)
        return true;
    memset(f->map + l->touched_off, 0, (size_t)((layer_pages(l) + 7) / 8));
    return write_zero_sums(f, h, layer, err) && session_sync(s, err);
}

/* The last two steps of a rotation: the void layer of h. */
static bool renew_void(struct session *s, struct header *h, struct err *err)
{
    unsigned layer = (unsigned)chain_find_void(h);
    h->counters = s->counters;
    chain_renew(h, layer);
    if (!empty_layer(s, h, layer, err))
        return false;
    step_done(2);
    if (!session_change(s, h, err))
        return false;
    step_done(3);
    return true;
}

bool advance_finish(struct session *s, struct err *err)
{
    if (chain_find_void(&s->filter->header) < 0)
        return true;
    struct header h = s->filter->header;
    uint64_t now = format_now();
    if (chain_is_lost(&h, now))
        chain_date(&h, now);
    return renew_void(s, &h, err);
}

bool advance(struct session *s, unsigned threads, struct err *err)
{
    filter_expect(s->filter, true);
    struct header h = chain_close(filter_layers(s->filter), &s->counters, threads);
    if (!format_forgets(&h))
        return chain_grow(&h, s->filter->path, err) && append_layer(s, &h, err) &&
               session_change(s, &h, err);
    chain_void(&h);
    if (!session_change(s, &h, err))
        return false;
    step_done(1);
    h = s->filter->header;
    return renew_void(s, &h, err);
}

bool advance_by_time(struct session *s, unsigned threads, enum advance_clock *clock,
                     struct err *err)
{
    struct header h = s->filter->header;
    uint64_t now = format_now();
    *clock = CLOCK_BELIEVED;
    if (h.period == 0)
        return true;
    if (!chain_doubts(&h, now))
        return !chain_is_due(&h, now) || advance(s, threads, err);
    bool lost = chain_is_lost(&h, now);
    if (h.layers[chain_newest(&h)].since != 0)
        *clock = lost ? CLOCK_DATED : CLOCK_DOUBTED;
    if (!lost)
        return true;
    chain_date(&h, now);
    return session_change(s, &h, err);
}

/* As if the newest generation's period had just ended. */
static bool end_period(struct session *s, struct err *err)
{
    struct header h = s->filter->header;
    uint64_t now = format_now(), begun = now > h.period ? now - h.period : 1;
    if (h.period == 0 || now == 0 || chain_is_due(&h, now))
        return true;
    chain_date(&h, begun);
    return session_change(s, &h, err);
}

static bool check_forgets(const struct header *h, const char *path, struct err *err)
{
    return format_forgets(h) ||
           fail(err,
                "'%s' has no generations, so it cannot be rotated; 'seen create "
                "--generations' makes filters that can be",
                path);
}

/* It may be another file than the one that was opened. */
static bool rotate_now(struct session *s, struct rotation *r, struct err *err)
{
    const struct header *h = &s->filter->header;
    if (!check_forgets(h, s->filter->path, err) || !advance_finish(s, err))
        return false;
    r->emptied = (double)chain_oldest_keys(h, &s->counters);
    if (h->period == 0 || r->force)
        return end_period(s, err) && advance(s, r->threads, err);
    uint32_t newest = h->layers[chain_newest(h)].generation;
    bool ok = advance_by_time(s, r->threads, &r->clock, err);
    r->early = h->layers[chain_newest(h)].generation == newest;
    return ok;
}

static bool rotate_once(struct session *s, struct rotation *r, struct err *err)
{
    if (!session_lock(s, err))
        return false;
    bool ok = rotate_now(s, r, err);
    session_unlock(s);
    return ok;
}

bool advance_rotate(const char *path, struct rotation *r, struct err *err)
{
    struct filter f;
    struct session s;
    struct err why;
    struct header h;
    if (!borrow_read_header(path, &(const struct borrow){0}, &h, err) ||
        !check_forgets(&h, path, err) || !filter_open(&f, path, FILTER_WRITE, err))
        return false;
    bool ok = session_begin(&s, &f, err);
    if (ok) {
        ok = rotate_once(&s, r, err);
        ok = session_end(&s, true, ok ? err : &why) && ok;
    }
    filter_close(&f);
    return ok;
}
