#include "store/rate.h"

#include <math.h>

#include "store/chain.h"

/* The counters use one FPR for each step in the number of keys, that in its middle: a table of them
 * is filled as it is needed. A step is this part of the capacity, so the table reaches to twice the
 * capacity; for more keys, steps are twice as long each time that n doubles. Steps begin at
 * multiples of their length, whoever adds the keys and in any number of runs. Where the FPR rises
 * with the m-th power of n, the error is m^2 step^2 / 24. At capacity, that is 0.2 % for p = 0.001,
 * where m is 6. It is 1 % for m = 15, the largest m, where hardly a key is lost. */
static const double STEP = 2.0 / RATE_POINTS;

/* A filter takes keys even when nearly all its bits are set. What a key adds to the counters is
 * divided by 1 - FPR, the part of absent keys that the filter does not report. This is the least
 * value that is used for it. */
static const double LEAST_NEGATIVE = 0x1p-30;

/* In a small filter, the FPR of the bits differs from the formula's by some per cent. So max_fpr is
 * near from this part of its number of keys on. */
static const double NEAR = 0.9;

static const struct header *header_of(const struct rate *r)
{
    return r->layers.header;
}

static const struct layer *target(const struct rate *r)
{
    return &header_of(r)->layers[r->layer];
}

/* The layer's share of an FPR of the whole filter, and the reverse. */
static double layer_share(const struct rate *r, double fpr)
{
    return 1 - (1 - fpr) / (1 - r->others_fpr);
}

static double whole_fpr(const struct rate *r, double in_layer)
{
    return 1 - (1 - in_layer) * (1 - r->others_fpr);
}

/* The counter that follows the number of keys in the layer. n_keys also counts keys that older
 * layers have kept out. That matters at the FPR that an exact layer of another program may have. */
static double count_now(const struct rate *r)
{
    return r->exact ? (double)r->counters->keys_added : r->counters->n_keys;
}

double rate_keys(const struct rate *r)
{
    return r->layer_n + (count_now(r) - r->counted_n) * r->each;
}

double rate_now(const struct rate *r)
{
    return whole_fpr(r, target(r)->kind->fpr_at(target(r), rate_keys(r)));
}

/* Counts on from n keys in the layer. The last of them met this FPR there. */
static void count_from(struct rate *r, double n, double fpr)
{
    r->layer_n = n;
    r->counted_n = count_now(r);
    r->each = r->exact ? 1 / fmax(LEAST_NEGATIVE, 1 - fpr) : 1;
}

void rate_look(struct rate *r)
{
    struct census census;
    layers_census(&r->layers, r->layer, r->threads, &census);
    /* The number of keys for which the formula gives the FPR of the bits. */
    count_from(r, layer_n_at(target(r), census.fpr), census.fpr);
    r->looked_n = r->layer_n;
}

/* The FPR of a layer that takes no keys: as noted when it was closed, or by its bits. */
static double closed_fpr(const struct rate *r, unsigned layer)
{
    const struct header *h = header_of(r);
    struct census census;
    if (h->policy != POLICY_FIXED)
        return h->layers[layer].fpr_closed;
    layers_census(&r->layers, layer, r->threads, &census);
    return census.fpr;
}

/* Finds the FPR of the other layers. Returns the number of keys that they had when they were
 * closed. */
static double find_others(struct rate *r)
{
    const struct header *h = header_of(r);
    double n = 0, absent = 1, passed = 1;
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (i != r->layer && !h->layers[i].is_void) {
            double fpr = closed_fpr(r, i);
            absent *= 1 - fpr;
            if (!format_forgets(h))
                passed *= 1 - fpr;
            n += h->layers[i].n_closed;
        }
    }
    r->others_fpr = 1 - absent;
    r->kept_out_fpr = 1 - passed;
    return n;
}

/* The number of distinct keys if `added` of them changed a bit of the layer. It adds up the keys of
 * equal steps. Each has the FPR that the formula gives for its middle. */
static double keys_of_added(const struct layer *layer, double added)
{
    enum { STEPS = 32 };
    double step = added / STEPS, n = 0;
    for (int i = 0; i < STEPS; i++)
        n += step / fmax(LEAST_NEGATIVE, 1 - layer->kind->fpr_at(layer, n + step / 2));
    return n;
}

/* Finds the number of keys in the layer. Other layers have others_n keys. */
static void find_keys(struct rate *r, double others_n)
{
    const struct header *h = header_of(r);
    const struct counters *c = r->counters;
    r->exact = chain_is_exact(h);
    double n =
        r->exact ? keys_of_added(target(r), (double)chain_newest_keys(h, c)) : c->n_keys - others_n;
    count_from(r, n, r->exact ? target(r)->kind->fpr_at(target(r), n) : 0);
    r->looked_n = r->layer_n;
    /* Counters that a crash has made unknown are too low. Those of a merge are from the bits. */
    bool too_low =
        c->unknown && !r->exact && (h->policy != POLICY_FIXED || h->state == STATE_DIRTY);
    if (too_low || (h->policy == POLICY_FIXED && h->n_layers > 1))
        rate_look(r);
}

static void find_limits(struct rate *r)
{
    if (r->max_fpr > 0)
        r->max_n = layer_n_at(target(r), layer_share(r, r->max_fpr));
    /* An exact layer takes no more keys than it was made for. */
    r->warn_n = r->exact ? INFINITY : layer_n_at(target(r), layer_share(r, r->warn_fpr));
}

static void clear_table(struct rate *r)
{
    for (unsigned i = 0; i < RATE_POINTS; i++)
        r->fpr[i] = -1;
}

void rate_begin(struct rate *r)
{
    r->step = STEP * fmax(1, (double)target(r)->n_design);
    clear_table(r);
    double others_n = find_others(r);
    find_keys(r, others_n);
    find_limits(r);
    if (rate_is_near_max(r, 0))
        rate_look(r);
}

bool rate_is_high(const struct rate *r)
{
    return rate_keys(r) > r->warn_n;
}

bool rate_is_near_max(const struct rate *r, double n)
{
    return r->max_fpr > 0 && rate_keys(r) + n > NEAR * r->max_n;
}

/* A look is due when half of the keys have come for which the last look left room. So there are few
 * looks, and the last ones are at every key. */
bool rate_allows(struct rate *r, double n)
{
    double since = rate_keys(r) - r->looked_n;
    if (since > 0 && since >= (r->max_n - r->layer_n) / 2)
        rate_look(r);
    return rate_keys(r) + n <= r->max_n;
}

/* The FPR of the layer with about n keys, from the table. */
static double layer_fpr_at(struct rate *r, double n)
{
    while (n >= RATE_POINTS * r->step) { /* a coarser table for more keys */
        r->step *= 2;
        clear_table(r);
    }
    double *fpr = &r->fpr[n > 0 ? (unsigned)(n / r->step) : 0];
    if (*fpr < 0) {
        double start = floor(fmax(0, n) / r->step) * r->step;
        /* The first key of a step meets the FPR at its start. The last key meets the FPR of one key
         * less than its end. */
        double middle = r->step > 1 ? start + (r->step - 1) / 2 : n;
        *fpr = fmin(target(r)->kind->fpr_at(target(r), middle), 1 - LEAST_NEGATIVE);
    }
    return *fpr;
}

void rate_count(struct rate *r, size_t n_inserted, size_t n_new)
{
    struct counters *c = r->counters;
    double new_part = n_inserted > 0 ? (double)n_new / (double)n_inserted : 0;
    r->out->n_new += n_new;
    if (!r->exact)
        c->keys_added += n_new;
    while (n_inserted > 0) { /* step by step */
        double keys = fmax(0, rate_keys(r)), in_layer = layer_fpr_at(r, keys);
        double fpr = fmin(whole_fpr(r, in_layer), 1 - LEAST_NEGATIVE);
        if (r->exact)
            count_from(r, keys, in_layer);
        /* Rings count the keys of each generation. Keys of others are no loss to this one. */
        double kept_out = 1 - (1 - in_layer) * (1 - r->kept_out_fpr);
        double absent = 1 - fmin(kept_out, 1 - LEAST_NEGATIVE);
        double room = (floor(keys / r->step) + 1) * r->step - keys;
        double in_step = ceil(r->exact ? room / r->each : room * absent);
        size_t n = in_step < (double)n_inserted ? (size_t)fmax(1, in_step) : n_inserted;
        double lost = new_part * (double)n * fpr / (1 - fpr);
        r->out->dropped += lost;
        c->dropped += lost;
        c->n_keys += (double)n / absent;
        if (r->exact)
            c->keys_added += n;
        n_inserted -= n;
    }
}
