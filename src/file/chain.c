/* SPDX-License-Identifier: MIT */
#include "file/chain.h"

#include <math.h>

#include "base/exact.h"
#include "base/num.h"

/* A layer gets this part of the FPR for which the others were not made. A key in the i-th of them
 * costs log2(1 / PART) + i log2(1 / (1 - PART)) probes more than it would at the whole of it: least
 * at 0.14 for eight layers and at 0.09 for twelve. */
static const double PART = 0.125;

/* A first layer for the keys to come takes 1 or 2 % more space than one with the whole FPR. */
const double chain_sized = 0.9;

/* The same if further layers are expected: 0.3 took as few bits as 0.5, and leaves more to them. */
static const double EXPECTING_MORE = 0.3;

/* A layer has room for this part of the keys of all others, and at least for LEAST keys: two or
 * three pages. A file is longest right after it grew. Of layers for half of the keys (0.5), one in
 * six more is asked; for as many (1), files are 15 % longer. */
static const double MORE = 0.6;
static const uint64_t LEAST = 1 << 12;

/* Below this, a layer takes more than 80 bits a key, and collisions of 64-bit hashes matter. */
static const double LEAST_FPR = 1e-13;

/* The layers of a growing filter can be folded (seen shrink) to a half, a third, a quarter, a sixth
 * and a twelfth, since the newest layer is seldom full. */
enum { FOLDS = 12 };

unsigned chain_newest(const struct header *h)
{
    unsigned newest = 0;
    for (unsigned i = 1; i < h->n_layers; i++)
        if (h->layers[i].generation >= h->layers[newest].generation)
            newest = i;
    return newest;
}

/* Lines with more keys than others make up much of a small FPR, so it varies like a lognormal. Of
 * 10,000 simulated filters hardly one was above e^(p^(-1/7) / 6.5 / sqrt(pages)) times the mean,
 * for which layers are sized. n more keys raise the FPR at least 0.7 ln(1/p) times as fast; 0.7
 * is taken for p > 1/e, too. */
uint64_t chain_room(const struct kind *kind, uint64_t n, double p)
{
    struct layer layer = {.kind = kind};
    double log_p = -exact_log(p);
    if (!kind->sizing->size(n, p, &layer))
        return n;
    double varies = 1 / (6.5 * exact_exp_negative(-log_p / 7) * sqrt((double)layer_pages(&layer)));
    return n + (uint64_t)ceil((double)n * varies / fmax(0.7, 0.7 * log_p));
}

static bool make_layer(struct layer *layer, const struct kind *kind, uint32_t generation,
                       uint64_t n, double p, struct err *err)
{
    char keys[NUM_TEXT], rate[NUM_TEXT];
    *layer = (struct layer){.n_design = n, .fpr_design = p, .generation = generation};
    return (p >= LEAST_FPR && kind->sizing->size(n, p, layer)) ||
           fail(err, "no layer can be made for %s keys at an FPR of %s",
                num_show_count(keys, (double)n), num_show_fpr(rate, p));
}

/* A layer of a growing filter keeps p whatever its keys are. Whole pages may be far better than p:
 * what they leave goes to later layers. */
static bool make_growing(struct layer *layer, const struct kind *kind, uint32_t generation,
                         uint64_t n, double p, bool folds, struct err *err)
{
    uint64_t room = p >= LEAST_FPR ? chain_room(kind, n, p) : n;
    if (!make_layer(layer, kind, generation, room, p, err))
        return false;
    if (folds && kind_folds(kind))
        kind->uniting->round_to_fold(layer, FOLDS);
    double fpr = kind->fpr_at(layer, (double)room);
    if (fpr > 0 && fpr < p)
        layer->fpr_design = fpr;
    layer->n_design = n;
    return true;
}

bool chain_start_growing(struct header *h, const struct kind *kind, uint64_t n, double p, bool more,
                         struct err *err)
{
    h->policy = POLICY_GROW;
    h->n_design = 0;
    h->fpr_design = p;
    h->n_layers = 1;
    more |= n == 0;
    if (!make_growing(&h->layers[0], kind, 1, n != 0 ? n : CHAIN_FIRST,
                      (more ? EXPECTING_MORE : chain_sized) * p, more, err))
        return false;
    h->layers[0].since = h->created;
    return true;
}

bool chain_start_ring(struct header *h, const struct kind *kind, unsigned generations, uint64_t n,
                      double p, struct err *err)
{
    uint64_t each = n / generations + (n % generations != 0);
    h->policy = POLICY_RING;
    h->n_design = n;
    h->fpr_design = p;
    h->n_layers = generations + 1;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!make_layer(&h->layers[i], kind, i + 1, each, p / h->n_layers, err))
            return false;
    h->layers[chain_newest(h)].since = h->created;
    return true;
}

bool chain_doubts(const struct header *h, uint64_t now)
{
    uint64_t since = h->layers[chain_newest(h)].since;
    if (h->period == 0)
        return false;
    if (since == 0 || since > now)
        return since == 0 || since - now > h->period;
    return now - since > h->period && now - since - h->period > CHAIN_DOUBT;
}

bool chain_is_lost(const struct header *h, uint64_t now)
{
    uint64_t since = h->layers[chain_newest(h)].since;
    return now != 0 && chain_doubts(h, now) &&
           (since <= now || since - now - h->period > CHAIN_DOUBT);
}

uint64_t chain_time(const struct header *h, uint64_t now)
{
    uint64_t since = h->layers[chain_newest(h)].since;
    return h->period == 0 ? 0 : since > now || chain_doubts(h, now) ? since : now;
}

bool chain_is_due(const struct header *h, uint64_t now)
{
    uint64_t since = h->layers[chain_newest(h)].since;
    return since != 0 && now > since && now - since >= h->period;
}

void chain_date(struct header *h, uint64_t since)
{
    unsigned newest = chain_newest(h);
    uint64_t was = h->layers[newest].since;
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint64_t *begun = &h->layers[i].since, age = was > *begun ? was - *begun : 0;
        if (i == newest || *begun != 0)
            *begun = since > age ? since - age : 1;
    }
    h->now = since;
}

uint64_t chain_age(const struct header *h)
{
    uint64_t n = chain_generations(h);
    return n != 0 && h->period > UINT64_MAX / n ? UINT64_MAX : h->period * n;
}

uint64_t chain_ends(const struct header *h, unsigned i)
{
    uint64_t since = h->layers[i].since, most = UINT64_MAX - since;
    return h->period > most / h->n_layers ? UINT64_MAX : since + h->period * h->n_layers;
}

unsigned chain_generations(const struct header *h)
{
    return format_forgets(h) ? h->n_layers - 1 : 0;
}

/* What the promised FPR leaves to further layers. It follows from what the others were made for,
 * not from their bits, which other people's keys may set. */
static double rate_left(const struct header *h)
{
    double left = h->fpr_design;
    for (unsigned i = 0; i < h->n_layers; i++)
        left -= h->layers[i].fpr_design;
    return left;
}

/* The keys for which all layers were made. A forged header may claim more than its bits can hold,
 * which would make the file too long. */
static double capacity_of_all(const struct header *h)
{
    double n = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct layer *l = &h->layers[i];
        double most = 1.01 * layer_n_at(l, l->fpr_design); /* valid layers stay below this */
        n += (double)((double)l->n_design <= most ? l->n_design : (uint64_t)most);
    }
    return n;
}

static uint64_t next_capacity(double n)
{
    return MORE * n > (double)LEAST ? (uint64_t)(MORE * n) : LEAST;
}

static unsigned oldest_layer(const struct header *h)
{
    unsigned oldest = 0;
    for (unsigned i = 1; i < h->n_layers; i++)
        if (h->layers[i].generation < h->layers[oldest].generation)
            oldest = i;
    return oldest;
}

bool chain_is_exact(const struct header *h)
{
    const struct layer *layer = &h->layers[chain_newest(h)];
    return (format_grows(h) || h->n_layers == 1) && kind_is_exact(layer->kind);
}

/* Did layer i take keys before layer j? */
static bool is_before(const struct header *h, unsigned i, unsigned j)
{
    uint64_t a = h->layers[i].generation, b = h->layers[j].generation;
    return a < b || (a == b && i < j);
}

/* A forged header may claim any number. */
uint64_t chain_keys_in(const struct header *h, const struct counters *counters, unsigned i)
{
    uint64_t from = h->layers[i].n_before, to = counters->keys_added;
    for (unsigned j = 0; j < h->n_layers; j++)
        if (is_before(h, i, j) && h->layers[j].n_before < to)
            to = h->layers[j].n_before;
    return to > from ? to - from : 0;
}

uint64_t chain_oldest_keys(const struct header *h, const struct counters *counters)
{
    return chain_keys_in(h, counters, oldest_layer(h));
}

/* A layer takes keys even when nearly all its bits are set. Of absent keys, at least this part is
 * taken to be reported absent. */
static const double LEAST_ABSENT = 0x1p-30;

/* Follows the filling of a layer that has n keys, while `added` more change a bit of it. The layers
 * before it report absent keys absent with the probability `passed`, and keep the others out of it.
 * Returns the number of distinct keys that the layer then has, with those that it falsely reported.
 * Adds to *dropped how many keys all these layers falsely reported meanwhile: the sum of
 * fpr / (1 - fpr).
 *
 * Steps of distinct keys that lengthen as the layer fills. Each uses the FPR in its middle: where
 * that rises with the m-th power of n, the error is m^2 / STEPS^2 / 24. */
static double fill(const struct layer *layer, double passed, double n, double added,
                   double *dropped)
{
    enum { STEPS = 32 };
    double left = added, step = fmax(added, n) / STEPS;
    for (; left > 0; step = fmax(step, n / STEPS)) {
        double absent = 1 - layer->kind->fpr_at(layer, n + step / 2);
        bool is_last = absent < LEAST_ABSENT || step * absent >= left;
        double given = is_last ? left / fmax(LEAST_ABSENT, absent) : step;
        *dropped += given * (1 / fmax(LEAST_ABSENT, passed) - absent);
        n += given;
        left = is_last ? 0 : left - given * absent;
    }
    return n;
}

/* The keys that layer i had when the file was made. */
static double made_in(const struct header *h, unsigned i, uint64_t n)
{
    uint64_t from = h->layers[i].n_before;
    uint64_t made = h->made > from ? h->made - from : 0;
    return (double)(made < n ? made : n);
}

uint64_t chain_takes(const struct header *h, unsigned i)
{
    enum { STEPS = 32 };
    const struct layer *layer = &h->layers[i];
    double n = made_in(h, i, layer->n_design), lost = 0;
    double step = ((double)layer->n_design - n) / STEPS;
    for (int s = 0; s < STEPS; s++)
        lost += step * layer->kind->fpr_at(layer, n + (s + 0.5) * step);
    /* By chance fewer may be lost: n_design keys must fit. */
    lost = fmax(0, lost - 4 * sqrt(lost) - 1);
    double takes = (double)layer->n_design - lost;
    return takes > 1 ? (uint64_t)takes : 1; /* a forged layer may be made for no key */
}

double chain_distinct(const struct header *h, const struct counters *counters, unsigned i)
{
    uint64_t n = chain_keys_in(h, counters, i);
    double made = made_in(h, i, n), ignored = 0;
    return fill(&h->layers[i], 1, made, (double)n - made, &ignored);
}

void chain_given(const struct header *h, const struct counters *counters, double *n,
                 double *dropped)
{
    *n = *dropped = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint64_t in_layer = chain_keys_in(h, counters, i);
        double made = made_in(h, i, in_layer), passed = 1;
        for (unsigned j = 0; j < h->n_layers; j++)
            if (is_before(h, j, i) && !format_is_over(h, j))
                passed *= 1 - h->layers[j].fpr_closed;
        double in_it = 0;
        fill(&h->layers[i], passed, made, (double)in_layer - made, &in_it);
        /* A ring's layer takes also the keys that older layers falsely report. */
        *n += (double)in_layer + in_it;
        *dropped += format_forgets(h) ? passed * in_it : in_it;
    }
}

void chain_recount(struct layers layers, unsigned threads, struct counters *counters)
{
    const struct header *h = layers.header;
    unsigned newest = chain_newest(h);
    const struct layer *layer = &h->layers[newest];
    struct census census;
    double dropped = 0;
    layers_census(layers, newest, threads, &census);
    /* As many keys as the bits show were given to the layer. It dropped some of them. */
    double made = made_in(h, newest, UINT64_MAX);
    fill(layer, 1, made, census.n - made, &dropped);
    double n = fmax(0, census.n - dropped);
    if (chain_is_exact(h))
        n = fmin(n, (double)layer->n_design);
    uint64_t added = layer->n_before + (uint64_t)fmin(n, 0x1p53);
    if (counters->keys_added < added)
        counters->keys_added = added;
    if (counters->records < counters->keys_added)
        counters->records = counters->keys_added;
}

double chain_counted_fpr(const struct header *h, const struct counters *counters)
{
    unsigned newest = chain_newest(h);
    double absent = 1;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (i != newest && !format_is_over(h, i))
            absent *= 1 - h->layers[i].fpr_closed;
    const struct layer *layer = &h->layers[newest];
    return 1 - absent * (1 - layer->kind->fpr_at(layer, chain_distinct(h, counters, newest)));
}

struct header chain_close(struct layers layers, struct counters *counters, unsigned threads)
{
    struct header h = *layers.header;
    struct census census;
    unsigned newest = chain_newest(&h);
    layers_census(layers, newest, threads, &census);
    h.layers[newest].fpr_closed = census.fpr;
    h.counters = *counters;
    return h;
}

bool chain_grow(struct header *h, const char *name, struct err *err)
{
    struct err why;
    const struct layer *last = &h->layers[chain_newest(h)];
    struct layer *next = &h->layers[h->n_layers];
    if (h->n_layers == FORMAT_MAX_LAYERS)
        return fail(err, "'%s' is full: it already has the maximum of %u layers", name,
                    h->n_layers);
    if (!make_growing(next, last->kind, last->generation + 1, next_capacity(capacity_of_all(h)),
                      PART * rate_left(h), true, &why))
        return fail(err, "'%s' is full: %s", name, why.text);
    next->n_before = h->counters.keys_added;
    next->since = format_now();
    h->n_layers++;
    format_place_last(h);
    return true;
}

double chain_left(const struct header *h, const struct counters *counters)
{
    unsigned newest = chain_newest(h);
    double takes = (double)chain_takes(h, newest), has = (double)chain_keys_in(h, counters, newest);
    double left = fmax(0, takes - has), n = capacity_of_all(h), p = PART * rate_left(h);
    for (unsigned i = h->n_layers; i < FORMAT_MAX_LAYERS && p >= LEAST_FPR; i++) {
        double more = (double)next_capacity(n);
        left += more;
        n += more;
        p *= 1 - PART;
    }
    return left;
}

void chain_void(struct header *h)
{
    h->layers[oldest_layer(h)].generation = 0;
}

int chain_find_void(const struct header *h)
{
    for (unsigned i = 0; i < h->n_layers; i++)
        if (format_is_void(h, i))
            return (int)i;
    return -1;
}

void chain_renew(struct header *h, unsigned layer)
{
    struct layer *l = &h->layers[layer];
    uint64_t now = format_now();
    const struct layer *newest = &h->layers[chain_newest(h)];
    l->since = h->period != 0 && newest->since > now ? newest->since : now;
    l->generation = newest->generation + 1;
    l->n_before = h->counters.keys_added;
    l->fpr_closed = 0;
}
