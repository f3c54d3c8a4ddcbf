/*
 * Adding keys to the layers of a filter, in a file shared with other writers or in private memory:
 * turns under a lock, the limits of the false-positive rate, and the next layer when one is full
 * (chain.h). It tells which of the keys were new. Stores call it; commands use store.h.
 *
 *     struct writer w;
 *     if (!writer_check(layers, name, &options, &err)) ...
 *     writer_begin(&w, &backing, &options, &state);
 *     while (...)
 *         writer_add(&w, keys, known, n, &done, &err);
 *     writer_conclude(&w, false);
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

enum add_result {
    ADD_OK,
    ADD_FULL, /* key *done and those after it were not added; *err has the reason */
    ADD_FAILED,
};

struct add_options {
    unsigned threads;
    double max_fpr;  /* refuse keys that would exceed this FPR; 0: no limit */
    bool rotate;     /* rotate a ring whose newest generation is full */
    bool may_repeat; /* the caller does not rely on which keys were new */
};

/* The state of adding since writer_begin. */
struct add_state {
    uint64_t n_new;    /* keys added that were not reported present */
    double dropped;    /* estimate of new keys taken for present: sum of fpr / (1 - fpr) */
    char warning[512]; /* a warning from the last call; empty: none */
};

/* Where the layers are. The writer works on layers and counters directly, and calls `ops` for
 * locking, checksums and new layers. */
struct backing {
    const struct backing_ops *ops;
    void *place;
    const char *name; /* in messages */
    struct layers layers;
    struct counters *counters; /* live */
};

struct backing_ops {
    /* Begins and ends a turn. While the lock is held, header, layers and counters are current, no
     * other writer changes them, and no layer is void. */
    bool (*lock)(void *place, struct err *err);
    void (*unlock)(void *place);

    /* Called with the lock held: `verify` before a layer is searched for keys, `touch` before keys
     * are inserted. If the call fails, do not search or insert. NULL: nothing to do. */
    bool (*verify)(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err);
    bool (*touch)(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err);

    /* Closes the newest layer and begins the next (chain.h). Called with the lock held. */
    bool (*advance)(void *place, unsigned threads, struct err *err);
};

/* Private. */
struct writer {
    const struct backing *backing;
    struct add_options options;
    struct add_state *out;
    uint8_t id[sizeof((struct header *)0)->id]; /* of the file */
    unsigned layer;                             /* takes new keys ... */
    uint64_t generation;                        /* ... and is this generation */
    double others_fpr;                          /* of the other layers together */
    double n, each;       /* distinct keys in the layer when keys_added stood at `counted`; one */
    uint64_t counted;     /* that was added since then stands for `each` keys */
    double max_n, warn_n; /* keys in the layer at which the limit, and the warning, is reached */
    double settled_n; /* keys in the layer when state->dropped was last brought up to date ... */
    uint64_t settled, new; /* ... and keys_added; keys of this writer that were new since then */
    double warned_fpr;     /* of the last warning; 0: none yet */
    uint64_t most; /* keys_added at which an exact layer (chain.h) is full; else UINT64_MAX */
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

/* A warning is due above this FPR: 1.01 times the design's, since less is the random spread of
 * bits. Where the design is assumed, nobody promised it, and with the size that go-zero recommends,
 * 20 bits a key, it is passed by 9 %: twice the rate. */
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
