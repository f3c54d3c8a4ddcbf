#include "store/rate.h"

#include <math.h>

#include "store/chain.h"

/* The counters use one FPR for each step in the number of keys. This is the length of a step, as a
 * part of the capacity. Steps begin at multiples of their length, whoever adds the keys and in any
 * number of runs. The FPR in the middle of a step is used for all of it. Where the FPR rises with
 * the m-th power of n, the error is m^2 step^2 / 24. At capacity, that is 0.2 % for p = 0.001,
 * where m is 6. It is 1 % for m = 15, the largest m, where hardly a key is lost. */
static const double FPR_STEP = 1.0 / 32;

/* A filter takes keys even when nearly all its bits are set. What a key adds to the counters is
 * divided by 1 - FPR, the part of absent keys that the filter does not report. This is the least
 * value that is used for it. */
static const double LEAST_NEGATIVE = 0x1p-30;

/* In a small filter, the FPR of the bits differs from the formula's by some per cent. So max_fpr is
 * near from this part of its number of keys on. */
static const double NEAR = 0.9;

/* Where many keys are taken for present, too large a number of keys gives too high an FPR. That
 * makes the number still larger: an error in it grows by 1 / (1 - FPR). Up to this FPR, that is
 * 7 %. */
static const double HIGH_FPR = 1.0 / 16;

static const struct header *header_of(const struct rate *r)
{
    return r->backing->layers.header;
}

static struct counters *counters_of(const struct rate *r)
{
    return r->backing->counters;
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
    return r->exact ? (double)counters_of(r)->keys_added : counters_of(r)->n_keys;
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
    layers_census(&r->backing->layers, r->layer, r->threads, &census);
    /* The number of keys for which the formula gives the FPR of the bits. */
    count_from(r, layer_n_at(target(r), census.fpr), census.fpr);
    r->looked_n = r->layer_n;
    r->correct_until = 0;
    r->step_end = 0;
}

/* The FPR of a layer that takes no keys: as noted when it was closed, or by its bits. */
static double closed_fpr(const struct rate *r, unsigned layer)
{
    const struct header *h = header_of(r);
    struct census census;
    if (h->policy != POLICY_FIXED)
        return h->layers[layer].fpr_closed;
    layers_census(&r->backing->layers, layer, r->threads, &census);
    return census.fpr;
}

/* Finds the FPR of the other layers. Returns the number of keys that they had when they were
 * closed. */
static double find_others(struct rate *r)
{
    const struct header *h = header_of(r);
    double n = 0, absent = 1;
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (i != r->layer && !h->layers[i].is_void) {
            absent *= 1 - closed_fpr(r, i);
            n += h->layers[i].n_closed;
        }
    }
    r->others_fpr = 1 - absent;
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
    const struct counters *c = counters_of(r);
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

void rate_begin(struct rate *r)
{
    double others_n = find_others(r);
    find_keys(r, others_n);
    find_limits(r);
    if (rate_is_near_max(r, 0))
        rate_look(r);
    r->step_end = 0;
    r->correction = 1;
    r->correct_until = 0;
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

/* The length of a step at n keys. Above twice the capacity, the FPR rises more slowly. There a step
 * is twice as long whenever n doubles. */
static double step_at(const struct rate *r, double n)
{
    int doublings;
    double n_design = fmax(1, (double)target(r)->n_design);
    frexp(n / (2 * n_design), &doublings);
    return ldexp(FPR_STEP * n_design, doublings > 0 ? doublings : 0);
}

/* Above capacity and HIGH_FPR, there is a look once a step. It compares the part of absent keys
 * that the bits do not report with the formula's. A page of bits is read for 50 keys or more,
 * except for the first key of a run. Below, one key must not cost a look at the whole layer. */
void rate_correct(struct rate *r)
{
    double n = rate_keys(r);
    if (n <= (double)target(r)->n_design || n < r->correct_until)
        return;
    double absent = 1 - target(r)->kind->fpr_at(target(r), n);
    if (absent > 1 - HIGH_FPR)
        return;
    struct census census;
    layers_census(&r->backing->layers, r->layer, r->threads, &census);
    r->correction = (1 - census.fpr) / fmax(LEAST_NEGATIVE, absent);
    r->correct_until = n + step_at(r, n);
    r->step_end = 0;
}

/* Finds the FPR about now, for the counters. */
static void update_fpr(struct rate *r)
{
    double n = fmax(0, rate_keys(r));
    if (n >= r->step_start && n < r->step_end)
        return;
    double step = step_at(r, n);
    r->step_start = floor(n / step) * step;
    r->step_end = r->step_start + step;
    /* The first key of a step meets the FPR at its start. The last key meets the FPR of one key
     * less than its end. */
    double middle = step > 1 ? (r->step_start + r->step_end - 1) / 2 : n;
    double absent = r->correction * (1 - target(r)->kind->fpr_at(target(r), middle));
    r->layer_fpr = 1 - fmin(1, fmax(LEAST_NEGATIVE, absent));
    r->fpr = fmin(1 - (1 - r->layer_fpr) * (1 - r->others_fpr), 1 - LEAST_NEGATIVE);
    if (r->exact)
        count_from(r, n, r->layer_fpr);
}

void rate_count(struct rate *r, size_t n_inserted, size_t n_new)
{
    struct counters *c = counters_of(r);
    bool ring = header_of(r)->policy == POLICY_RING;
    double new_part = n_inserted > 0 ? (double)n_new / (double)n_inserted : 0;
    r->out->n_new += n_new;
    if (!r->exact)
        c->keys_added += n_new;
    while (n_inserted > 0) { /* step by step */
        update_fpr(r);
        /* A ring counts the keys of each generation. Keys of others are no loss to this one. */
        double absent = 1 - (ring ? r->layer_fpr : r->fpr);
        double room = r->step_end - rate_keys(r);
        double in_step = ceil(r->exact ? room / r->each : room * absent);
        size_t n = in_step < (double)n_inserted ? (size_t)fmax(1, in_step) : n_inserted;
        double lost = new_part * (double)n * r->fpr / (1 - r->fpr);
        r->out->dropped += lost;
        c->dropped += lost;
        c->n_keys += (double)n / absent;
        if (r->exact)
            c->keys_added += n;
        n_inserted -= n;
    }
}
