/*
 * Builds a new filter file from an unknown number of keys.
 *
 *     struct filter_build b = {.design = &design, .rule = &rule, .memory = memory, ...};
 *     if (!filter_build_begin(&b, &err)) ...
 *     ... filter_build_put(&b, worker, hashes, n, &err) ...    // from each worker's thread
 *     if (!filter_build_write(&b, n_put, &file, name, &err)) ...
 *     filter_build_free(&b);                                    // in any case
 *
 * Hashes are collected (keyset.h). If the design has a fixed size and memory allows it, they go
 * directly into bits in memory. Then the distinct keys are counted, the filter is sized for them
 * unless its size is fixed, and written. With a fixed size and many keys, the count is estimated
 * from the bits.
 *
 * Filters of other programs' layouts are filled in memory. Where one depends on the order of the
 * keys, they are added in that order if the size is given, and else in that of their hashes:
 *
 *     if (filter_build_in_order(&b))
 *         ... filter_build_add(&b, hashes, known, n, &done, &err) ...
 *     else
 *         ... filter_build_put(...) ...
 */
#ifndef STORE_FILTER_BUILD_H
#define STORE_FILTER_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "keys/keyset.h"
#include "store/fill.h"
#include "store/format.h"
#include "store/header.h"
#include "store/newfile.h"
#include "store/store.h"

struct filter_build {
    const struct design *design;
    const struct key_rule *rule; /* seed and preparation, for the header */
    uint64_t memory;             /* bytes, beyond the filter; filter_build_min_memory at least */
    const char *scratch_dir;     /* where keys go that this does not hold */
    unsigned threads;            /* workers; filter_build_begin lowers it to as many as fit */
    bool reproducible;           /* no time and no random id in the file */
    bool progress;               /* shown while keys are counted */
    uint64_t n_known;            /* distinct hashes that were put; 0: unknown */
    bool forecast;               /* filter_build_forecast is called, and not filter_build_write */
    /* Results. Counters are unknown if the count was estimated from the bits. */
    struct header header;
    struct census census;
    uint64_t fits; /* so many hashes, repeats counted, fit in memory for certain */
    /* The rest is private. */
    struct keyset *keys;
    struct store *store; /* of a layout that has no `build`: where keys go in the end ... */
    struct fill *fill;   /* ... in any order; NULL: in theirs */
    void *bits; /* where `keys` drains to (kind_bits); NULL: it keeps them all */
    uint64_t n_put, n_distinct;
    bool counted; /* n_distinct is known, or presumed to be */
};

/* The smallest memory that will do for one thread. */
uint64_t filter_build_min_memory(const struct design *design);

bool filter_build_begin(struct filter_build *b, struct err *err);

/* Must keys be given in their order? Then it is by filter_build_add, from one thread at a time. */
bool filter_build_in_order(const struct filter_build *b);

/* As store_add; false if they are not all added. */
bool filter_build_add(struct filter_build *b, struct hashes hashes, uint64_t *known, size_t n,
                      size_t *done, struct err *err);

bool filter_build_put(struct filter_build *b, unsigned worker, struct hashes hashes,
                      size_t n, struct err *err);

/* Hands over all hashes that were put so far (keyset.h). */
bool filter_build_each(struct filter_build *b, unsigned threads, keyset_each_fn *each, void *ctx,
                       struct err *err);

/* Writes the file, which is `name` in messages, but does not commit it. n_put hashes were put. */
bool filter_build_write(struct filter_build *b, uint64_t n_put, struct newfile *file,
                        const char *name, struct err *err);

/* The same for design->batch_for: into an empty file that need not be kept. The layer is
 * header.layers[0]. */
bool filter_build_batch(struct filter_build *b, uint64_t n_put, int fd, const char *name,
                        struct err *err);

/* The same without a file: counts all keys, and says by formula what the census would. */
bool filter_build_forecast(struct filter_build *b, uint64_t n_put, struct err *err);

void filter_build_free(struct filter_build *b);

/* Writes a filter without keys, of a header whose layers are placed, into an empty file. */
bool filter_build_empty(int fd, const struct header *h, const char *name, struct err *err);

/* Makes such a file at `path`, unless something is there by then: that is no failure. */
bool filter_build_empty_file(const char *path, const struct header *h, struct err *err);

#endif
