/*
 * The filters that `query` asks: FILTER, those of --also, and the list of --confirm.
 *
 *     struct asked a = {.keyopt = &keyopt};
 *     asked_add(&a, path, &err)                      // each filter; FILTER first
 *     asked_open(&a, &err)
 *     ... any thread:
 *     asked_begin(&a, many, &err)
 *     asked_query(&a, batch, &answers, &err)
 *     asked_end(&a)
 *     ...
 *     asked_close(&a);                               // in any case
 */
#ifndef CMD_ASKED_H
#define CMD_ASKED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/keyopt.h"
#include "keys/batch.h"
#include "keys/confirm.h"
#include "store/store.h"

/* What is known of a batch: a bit, or an entry, for each record. */
struct asked_answers {
    uint64_t good[BATCH_MAX / 64]; /* set by the caller: the record has a key; others are absent */
    uint64_t present[BATCH_MAX / 64];
    uint16_t holder[BATCH_MAX]; /* with `which`: the first filter that has it, among the paths */
    uint64_t count[BATCH_MAX];  /* with `counts` */
};

/* What is open. */
struct asked_view {
    struct store **store; /* as many as there are paths, or fewer after a failure */
    size_t n;
    struct confirm *list; /* NULL: none */
};

struct asked {
    struct keyopt *keyopt; /* takes over how the filters' keys are made */
    const char *list;      /* of --confirm; NULL: none */
    bool which;            /* the answers tell which filter has a key ... */
    bool counts;           /* ... and how often; then there is one filter, which must be counted */
    bool follows;          /* take up filters that are replaced while keys are asked */
    const char **path;
    size_t n_paths;
    struct asked_view now;
    /* The rest is private. */
    pthread_rwlock_t lock; /* held while filters are asked; to change what is open, alone */
    bool has_lock;
    atomic_bool many;       /* keys are expected */
    atomic_ulong looked;    /* when names were last looked at: milliseconds */
    atomic_bool is_looking; /* a thread does so */
    struct err *why;        /* the last reason why a new filter could not be taken up */
};

/* Adds a filter; the path is kept. */
bool asked_add(struct asked *a, const char *path, struct err *err);

/* Opens all of them. They must be filters for the same keys. */
bool asked_open(struct asked *a, struct err *err);

/* Before keys are prepared and asked: takes notice of what other processes changed. `many`: read
 * ahead, as many keys are to be asked. With `follows`, looks once a second whether a name stands
 * for another file. Then all filters are opened anew. If one of them cannot be used in place of the
 * old one, that is said once for each reason, and the old ones are asked on. After a failure, too,
 * comes asked_end. */
bool asked_begin(struct asked *a, bool many, struct err *err);
void asked_end(struct asked *a);

/* A key is present if it is in any filter, and not denied by the list. */
bool asked_query(struct asked *a, const struct batch *b, struct asked_answers *answers,
                 struct err *err);

void asked_close(struct asked *a);

#endif
