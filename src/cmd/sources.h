/* SPDX-License-Identifier: MIT
 * Filters that are only queried, and the list of --confirm, which decides about the keys that they
 * report present: FILTER and --also of `query`, --also of `dedup`.
 *
 *     struct sources s = SOURCES_DEFAULT;
 *     s.keyopt = &keyopt;
 *     sources_add(&s, s.n, path, &err)                   // each filter
 *     sources_open(&s, &err)
 *     ... for each chunk, in any thread:
 *     ok = sources_ask(&s, &part, ask, ctx, slot, &err)  // after a failure, the answers are void
 *     ... in `ask`: ok = sources_query(&s, batch, &answers, &err)
 *     ...
 *     sources_close(&s);                                 // in any case
 */
#ifndef CMD_SOURCES_H
#define CMD_SOURCES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/feed.h"
#include "cmd/keyopt.h"
#include "keys/batch.h"
#include "keys/confirm.h"
#include "store/store.h"

/* The answers for a batch: a bit or an entry for each record. */
struct sources_answers {
    uint64_t good[BATCH_MAX / 64]; /* the record has a key; else it is absent */
    uint64_t present[BATCH_MAX / 64];
    uint16_t holder[BATCH_MAX]; /* with `which`: index of the first filter with the key */
    uint64_t count[BATCH_MAX];  /* with `counts` */
};

struct source_filter {
    const char *path;
    struct store *now; /* NULL: not open */
};

struct sources {
    struct keyopt *keyopt; /* adopts the filters' key preparation */
    struct open_options open;
    const char *list_path; /* of --confirm; NULL: none */
    bool which;            /* the answers name the first filter that has a key */
    bool counts;           /* the answers have counts; then there is one filter, a counted set */
    bool follow; /* for each chunk, filters whose names refer to other files are opened again; the
                    new ones must be for the same keys */
    struct store *sink; /* a filter for the same keys, which is not queried; NULL: none.
                           Keys have its length */
    struct source_filter *filter;
    size_t n;
    struct confirm *list; /* NULL: none */
    /* The rest is private. */
    pthread_rwlock_t lock; /* for reading: between enter and leave; for writing: to follow */
    struct err lost;       /* why follow failed, after which nothing is asked; empty: it has not */
};

#define SOURCES_DEFAULT                                                                            \
    {                                                                                              \
        .lock = PTHREAD_RWLOCK_INITIALIZER                                                         \
    }

/* Adds a filter as number `at`, up to s->n; the path is kept. */
bool sources_add(struct sources *s, size_t at, const char *path, struct err *err);

/* For options, such as --also, that add the filter that they name. */
bool sources_take(void *sources, struct opt_parser *p, int id);

/* Opens all filters that are not open yet, which must be for the same keys (header_same_keys), and
 * the list. */
bool sources_open(struct sources *s, struct err *err);

/* Call sources_enter before keys are prepared and queried, and sources_leave afterwards, even after
 * a failure (store_enter, store_leave). sources_enter also follows names. */
bool sources_enter(struct sources *s, size_t len, struct err *err);
bool sources_leave(struct sources *s, bool ok, bool *again, struct err *err);

/* Calls both for a chunk, and between them `ask`, which starts anew each time that a file changed
 * meanwhile. */
typedef bool sources_asker(void *ctx, void *slot, struct err *err);
bool sources_ask(struct sources *s, struct feed_part *part, sources_asker *ask, void *ctx,
                 void *slot, struct err *err);

/* A key is present if any filter has it and the list, if there is one, has it too. */
bool sources_query(struct sources *s, const struct batch *b, struct sources_answers *answers,
                   struct err *err);

/* The current FPR of all filters together, without the list. Reads all their bits. */
bool sources_fpr(const struct sources *s, unsigned threads, double *fpr, struct err *err);

void sources_close(struct sources *s);

#endif
