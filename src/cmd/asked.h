/*
 * The filters that `query` searches: FILTER and those of --also, and the list of --confirm.
 *
 *     struct asked a = {.keyopt = &keyopt};
 *     asked_add(&a, path, &err)                      // each filter; FILTER first
 *     asked_open(&a, &err)
 *     ... for each chunk, in any thread:
 *     asked_begin(&a, many, &err)
 *     asked_query(&a, batch, &answers, &err)
 *     asked_end(&a, &again, &err)                    // again: the answers are void; ask again
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

/* The answers for a batch: a bit or an entry for each record. */
struct asked_answers {
    uint64_t good[BATCH_MAX / 64]; /* set by the caller: the record has a key; else it is absent */
    uint64_t present[BATCH_MAX / 64];
    uint16_t holder[BATCH_MAX]; /* with `which`: index in `path` of the first filter with the key */
    uint64_t count[BATCH_MAX];  /* with `counts` */
};

/* The open filters and list. */
struct asked_view {
    struct store **store; /* as many as there are paths, or fewer after a failure */
    size_t n;
    struct confirm *list; /* NULL: none */
};

struct asked {
    struct keyopt *keyopt; /* adopts the filters' key preparation */
    struct open_options open;
    const char *list; /* of --confirm; NULL: none */
    bool which;       /* the answers name the filter that has a key ... */
    bool counts;      /* ... and its count; then there is one filter, a counted set */
    bool follows;     /* open filters anew if they are replaced during the run */
    bool one_answer;  /* all chunks together make one answer, which must come from one file */
    const char **path;
    size_t n_paths;
    struct asked_view now;
    /* The rest is private. */
    pthread_rwlock_t lock; /* for reading: to query; for writing: to change what is open */
    bool has_lock;
    atomic_bool many;       /* many keys are expected */
    atomic_ulong looked;    /* when names were last looked at, in milliseconds */
    atomic_bool is_looking; /* a thread looks at the names now */
    struct err *why;        /* the last reason printed why a new filter cannot be used */
};

/* Adds a filter; the path is kept. */
bool asked_add(struct asked *a, const char *path, struct err *err);

/* Opens all filters, which must be for the same keys (header_same_questions). */
bool asked_open(struct asked *a, struct err *err);

/* Call asked_begin before keys are prepared and queried, and asked_end afterwards, even after a
 * failure. If a filter was overwritten meanwhile, asked_end opens it anew and sets *again: answers,
 * failures and hashes since asked_begin are void. It fails if the file cannot be used, and with
 * `one_answer` always. asked_begin picks up changes by other processes. `many`: many keys follow,
 * so filters are read ahead. With `follows`, it checks once a second whether a name now refers to
 * another file, and then opens all filters anew. If one of them cannot replace the old one, each
 * new reason is printed once, and the old filters stay in use. */
bool asked_begin(struct asked *a, bool many, struct err *err);
bool asked_end(struct asked *a, bool *again, struct err *err);

/* A key is present if any filter has it and the list, if there is one, has it too. */
bool asked_query(struct asked *a, const struct batch *b, struct asked_answers *answers,
                 struct err *err);

void asked_close(struct asked *a);

#endif
