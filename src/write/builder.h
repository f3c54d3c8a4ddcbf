/* SPDX-License-Identifier: MIT
 * Plans a filter of an unknown number of keys, and writes it (assembly.h).
 *
 *     struct builder b = {.to = &assembly, .design = &design, .rule = &rule, ...};
 *     if (!builder_begin(&b, &err)) ...
 *     if (builder_in_order(&b))
 *         ... builder_add(&b, hashes, known, n, &done, &err) ...    // in input order
 *     else
 *         ... builder_put(&b, worker, hashes, n, &err) ...         // any thread
 *     ... builder_write(&b, n_put, &err) ...
 *     builder_free(&b);                                            // in any case
 *
 * There are two ways, and the kind of the filter decides:
 *
 * - A kind that is built from all of its keys gets them from a keyset (keys/keyset.h), which
 *   collects them in any order. Unless the design has a fixed size, the filter is sized for the
 *   distinct ones.
 * - A layout of another program gets them one by one and in input order, as that program would, in
 *   a filter in memory, which is then written. Unless the design has a fixed size, all hashes wait
 *   in a scratch file until the number of distinct ones is known.
 *
 * How many keys are distinct is found by sorting them, or, with many keys in a kind whose census
 * tells it well enough, from the bits of the filter that was made (`counted`).
 */
#ifndef WRITE_BUILDER_H
#define WRITE_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/keyset.h"
#include "file/filter.h"
#include "file/design.h"
#include "write/assembly.h"
#include "write/writer.h"

struct key_rule; /* keys/rule.h */

struct builder {
    struct assembly *to; /* builder_begin lowers its threads to what `memory` allows */
    const struct design *design;
    const struct key_rule *rule; /* seed and preparation, for the header */
    uint64_t memory;             /* bytes, besides the filter; builder_min_memory at least */
    const char *scratch_dir;     /* for keys that do not fit in `memory` */
    bool progress;               /* shown while keys are counted */
    uint64_t n_known;            /* distinct hashes that were put; 0: unknown */
    bool forecast;               /* builder_forecast is called instead of builder_write */
    bool exact;                  /* count the distinct keys even if they are many */
    /* Results. */
    uint64_t n_held; /* distinct keys of the filter; an estimate from its bits unless `counted` */
    bool counted;
    /* The rest is private. */
    struct keyset *keys;
    uint64_t n_put, n_distinct;
    /* For a layout: a filter in memory. The keyset only counts its keys. */
    struct filter filter;
    struct writer writer;
    struct add_state state;
    bool sized;           /* it is open: its size is known */
    int waiting;          /* scratch file of the hashes that wait for it */
    uint64_t waiting_len; /* in bytes; 0: there is no such file */
};

/* The smallest memory that suffices for one thread. */
uint64_t builder_min_memory(const struct design *design);

bool builder_begin(struct builder *b, struct err *err);

/* Must keys be added in input order, from one thread at a time? */
bool builder_in_order(const struct builder *b);

/* As store_add; false if not all keys were added. */
bool builder_add(struct builder *b, struct hashes hashes, uint64_t *known, size_t n, size_t *done,
                 struct err *err);

bool builder_put(struct builder *b, unsigned worker, struct hashes hashes, size_t n,
                 struct err *err);

/* Sets the header and the origins, and writes the layers. n_put: hashes that were put or added. */
bool builder_write(struct builder *b, uint64_t n_put, struct err *err);

/* The same for design->batch_for: writes into to->file.fd, an empty, temporary file. The layer is
 * header.layers[0]. */
bool builder_batch(struct builder *b, uint64_t n_put, struct err *err);

/* The same without a file: counts all keys and computes the FPR by formula instead of a census. */
bool builder_forecast(struct builder *b, uint64_t n_put, struct err *err);

void builder_free(struct builder *b);

/* ---- Makes a filter from a counted set, without the original keys: the set must have kept their
 * whole 64-bit hashes. The result is the same as if built from the original records.
 *
 *     if (!derive_check(&from, &err)) ...
 *     ... builder_begin(&b, &err), with the key preparation of from.header ...
 *     if (!derive_put(&from, &b, &n_put, &err)) ...
 *     ... builder_write(&b, n_put, &err) ... */

/* Has the filter whole hashes? If not, the error says what is needed. */
bool derive_check(const struct filter *from, struct err *err);

/* Puts all hashes into the build. Sets *records to the set's count of records. */
bool derive_put(const struct filter *from, struct builder *b, uint64_t *records, struct err *err);

#endif
