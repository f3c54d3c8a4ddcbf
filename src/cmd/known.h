/*
 * The known keys. One filter, in a store or in memory, takes new keys: the sink. References are
 * filters that are only queried. With --confirm, a sorted list decides about keys that a filter
 * reports present: those not in the list are new, unless they were new earlier in this run.
 *
 *     struct known k = {0};
 *     known_open(&k, name, false, &err)                 // or known_open_in_memory
 *     known_add_reference(&k, name, &err)               // if asked for
 *     known_confirm(&k, list, &rule, &err)
 *     known_begin(&k, &options, &err)
 *     while (...) {
 *         known_follow(&k, &err);                           // any thread; for each chunk
 *         known_ask(&k, batch, &err);                       // the same; for each batch
 *         known_add(&k, &keys, record, &done, &err);        // one thread at a time, in order
 *     }
 *     known_end(&k, sync, &err);
 *     known_close(&k);                                      // in any case
 */
#ifndef CMD_KNOWN_H
#define CMD_KNOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "keys/confirm.h"
#include "store/store.h"
#include "store/writer.h"

struct known {
    struct open_options open; /* for all stores; set by the caller */
    struct store *sink;       /* the filter that keys are added to */
    bool in_memory;
    struct store **reference; /* filters that are only queried */
    size_t n_references;
    pthread_rwlock_t lock; /* for reading: to query references; for writing: to change them */
    bool has_lock;
    struct confirm list;
    bool has_list;
    struct store *run;    /* with a list, unless in_memory: the keys that were new in this run */
    struct batch *single; /* for one record */
    uint64_t n_denied;    /* new keys that the sink reported present, as the list shows */
    uint64_t *before;     /* a copy of keys->known before known_add */
    size_t before_capacity;
};

/* Opens the filter that takes new keys. Without `create`, the message about a missing file names
 * --create. */
bool known_open(struct known *k, const char *name, bool create, struct err *err);

/* For a filter in Redis that may be missing (store_prepare): known_make then makes it. If later
 * commands need another layout than this address has, known_make prints it on stderr. */
bool known_prepare(struct known *k, const char *name, uint64_t n, double p, enum store_there *there,
                   struct err *err);
bool known_make(struct known *k, struct err *err);

/* For a dry run: turns the prepared filter into a reference if it exists, else forgets it. Fails if
 * only some of its shards exist. */
bool known_only_ask(struct known *k, enum store_there there, struct err *err);

/* Makes a growing filter that keeps FPR p. Its first layer is for n keys; 0: the usual capacity. */
bool known_open_in_memory(struct known *k, const struct key_rule *rule, uint64_t n, double p,
                          struct err *err);

/* Opens a reference. It must be for the same keys as the filters opened before it. A caller that
 * opens the sink after the references must compare them itself (header_same_questions). */
bool known_add_reference(struct known *k, const char *name, struct err *err);

/* Opens the list; after the filters. The rule must outlive `k`. */
bool known_confirm(struct known *k, const char *path, const struct key_rule *rule, struct err *err);

bool known_begin(struct known *k, const struct add_options *options, struct err *err);

/* Picks up what other processes have done to the references: layers that were added, and another
 * file of that name. Fails if the new file is for other keys. */
bool known_follow(struct known *k, struct err *err);

/* Marks in b->bad the keys of a batch that are in a reference. */
bool known_ask(struct known *k, struct batch *b, struct err *err);

/* Call it after a group of known_ask, before their results are used: fails if a reference was
 * overwritten meanwhile. */
bool known_check_intact(struct known *k, struct err *err);

/* Adds keys (store_add). Afterwards, if i < *done and bit i of keys->known is clear, key i was new.
 * Key i comes from the record [record[i], record[i + 1]). */
enum add_result known_add(struct known *k, struct writer_keys *keys, const char *const *record,
                          size_t *done, struct err *err);

/* How many keys have been new. */
uint64_t known_n_new(const struct known *k);

/* New keys that were taken for known. */
struct lost {
    double run, all; /* in this run (NAN: unknown), and since the sink was made */
    bool at_least;   /* both are lower bounds */
};

/* Estimates how many new keys were taken for known so far. For the sink, this is its own count, or
 * a bound if it is too full. For the references it follows from their current FPR: of N keys new to
 * all, N * fpr. With a list it is 0. Reads all bits of the references, and of a sink that is too
 * full, at the end of a run, after known_conclude. If those of a reference cannot be read, warns,
 * and `run` is NAN. */
struct lost known_lost(const struct known *k, unsigned threads);

/* The warning to print when all keys have been added (store_conclude); NULL: none. */
const char *known_conclude(struct known *k, bool again);

/* Ends what known_begin began; `sync` as for store_add_end. */
bool known_end(struct known *k, bool sync, struct err *err);
void known_close(struct known *k);

#endif
