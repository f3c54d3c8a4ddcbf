/*
 * The false-positive rate (FPR) of a filter while keys are added to its newest layer, and the
 * counters of keys, which depend on it.
 *
 *     struct rate r = {.layers = layers, .counters = &counters, .layer = newest, ...};
 *     rate_begin(&r);                          // again for each layer that takes keys
 *     while (rate_allows(&r, n)) {
 *         ... inserts keys ...
 *         rate_count(&r, n_inserted, n_new);
 *     }
 *
 * Reading all bits takes time. Between two looks at the bits, the kind's formula gives the FPR for
 * the number of keys, scaled to agree with the last look. Near a limit, the bits decide.
 */
#ifndef STORE_RATE_H
#define STORE_RATE_H

#include <stdbool.h>
#include <stddef.h>

#include "store/layers.h"
#include "store/store.h"

enum { RATE_POINTS = 64 };

struct rate {
    struct layers layers;
    struct counters *counters; /* live */
    struct add_state *out;     /* n_new and dropped are counted here too */
    unsigned layer;            /* takes keys */
    unsigned threads;          /* read the bits */
    double max_fpr;            /* the filter's FPR must not pass this; 0: no limit */
    double warn_fpr;           /* above this FPR the filter is too full; an exact layer never is */
    /* The rest is private. */
    bool exact;              /* the layer takes exactly n_design keys (chain_is_exact) */
    double others_fpr;       /* of the other layers together ... */
    double kept_out_fpr;     /* ... and of those whose keys do not go into the layer */
    double layer_n;          /* distinct keys in the layer ... */
    double counted_n;        /* ... when the counter stood at this; ... */
    double each;             /* ... one counted since then stands for this number of keys */
    double looked_n;         /* layer_n at the last look at the bits */
    double max_n;            /* distinct keys in the layer at which the FPR is max_fpr ... */
    double warn_n;           /* ... and warn_fpr */
    double step;             /* the table has the FPR of the layer with i to i + 1 steps of keys: */
    double fpr[RATE_POINTS]; /* below 0: not computed yet */
};

/* Finds the number of keys and the limits from the header and the counters, and from the bits where
 * those do not tell. */
void rate_begin(struct rate *r);

/* Distinct keys in the layer. */
double rate_keys(const struct rate *r);

/* Reads all bits of the layer. The FPR is then that of the bits. */
void rate_look(struct rate *r);

/* The filter's FPR about now. */
double rate_now(const struct rate *r);

/* Is the FPR above warn_fpr? */
bool rate_is_high(const struct rate *r);

/* Would the FPR be near max_fpr with n more keys? */
bool rate_is_near_max(const struct rate *r, double n);

/* Would the FPR be at most max_fpr with n more keys? Looks at the bits when that is due. Only if
 * there is a max_fpr. */
bool rate_allows(struct rate *r, double n);

/* Counts keys that were inserted. No layer that was asked had reported n_new of them. */
void rate_count(struct rate *r, size_t n_inserted, size_t n_new);

#endif
