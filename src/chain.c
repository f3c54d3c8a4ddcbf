#include "chain.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bloom.h"
#include "bloom_size.h"
#include "build.h"
#include "num.h"

/* Each layer gets this part of the FPR that is left, and this multiple of the last layer's
 * capacity. Over final sizes from 3e6 to 3e9 keys, 0.15 (the rest shrinks by 0.85) and 2 took the
 * fewest bits, 2.1 to 2.4 times those of a filter that was sized right; half and 2 took 3.2 to 3.9
 * times. */
static const double BUDGET = 0.15;
enum { GROWTH = 2 };

/* Below this a layer would take more than 70 bits a key, and 64-bit hashes come into it. */
static const double LEAST_FPR = 1e-12;

/* The layers of a filter that grows can be folded (seen shrink) to a half, a third, a quarter, a
 * sixth and a twelfth: the last is seldom full. Where rounding up to that takes more than a
 * fiftieth of a layer it is not done. */
enum { FOLDS = 12, LEAST_FOLDED = 50 * FOLDS };

void (*chain_step)(int step);

static void step_done(int step)
{
    if (chain_step != NULL)
        chain_step(step);
}

unsigned chain_newest(const struct header *h)
{
    unsigned newest = 0;
    for (unsigned i = 1; i < h->n_layers; i++)
        if (h->layers[newest].is_void ||
            (!h->layers[i].is_void && h->layers[i].generation >= h->layers[newest].generation))
            newest = i;
    return newest;
}

static uint64_t now(void)
{
    return (uint64_t)time(NULL);
}

static bool make_layer(struct layer *layer, uint64_t id, uint64_t n, double p, bool folds,
                       struct err *err)
{
    struct bloom bloom;
    char keys[NUM_TEXT], rate[NUM_TEXT];
    if (p < LEAST_FPR || !bloom_size(n, p, &bloom))
        return fail(err, "no layer can be made for %s keys at an FPR of %s",
                    num_show_count(keys, (double)n), num_show_fpr(rate, p));
    if (folds && bloom.pages >= LEAST_FOLDED)
        bloom.pages += (FOLDS - bloom.pages % FOLDS) % FOLDS;
    *layer = (struct layer){.id = id, .n_design = n, .fpr_design = p, .generation = id};
    bloom_to(&bloom, layer);
    return true;
}

bool chain_start_growing(struct header *h, uint64_t n, double p, struct err *err)
{
    h->policy = POLICY_GROW;
    h->n_design = 0;
    h->fpr_design = p;
    h->n_layers = 1;
    if (!make_layer(&h->layers[0], 1, n, BUDGET * p, true, err))
        return false;
    h->layers[0].since = h->created;
    return true;
}

bool chain_start_ring(struct header *h, unsigned generations, uint64_t n, double p, struct err *err)
{
    uint64_t each = n / generations + (n % generations != 0);
    h->policy = POLICY_RING;
    h->n_design = n;
    h->fpr_design = p;
    h->n_layers = generations + 1;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!make_layer(&h->layers[i], i + 1, each, p / h->n_layers, false, err))
            return false;
    h->layers[chain_newest(h)].since = h->created;
    return true;
}

static bool write_zero_sums(const struct filter *f, struct header *h, unsigned layer,
                            struct err *err)
{
    struct build_target target = {.header = h, .layer = layer, .fd = f->fd, .name = f->path};
    return build_zero_sums(&target, err);
}

/* Makes the file as long as the header says, with zeroes on disk behind what there was. What an
 * earlier attempt may have left there goes first. */
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

/* What the closed layers have left of the FPR that was promised. */
static double rate_left(const struct header *h)
{
    double left = h->fpr_design;
    for (unsigned i = 0; i < h->n_layers; i++)
        left -= h->layers[i].fpr_closed;
    return left;
}

/* The header of a file like this whose newest layer is closed. What is in it is told by its bits if
 * it was not counted. */
static struct header close_newest(const struct session *s, unsigned threads)
{
    struct header h = s->filter->header;
    struct census census;
    unsigned newest = chain_newest(&h);
    double n = s->counters.n_keys;
    for (unsigned i = 0; i < h.n_layers; i++)
        n -= i == newest ? 0 : h.layers[i].n_closed;
    filter_census(s->filter, newest, threads, &census);
    h.layers[newest].n_closed = s->counters.unknown || n < 0 ? census.n : n;
    h.layers[newest].fpr_closed = census.fpr;
    return h;
}

/* Puts an empty layer behind the file's end, of which h tells, on disk. Gives the room back if
 * that, or the memory for it, cannot be had. */
static bool append_layer(struct session *s, struct header *h, struct err *err)
{
    struct filter *f = s->filter;
    if (lengthen(f, h->file_len, err) && write_zero_sums(f, h, h->n_layers - 1, err) &&
        session_sync(s, err) && filter_prepare(f, h, err))
        return true;
    int ignored = ftruncate(f->fd, (off_t)f->header.file_len);
    (void)ignored;
    return false;
}

/* h is the file's header with the newest layer closed. */
static bool grow(struct session *s, struct header h, uint64_t n_next, struct err *err)
{
    const struct filter *f = s->filter;
    struct err why;
    const struct layer *last = &h.layers[chain_newest(&h)];
    unsigned next = h.n_layers;
    if (next == FORMAT_MAX_LAYERS)
        return fail(err, "'%s' is full: it has %u layers, as many as there can be", f->path, next);
    if (n_next < GROWTH * last->n_design)
        n_next = GROWTH * last->n_design;
    if (!make_layer(&h.layers[next], last->id + 1, n_next, BUDGET * rate_left(&h), true, &why))
        return fail(err, "'%s' is full: %s", f->path, why.text);
    h.layers[next].generation = last->generation + 1;
    h.layers[next].since = now();
    h.n_layers++;
    format_place_last(&h);
    return append_layer(s, &h, err) && session_change(s, &h, err);
}

static unsigned oldest_layer(const struct header *h)
{
    unsigned oldest = 0;
    for (unsigned i = 1; i < h->n_layers; i++)
        if (h->layers[i].generation < h->layers[oldest].generation)
            oldest = i;
    return oldest;
}

/* Keeps the file's blocks where the file system can do that. */
static void zero_layer(const struct filter *f, const struct layer *l)
{
    uint8_t *data = f->map + l->data_off;
    memset(f->map + l->touched_off, 0, (size_t)((layer_pages(l) + 7) / 8));
#ifdef FALLOC_FL_ZERO_RANGE
    if (fallocate(f->fd, FALLOC_FL_ZERO_RANGE, (off_t)l->data_off, (off_t)l->data_len) == 0)
        return;
#endif
    memset(data, 0, (size_t)l->data_len);
}

bool chain_finish(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    struct header h = f->header;
    unsigned layer = 0;
    while (layer < h.n_layers && !h.layers[layer].is_void)
        layer++;
    if (layer == h.n_layers)
        return true;
    zero_layer(f, &h.layers[layer]);
    if (!write_zero_sums(f, &h, layer, err) || !session_sync(s, err))
        return false;
    step_done(2);
    struct layer *l = &h.layers[layer];
    l->generation = h.layers[chain_newest(&h)].generation + 1;
    l->is_void = false;
    l->since = now();
    l->n_closed = l->fpr_closed = 0;
    if (!session_change(s, &h, err))
        return false;
    step_done(3);
    return true;
}

static bool rotate(struct session *s, struct header h, struct err *err)
{
    struct layer *oldest = &h.layers[oldest_layer(&h)];
    oldest->is_void = true;
    s->counters.n_keys = fmax(0, s->counters.n_keys - oldest->n_closed);
    if (!session_change(s, &h, err)) {
        s->counters.unknown = true; /* the layer may be void or not */
        return false;
    }
    step_done(1);
    return chain_finish(s, err);
}

bool chain_advance(struct session *s, unsigned threads, uint64_t n_next, struct err *err)
{
    struct header h = close_newest(s, threads);
    return h.policy == POLICY_RING ? rotate(s, h, err) : grow(s, h, n_next, err);
}
