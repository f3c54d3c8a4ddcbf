/*
 * Adding keys to a filter that others may be adding to: batches under the session's lock, an eye on
 * the false-positive rate, the counters, and what is to be done when a layer is full (chain.h). It
 * tells which of the keys were new.
 *
 *     struct adder a;
 *     adder_begin(&a, &filter, &options, &err);             // filter opened with FILTER_WRITE
 *     while (...)
 *         adder_add(&a, hash, known, n, &done, &err);
 *     adder_end(&a, sync, &err);                            // in any case
 *
 * Between looks at all the bits, which take time, the FPR is followed by the kind's formula for the
 * keys added, scaled to agree with the last look; where a limit is near, the bits decide.
 */
#ifndef STORE_ADDER_H
#define STORE_ADDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "store/filter.h"
#include "store/session.h"

/* The keys of the first n records of a chunk, those of `known` excepted. */
struct adder_keys {
    uint64_t *hash;
    uint64_t *known; /* bit i: record i has no key that may be new */
    size_t n, room;
};

/* Appends all records of a batch; those without a key (batch.bad) as known. A batch of fewer than
 * BATCH_MAX is the last. False: out of memory. */
bool adder_keys_take(struct adder_keys *keys, const struct batch *b);
void adder_keys_free(struct adder_keys *keys);

struct adder_options {
    unsigned threads;
    double max_fpr; /* refuse to pass it; 0: no limit */
    bool rotate;    /* rotate a ring whose newest generation is full */
};

struct adder {
    struct session session;
    struct adder_options options;
    uint64_t n_new;     /* keys added that were not reported present */
    double dropped;     /* keys probably taken for present that were not: sum of fpr / (1 - fpr) */
    char warning[512];  /* what the last adder_add found worth saying; empty: nothing */
    uint64_t to_come;   /* set by the caller: when a filter has to grow, about so many new keys are
                           still to come; 0: nobody knows */
    /* The rest is private. */
    unsigned layer;     /* the one that takes new keys ... */
    uint64_t generation; /* ... which is this */
    double others_n;    /* keys in other layers when they were closed */
    double others_fpr;  /* of the other layers together */
    double warned_fpr;  /* of the warning that was given; 0: none yet */
    double layer_n;     /* distinct keys in `layer` as its bits had it at the last look ... */
    double counted_n;   /* ... when counters.n_keys was this */
    double fpr, layer_fpr; /* for the counters: FPR of all and of the layer, in the step ... */
    double step_start, step_end; /* ... that goes from so many keys in the layer to so many */
    double correction, correct_until; /* of 1 - FPR, by the bits, until so many keys are in */
    double max_n, warn_n; /* distinct keys in the layer at which max_fpr is reached, and that
                             of which is warned */
};

enum adder_result {
    ADDER_OK,
    ADDER_FULL, /* hash[*done] and those behind it were not added, for the reason in *err */
    ADDER_FAILED,
};

bool adder_begin(struct adder *a, struct filter *f, const struct adder_options *options,
                 struct err *err);

/* Adds hash[0..n) in order, but not those whose bit is set in `known`; sets the bits of those that
 * had been reported present before they came. The first *done have been dealt with: all n if it
 * returns ADDER_OK. */
enum adder_result adder_add(struct adder *a, const uint64_t *hash, uint64_t *known, size_t n,
                            size_t *done, struct err *err);

/* When all has been added: sets a->warning to what is to be said of the final FPR if the filter is
 * fuller than it was made for; else, and unless `again` if an earlier warning told of that very
 * rate, empties it. */
void adder_conclude(struct adder *a, bool again);

/* Syncs what was added so far. */
bool adder_sync(struct adder *a, struct err *err);
bool adder_end(struct adder *a, bool sync, struct err *err);

#endif
