#include "store/renew.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/sig.h"
#include "store/chain.h"
#include "store/header.h"
#include "store/newfile.h"

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

bool renew(struct session *s, unsigned threads, double *n_lost, struct err *err)
{
    struct newfile file;
    if (!newfile_open(&file, s->filter->path, true, err))
        return false;
    bool ok = replace(s, &file, threads, n_lost, err);
    newfile_close(&file);
    return ok;
}
