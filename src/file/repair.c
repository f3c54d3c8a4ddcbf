/* SPDX-License-Identifier: MIT */
#include "file/repair.h"

#include <inttypes.h>

#include "base/num.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/newfile.h"
#include "file/session.h"

/* The header of the new file. Writers of the old one stopped when it became dirty. */
static void copy_header(const struct filter *f, unsigned threads, struct header *h)
{
    const struct layers layers = filter_layers(f);
    *h = f->header;
    filter_successor_id(f, h->id);
    h->epoch = 1;
    h->state = STATE_CLEAN;
    chain_recount(&layers, threads, &h->counters);
    format_place(h);
}

static bool write_copy(const struct filter *f, unsigned threads, struct newfile *file,
                       struct err *err)
{
    struct header h;
    copy_header(f, threads, &h);
    if (!header_reserve(&h, file, err))
        return false;
    for (unsigned i = 0; i < h.n_layers; i++) {
        struct target t = header_target(&h, i, file->fd, f->path, threads);
        if (!target_copy(&t, f->data[i], err))
            return false;
    }
    return header_write(&h, file->fd, f->path, err) && newfile_commit(file, err);
}

static bool replace(const struct filter *f, unsigned threads, struct err *err)
{
    struct newfile file;
    if (!newfile_open(&file, f->path, true, err))
        return false;
    bool ok = newfile_hold_by(&file, f->fd, err) && write_copy(f, threads, &file, err);
    newfile_close(&file);
    return ok;
}

static bool repair_held(struct repair *r, struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    uint64_t unchecked, bad = filter_check_pages(f, r->threads, &unchecked, NULL, NULL);
    r->was_left = s->found_dead;
    r->was_dirty = f->header.state == STATE_DIRTY;
    if (r->was_dirty) {
        r->differing = bad;
        return replace(f, r->threads, err);
    }
    if (bad > 0)
        return fail(err,
                    "'%s' is damaged in %" PRIu64 " page%s, which cannot be restored: make it "
                    "again",
                    f->path, bad, num_plural(bad));
    r->slot_was_damaged = f->slot_damaged;
    return !f->slot_damaged || session_change(s, &f->header, err);
}

bool repair_file(struct repair *r, struct err *err)
{
    struct filter f;
    struct session s;
    struct header h;
    if (!filter_read_header(r->path, &h, err))
        return false;
    if (format_is_immutable(&h))
        return true;
    if (!filter_open(&f, r->path, FILTER_WRITE, err))
        return false;
    bool ok = session_hold(&s, &f, err);
    if (ok) {
        ok = repair_held(r, &s, err);
        session_release(&s);
    }
    filter_close(&f);
    return ok;
}
