/* SPDX-License-Identifier: MIT */
#include "file/chain.h"

#include <math.h>

#include "base/exact.h"
#include "base/num.h"

/* A layer gets BUDGET of the FPR that is left, so the rest shrinks by 0.85. */
static const double BUDGET = 0.15;

/* A first layer for the keys to come takes 1 or 2 % more space than one with the whole FPR. */
const double chain_sized = 0.9;

/* The same if further layers are expected: 0.3 took as few bits as 0.5, and leaves more to them. */
static const double EXPECTING_MORE = 0.3;

/* With a new layer, a file has at most MOST_LEN times the length of one that was made for its keys,
 * unless it must grow faster to get to MOST_KEYS with as many layers as a file can have. Lengths
 * are rounded up to pages, and layers so that they fold: the file has up to 2.5 times the length.
 */
static const double MOST_LEN = 2.4, MOST_KEYS = 1e10;

/* The least capacity of a layer, if MOST_LEN permits it: 40 KB at an FPR of 0.001. */
static const uint64_t LEAST = 1 << 14;

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

static bool make_layer(struct layer *layer, const struct kind *kind, uint32_t generation,
                       uint64_t n, double p, bool folds, struct err *err)
{
    char keys[NUM_TEXT], rate[NUM_TEXT];
    *layer = (struct layer){.n_design = n, .fpr_design = p, .generation = generation};
    if (p < LEAST_FPR || !kind->sizing->size(n, p, layer))
        return fail(err, "no layer can be made for %s keys at an FPR of %s",
                    num_show_count(keys, (double)n), num_show_fpr(rate, p));
    if (folds && kind_folds(kind))
        kind->uniting->round_to_fold(layer, FOLDS);
    return true;
}

/* Lines with more keys than others make up much of a small FPR, so it varies like a lognormal. Of
 * 10,000 simulated filters hardly one was above e^(p^(-1/7) / 6.5 / sqrt(pages)) times the mean,
 * for which layers are sized. n more keys raise the FPR at least 0.7 ln(1/p) times as fast; 0.7
 * is taken for p > 1/e, too. */
uint64_t chain_room(const struct kind *kind, uint64_t n, double p)
{
    struct layer layer = {.kind = kind};
    double log_p = -exact_log(p);
    if (!kind->sizing->size(n, chain_sized * p, &layer))
        return n;
    double varies = 1 / (6.5 * exact_exp_negative(-log_p / 7) * sqrt((double)layer_pages(&layer)));
    double most = varies + exact_log(chain_sized);
    return most <= 0 ? n : n + (uint64_t)ceil((double)n * most / fmax(0.7, 0.7 * log_p));
}

bool chain_start_growing(struct header *h, const struct kind *kind, uint64_t n, double p, bool more,
                         struct err *err)
{
    h->policy = POLICY_GROW;
    h->n_design = 0;
    h->fpr_design = p;
    h->n_layers = 1;
    double part = n == 0 ? BUDGET : more ? EXPECTING_MORE : chain_sized;
    uint64_t room = n == 0 ? CHAIN_FIRST : more ? n : chain_room(kind, n, p);
    if (!make_layer(&h->layers[0], kind, 1, room, part * p, n == 0 || more, err))
        return false;
    h->layers[0].n_design = n != 0 ? n : room;
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
        if (!make_layer(&h->layers[i], kind, i + 1, each, p / h->n_layers, false, err))
            return false;
    h->layers[chain_newest(h)].since = h->created;
    return true;
}

unsigned chain_generations(const struct header *h)
{
    return format_forgets(h) ? h->n_layers - 1 : 0;
}

/* The promised FPR less the FPR of the closed layers. The FPR of a small layer varies with its
 * keys: one of 10,000 for 1e-9 had 1.6 times its share. So a layer takes at most chain_sized of
 * what was left. */
static double rate_left(const struct header *h)
{
    double left = h->fpr_design;
    for (unsigned i = 0; i < h->n_layers; i++)
        left -= fmin(h->layers[i].fpr_closed, chain_sized * left);
    return left;
}

/* No keys but those that were chosen to collide take a filter this far above the promised FPR. */
static const double MOST_OVER = 10;

static bool keeps_its_rate(const struct header *h, struct err *err)
{
    char promised[NUM_TEXT], real[NUM_TEXT];
    double used = 0;
    for (unsigned i = 0; i < h->n_layers; i++)
        used += h->layers[i].fpr_closed;
    return used < MOST_OVER * h->fpr_design ||
           fail(err,
                "its bits give an FPR of %s, but it was made for %s: keys were chosen to collide, "
                "which --secret prevents",
                num_show_fpr(real, used), num_show_fpr(promised, h->fpr_design));
}

/* The capacity of a layer. A forged header may claim more than its bits can hold, which would make
 * the file too long. */
static uint64_t capacity_of(const struct layer *l)
{
    double most = 1.01 * layer_n_at(l, l->fpr_design); /* valid layers stay below this */
    return (double)l->n_design <= most ? l->n_design : (uint64_t)most;
}

/* A layer is closed with nearly as many keys as it has room for. How many it lacks depends on how
 * the input was cut into pieces, on which sizes must not depend. */
static const double NEARLY = 0.97;

/* The keys of all layers, all of them closed. */
static uint64_t keys_of(const struct header *h)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint64_t most = capacity_of(&h->layers[i]), keys = chain_keys_in(h, &h->counters, i);
        n += (double)keys >= NEARLY * (double)most ? most : keys;
    }
    return n > 0 ? n : 1;
}

/* The length of a file with one layer for n keys; 0: there is none. */
static uint64_t len_of(const struct kind *kind, uint64_t n, double p)
{
    struct layer layer = {.kind = kind};
    return kind->sizing->size(n, p, &layer) ? format_file_len(&layer) : 0;
}

/* The least part of n keys for which the next layer must have room. */
static double least_room(const struct header *h, double n)
{
    static const double STEP = 1.0 / 16;
    for (double room = 4 * STEP; room < 1; room += STEP) {
        double most = n;
        for (unsigned i = h->n_layers; i < 29; i++)
            most *= 1 + room;
        if (most >= MOST_KEYS)
            return room;
    }
    return 1;
}

/* The capacity of the next layer, at an FPR of p. */
static uint64_t next_capacity(const struct header *h, const struct kind *kind, double p)
{
    if (p < LEAST_FPR)
        return 1;
    uint64_t n = keys_of(h), wanted = n > LEAST ? n : LEAST;
    double room = MOST_LEN * (double)len_of(kind, n, h->fpr_design) - (double)h->file_len;
    struct layer ignored = {.kind = kind};
    uint64_t pages = room > 0 ? (uint64_t)(room / (FORMAT_PAGE + FORMAT_SUM)) : 0;
    uint64_t fits = pages > 2 ? kind->sizing->capacity((pages - 2) * FORMAT_PAGE, p, &ignored) : 0;
    uint64_t least = (uint64_t)ceil(least_room(h, (double)n) * (double)n);
    uint64_t step = n / 64 + 1; /* so that it does not depend on the last digits of p */
    fits -= fits % step;
    return wanted <= fits ? wanted : fits > least ? fits : least;
}

uint64_t chain_first(uint64_t n)
{
    n += n / 20; /* the sampled records may be longer than the rest */
    return n == 0 ? 0 : n > LEAST ? n : LEAST;
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

/* Steps of distinct keys that lengthen as the layer fills. Each uses the FPR in its middle: where
 * that rises with the m-th power of n, the error is m^2 / STEPS^2 / 24. */
double chain_fill(const struct layer *layer, double passed, double n, double added, double *dropped)
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

double chain_distinct(const struct header *h, const struct counters *counters, unsigned i)
{
    uint64_t n = chain_keys_in(h, counters, i);
    double made = made_in(h, i, n), ignored = 0;
    return chain_fill(&h->layers[i], 1, made, (double)n - made, &ignored);
}

void chain_given(const struct header *h, const struct counters *counters, double *n,
                 double *dropped)
{
    *n = *dropped = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint64_t in_layer = chain_keys_in(h, counters, i);
        double made = made_in(h, i, in_layer), passed = 1;
        for (unsigned j = 0; j < h->n_layers; j++)
            if (is_before(h, j, i) && !format_is_void(h, j))
                passed *= 1 - h->layers[j].fpr_closed;
        double in_it = 0;
        chain_fill(&h->layers[i], passed, made, (double)in_layer - made, &in_it);
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
    chain_fill(layer, 1, made, census.n - made, &dropped);
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
    if (format_grows(h))
        return 0;
    for (unsigned i = 0; i < h->n_layers; i++)
        if (i != newest && !format_is_void(h, i))
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

static bool has_place(const struct header *h, struct err *err)
{
    return h->n_layers < FORMAT_MAX_LAYERS ||
           fail(err, "it already has the maximum of %u layers", h->n_layers);
}

/* Makes the layer after the newest. */
static bool make_next(const struct header *h, struct layer *out, struct err *err)
{
    const struct layer *last = &h->layers[chain_newest(h)];
    double p = BUDGET * rate_left(h);
    return make_layer(out, last->kind, last->generation + 1, next_capacity(h, last->kind, p), p,
                      true, err);
}

bool chain_grow(struct header *h, const char *name, struct err *err)
{
    struct err why;
    struct layer made;
    unsigned next = h->n_layers;
    if (!has_place(h, &why) || !keeps_its_rate(h, &why) || !make_next(h, &made, &why))
        return fail(err, "'%s' is full: %s", name, why.text);
    made.n_before = h->counters.keys_added;
    h->layers[next] = made;
    h->layers[next].since = format_now();
    h->n_layers++;
    format_place_last(h);
    return true;
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
    l->generation = h->layers[chain_newest(h)].generation + 1;
    l->since = format_now();
    l->n_before = h->counters.keys_added;
    l->fpr_closed = 0;
}
