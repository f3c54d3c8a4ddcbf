/* SPDX-License-Identifier: MIT */
#include "write/repair.h"

#include <inttypes.h>

#include "base/num.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/session.h"
#include "write/make.h"

/* Makes the header of a file that takes the place of this one. Its writers stopped when it became
 * dirty. */
static void copy_header(struct make *m)
{
    const struct filter *f = &m->in[0];
    m->header = f->header;
    filter_successor_id(f, m->header.id);
    m->header.epoch = 1;
    m->header.state = STATE_CLEAN;
    chain_recount(filter_layers(f), m->threads, &m->header.counters);
    format_place(&m->header);
}

static bool write_copy(struct make *m, struct err *err)
{
    if (m->in[0].header.state != STATE_DIRTY) /* another process has repaired it */
        return true;
    copy_header(m);
    if (!header_reserve(&m->header, &m->file, err))
        return false;
    for (unsigned i = 0; i < m->header.n_layers; i++) {
        const struct target t = header_target(&m->header, i, m->file.fd, m->out, m->threads);
        if (!target_copy(&t, m->in[0].data[i], err))
            return false;
    }
    return make_commit(m, err);
}

static bool replace(const struct repair *r, struct err *err)
{
    struct make m = {.out = r->path, .replace = true, .threads = r->threads};
    bool ok = make_open_one(&m, r->path, err) && write_copy(&m, err);
    make_close(&m);
    return ok;
}

static bool repair_held(struct repair *r, struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    uint64_t unchecked, bad = filter_check_pages(f, r->threads, &unchecked, NULL, NULL);
    r->was_left = s->found_dead;
    r->was_dirty = f->header.state == STATE_DIRTY;
    r->differing = bad;
    if (r->was_dirty)
        return true; /* it is replaced when its lock is released */
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
    return ok && (!r->was_dirty || replace(r, err));
}
