/* SPDX-License-Identifier: MIT
 * Adding keys to the layers of a filter, in a file shared with other writers or in memory: the
 * turns of a session (file/session.h), the limits of the false-positive rate, and the next layer
 * when one is full (advance.h). It tells which keys were new. Stores call it; commands use store.h.
 *
 *     if (!writer_begin(&w, &filter, &options, &state, &err)) ...
 *     writer_add(&w, keys, known, n, &done, &err);               // any number of times
 *     if (!writer_end(&w, sync, &err)) ...                       // now the keys are there
 */
#ifndef WRITE_WRITER_H
#define WRITE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "keys/hash.h"
#include "file/layers.h"
#include "file/session.h"
#include "write/advance.h"

enum add_result {
    ADD_OK,
    ADD_FULL, /* key *done and those after it were not added; *err has the reason */
    ADD_FAILED,
};

struct add_options {
    unsigned threads;
    double max_fpr;      /* refuse keys that would exceed this FPR; 0: writer_limit says; 1: none */
    bool rotate;         /* rotate a ring whose newest generation is full */
    bool may_repeat;     /* the caller does not rely on which keys were new */
    uint64_t sync_every; /* sync a file after that many new keys; 0: only at the end */
};

/* The state of adding since writer_begin. */
struct add_state {
    uint64_t n_new;         /* keys added that were not reported present */
    double dropped;         /* in Redis: an estimate of new keys taken for present */
    struct profile learned; /* what the keys look like; set by the caller before the end */
    bool too_full;          /* the filter is fuller than designed, and one call warned */
    /* Of the last call. */
    enum advance_clock clock;
    char warning[512]; /* empty: none */
};

struct writer {
    struct session session; /* its counters are those of now; filter: NULL before writer_begin */
    /* The rest is private. */
    struct add_options options;
    struct add_state *out;
    uint64_t since_sync;                        /* out->n_new at the last one */
    bool has_layer;                             /* what follows is set, by the first turn */
    uint8_t id[sizeof((struct header *)0)->id]; /* of the file */
    unsigned layer;                             /* takes new keys ... */
    uint32_t generation;                        /* ... and is this generation */
    double others_fpr;                          /* of the other layers together */
    uint64_t counted;     /* keys_added when the layer's distinct keys were last counted */
    double n, each;       /* distinct keys then, and for each key that was added since then */
    double each_most;     /* the same, if the layer is as full as before the next count */
    double max_n, warn_n; /* keys in the layer at which the limit, and the warning, is reached */
    uint64_t takes;       /* keys that change a bit of the layer until it is full */
    uint64_t most; /* keys_added at which an exact layer (chain.h) is full; else UINT64_MAX */
};

/* Can keys be added there, with these options? */
bool writer_check(const struct header *h, const char *name, const struct add_options *options,
                  struct err *err);

/* Begins a session. The others must outlive *w; *out begins as zero. What the writer does follows
 * from the header that it finds in each turn: another writer, or a file that takes the place of
 * this one (session_lock), may have changed it. */
bool writer_begin(struct writer *w, struct filter *f, const struct add_options *options,
                  struct add_state *out, struct err *err);

/* As store_add (store.h). */
enum add_result writer_add(struct writer *w, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err);

/* Ends the session (session_end), and brings *out up to date. */
bool writer_end(struct writer *w, bool sync, struct err *err);

/* Formats the warning for a filter above its design FPR. */
enum { WRITER_WARNING = sizeof((struct add_state *)0)->warning };
void writer_warn(const struct header *h, const char *name, double fpr, char text[WRITER_WARNING]);

/* A filter whose FPR is this many times its design rate would soon know every key. The manuals and
 * messages of add, dedup and query name the number. */
static const double WRITER_USELESS = 10;

/* The FPR beyond which keys are refused: options->max_fpr, or where a filter that neither grows nor
 * is rotated becomes useless. 1: there is no limit. */
double writer_limit(const struct header *h, const struct add_options *options);

/* What to do about a filter that is too full: "make ...". */
const char *writer_remedy(const struct header *h);

/* Fails with the reason for ADD_FULL: the limit. */
enum add_result writer_refuse(const struct header *h, const char *name,
                              const struct add_options *options, struct err *err);

/* A warning is due above this FPR: 1.01 times the design FPR, since random bits spread by less. An
 * assumed design FPR is not a promise, and go-zero's recommended size, 20 bits a key, exceeds it by
 * 9 %: there, a warning is due above twice the rate. */
double writer_warn_fpr(const struct header *h);

/* ---- Collects the keys of a chunk of input from its batches, to add them to a store in one call.
 *
 *     struct writer_keys keys = {0};
 *     keys.n = 0;                                  // before the first batch of each chunk
 *     writer_keys_take(&keys, batch);
 *     store_add(s, writer_keys_hashes(&keys), keys.known, keys.n, &done, &err);
 *     writer_keys_free(&keys); */

/* The keys of the first n records of a chunk, except those whose bit is set in `known`. */
struct writer_keys {
    uint64_t *hash;  /* lane l of record i is hash[l * room + i] */
    uint64_t *known; /* bit i: record i has no key, or a known one */
    size_t n, room;
    /* With key_rule.bytes: bytes[i] is the key of record i, in the chunk or in `copies`. */
    struct key_bytes *bytes;
    struct key_copies *copies;
};

/* Appends all records of a batch; those without a key (batch.bad) as known. Only the last batch may
 * have fewer than BATCH_MAX records. A call with n == 0 frees the key copies of the chunk before.
 * False: out of memory. */
bool writer_keys_take(struct writer_keys *keys, const struct batch *b);
void writer_keys_free(struct writer_keys *keys);

static inline struct hashes writer_keys_hashes(const struct writer_keys *keys)
{
    return (struct hashes){keys->hash, keys->room, keys->bytes};
}

#endif
