#include "store/advance.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sig.h"
#include "store/chain.h"
#include "store/header.h"
#include "store/newfile.h"
#include "store/session.h"

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

/* Extends the file to `len` with allocated zeroes. First truncates it to the header's length, in
 * case an earlier attempt left data behind it. */
static bool lengthen(const struct filter *f, uint64_t len, struct err *err)
{
    int r;
    if (ftruncate(f->fd, (off_t)f->header.file_len) != 0)
        return fail_errno(err, "cannot change the length of '%s'", f->path);
    do
        r = posix_fallocate(f->fd, (off_t)f->header.file_len, (off_t)(len - f->header.file_len));
    while (r == EINTR);
    errno = r;
    return r == 0 || fail_errno(err, "cannot make room in '%s'", f->path);
}

/* Appends h's last layer, empty, to the file on disk. On failure, truncates the file again. */
static bool append_layer(struct session *s, const struct header *h, struct err *err)
{
    struct filter *f = s->filter;
    if (lengthen(f, h->file_len, err) && write_zero_sums(f, h, h->n_layers - 1, err) &&
        session_sync(s, err) && filter_prepare(f, h, err))
        return true;
    int ignored = ftruncate(f->fd, (off_t)f->header.file_len);
    (void)ignored;
    return false;
}

/* Zeroes a layer's data and touched bits. Keeps the blocks allocated if the file system can. */
static void zero_layer(const struct filter *f, const struct layer *l)
{
    memset(f->map + l->touched_off, 0, (size_t)((layer_pages(l) + 7) / 8));
#ifdef FALLOC_FL_ZERO_RANGE
    if (fallocate(f->fd, FALLOC_FL_ZERO_RANGE, (off_t)l->data_off, (off_t)l->data_len) == 0)
        return;
#endif
    memset(f->map + l->data_off, 0, (size_t)l->data_len);
}

bool advance_finish(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    struct header h = f->header;
    int at = chain_find_void(&h);
    if (at < 0)
        return true;
    unsigned layer = (unsigned)at;
    if (!chain_renew(&h, layer, f->path, err))
        return false;
    zero_layer(f, &h.layers[layer]);
    if (!write_zero_sums(f, &h, layer, err) || !session_sync(s, err))
        return false;
    step_done(2);
    if (!session_change(s, &h, err))
        return false;
    step_done(3);
    return true;
}

static bool rotate(struct session *s, struct header *h, struct err *err)
{
    double n_lost;
    if (!chain_void(h, &n_lost, s->filter->path, err))
        return false;
    s->counters.n_keys = fmax(0, s->counters.n_keys - n_lost);
    if (!session_change(s, h, err)) {
        s->counters.unknown = true; /* unknown whether the layer is void on disk */
        return false;
    }
    step_done(1);
    return advance_finish(s, err);
}

bool advance(struct session *s, unsigned threads, struct err *err)
{
    const struct layers layers = filter_layers(s->filter);
    struct header h = chain_close(&layers, &s->counters, threads);
    if (h.policy == POLICY_RING)
        return rotate(s, &h, err);
    return chain_grow(&h, s->filter->path, err) && append_layer(s, &h, err) &&
           session_change(s, &h, err);
}

/* ---- The rotation of a growing ring (chain.h): makes a new file of the layers that are kept and
 * an empty one, and gives it the name, with the writers of the old file locked out. They and the
 * readers go on with the new file (session.h, store_replaced). It keeps the old one's id, by which
 * writers know that no key of theirs is lost (session_is_rotated).
 */

/* The header of the new file: epoch 1, since its first writer then sees to the name (session.c). */
static bool make_header(struct session *s, unsigned threads, struct header *h, unsigned *left_out,
                        double *n_lost, struct err *err)
{
    const struct filter *f = s->filter;
    const struct layers layers = filter_layers(f);
    struct counters counters = s->counters;
    struct header closed = chain_close(&layers, &counters, threads);
    if (!chain_rotate(&closed, left_out, n_lost, f->path, err))
        return false;
    counters.n_keys = fmax(0, counters.n_keys - *n_lost);
    header_begin_like(h, &f->header, false);
    memcpy(h->id, f->header.id, sizeof h->id);
    h->created = f->header.created;
    h->policy = closed.policy;
    h->generations = closed.generations;
    h->fpr_design = closed.fpr_design;
    h->counters = counters;
    h->n_layers = closed.n_layers;
    memcpy(h->layers, closed.layers, sizeof h->layers);
    format_place(h);
    return true;
}

static bool write_layers(const struct filter *from, struct header *h, unsigned left_out,
                         struct newfile *file, unsigned threads, struct err *err)
{
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct target t = header_target(h, i, file->fd, from->path, threads);
        bool is_new = i + 1 == h->n_layers;
        if (sig_caught())
            return fail(err, "interrupted");
        if (!(is_new ? target_zero_sums(&t, err) : target_copy(&t, from->data[i + left_out], err)))
            return false;
    }
    return header_write(h, file->fd, from->path, err);
}

/* What is damaged must not be copied: the copy would have checksums that match. */
static bool check_pages(const struct filter *f, unsigned threads, struct err *err)
{
    uint64_t unchecked, damaged = filter_check_pages(f, threads, &unchecked, NULL, NULL);
    return damaged == 0 ||
           fail(err, "'%s' is damaged in %" PRIu64 " pages; 'seen verify' names them", f->path,
                damaged);
}

static bool replace(struct session *s, struct newfile *file, unsigned threads, double *n_lost,
                    struct err *err)
{
    struct header h;
    unsigned left_out;
    return newfile_hold_by(file, s->filter->fd, err) && check_pages(s->filter, threads, err) &&
           make_header(s, threads, &h, &left_out, n_lost, err) && header_reserve(&h, file, err) &&
           write_layers(s->filter, &h, left_out, file, threads, err) && newfile_commit(file, err);
}

/* Called between session_hold and session_release, which then is of the old file. *n_lost: about
 * how many keys were forgotten. */
static bool renew(struct session *s, unsigned threads, double *n_lost, struct err *err)
{
    struct newfile file;
    if (!newfile_open(&file, s->filter->path, true, err))
        return false;
    bool ok = replace(s, &file, threads, n_lost, err);
    newfile_close(&file);
    return ok;
}

/* ---- Rings of both policies. */

static bool rotate_file(struct filter *f, unsigned threads, double *emptied, struct err *err)
{
    struct session s;
    if (!session_hold(&s, f, err))
        return false;
    if (!format_forgets(&f->header)) {
        session_release(&s);
        return fail(err,
                    "'%s' has no generations, so it cannot be rotated; 'seen create "
                    "--generations' makes filters that can be",
                    f->path);
    }
    double before = s.counters.n_keys;
    bool ok;
    if (f->header.policy == POLICY_GROWING_RING) {
        ok = renew(&s, threads, emptied, err);
    } else {
        ok = advance_finish(&s, err) && advance(&s, threads, err);
        *emptied = before - s.counters.n_keys;
    }
    session_release(&s);
    return ok;
}

bool advance_rotate(const char *path, unsigned threads, double *emptied, struct err *err)
{
    struct filter f;
    if (!filter_open(&f, path, FILTER_WRITE, err))
        return false;
    bool ok = rotate_file(&f, threads, emptied, err);
    filter_close(&f);
    return ok;
}
