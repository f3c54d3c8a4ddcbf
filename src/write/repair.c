/* SPDX-License-Identifier: MIT */
#include "write/repair.h"

#include <inttypes.h>

#include "base/num.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/session.h"
#include "write/assembly.h"

/* Makes the header of a file that takes the place of this one. Its writers stopped when it became
 * dirty. */
static void copy_header(struct assembly *m)
{
    const struct filter *f = &m->in[0];
    m->header = f->header;
    filter_successor_id(f, m->header.id);
    m->header.epoch = 1;
    m->header.state = STATE_CLEAN;
    chain_recount(filter_layers(f), m->threads, &m->header.counters);
    format_place(&m->header);
}

static bool write_copy(struct assembly *m, struct err *err)
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
    return assembly_commit(m, err);
}

static bool replace(const struct repair *r, struct err *err)
{
    struct assembly m = {.out = r->path, .replace = true, .threads = r->threads};
    bool ok = assembly_open_one(&m, r->path, err) && write_copy(&m, err);
    assembly_close(&m);
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

static bool check_pages(struct repair *r, const struct filter *f, struct err *err)
{
    uint64_t unchecked;
    r->differing = filter_check_pages(f, r->threads, &unchecked, NULL, NULL);
    return r->differing == 0 || r->was_dirty ||
           fail(err,
                "'%s' is damaged in %" PRIu64 " page%s, which cannot be restored: make it "
                "again",
                f->path, r->differing, num_plural(r->differing));
}

bool repair_file(struct repair *r, struct err *err)
{
    struct filter f;
    struct header h;
    if (!filter_read_header(r->path, &h, err))
        return false;
    if (format_is_immutable(&h))
        return true;
    if (!filter_open(&f, r->path, FILTER_WRITE, err))
        return false;
    bool ok = write_in_place(r, &f, err) && check_pages(r, &f, err);
    filter_close(&f);
    return ok && (!r->was_dirty || replace(r, err));
}
