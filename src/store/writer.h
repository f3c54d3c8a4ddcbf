/*
 * Adding keys to the layers of a filter, wherever they are (backing.h): batches under a lock, the
 * limits of the false-positive rate (rate.h), and the next layer when one is full (grow.h). It
 * tells which of the keys were new. Stores call it; commands use store.h.
 *
 *     struct writer w;
 *     if (!writer_check(layers, name, &options, &err)) ...
 *     writer_begin(&w, &backing, &options, &state);
 *     while (...)
 *         writer_add(&w, keys, known, n, &done, &err);
 *     writer_conclude(&w, false);
 */
#ifndef STORE_WRITER_H
#define STORE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/backing.h"
#include "store/lookup.h"
#include "store/rate.h"
#include "store/store.h"

/* Private. */
struct writer {
    const struct backing *backing;
    struct add_options options;
    struct add_state *out;
    /* Of the keys in the present call. */
    bool few;
    uint64_t n_before; /* out->n_new when they came */
    /* Of the filter. */
    unsigned layer;      /* takes new keys ... */
    uint64_t generation; /* ... and is this generation */
    double warned_fpr;   /* of the last warning; 0: none yet */
    struct lookup lookup;
    struct rate rate;
};

/* Can keys be added there, with these options? */
bool writer_check(struct layers layers, const char *name, const struct add_options *options,
                  struct err *err);

/* The others must outlive *w; *out begins as zero. */
void writer_begin(struct writer *w, const struct backing *backing,
                  const struct add_options *options, struct add_state *out);

/* As store_add and store_conclude (store.h). */
enum add_result writer_add(struct writer *w, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err);
void writer_conclude(struct writer *w, bool again);

/* What is said of a filter whose FPR is above its design's; `when` is "current" or "final". */
void writer_warn(const struct header *h, const char *name, const char *when, double fpr,
                 struct add_state *out);

/* Fails with the reason for ADD_FULL. */
enum add_result writer_refuse(const char *name, double max_fpr, struct err *err);

/* A warning is due at this multiple of the design FPR: less is the random spread of bits. */
#define WRITER_WARN_FACTOR 1.01

#endif
