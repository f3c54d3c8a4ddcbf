/*
 * The filter that takes new keys, in a store or in memory. With the list of --confirm, keys that it
 * reports present, but that are not in the list, are new, unless they were new earlier in this run.
 *
 *     struct sink k = {0};
 *     k.store = store_open(...)                          // or sink_open_in_memory
 *     sink_confirm(&k, list, &rule, &err)                // if there is one
 *     sink_begin(&k, &options, &err)
 *     while (...)
 *         sink_add(&k, &keys, record, &done, &err);      // one thread at a time, in order
 *     store_add_end(k.store, sync, &err);
 *     sink_close(&k);                                    // in any case
 */
#ifndef CMD_SINK_H
#define CMD_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/sources.h"
#include "keys/batch.h"
#include "keys/confirm.h"
#include "store/store.h"
#include "store/writer.h"

struct sink {
    struct store *store; /* opened by adding.h, or by sink_open_in_memory */
    bool in_memory;
    struct confirm *list; /* NULL: none */
    struct store *run;    /* with a list: the keys that were new in this run */
    struct batch *single; /* for one record */
    uint64_t n_denied;    /* new keys that the store reported present, as the list shows */
    uint64_t *before;     /* a copy of keys->known before sink_add */
    size_t before_capacity;
};

/* Makes a growing filter that keeps FPR p. Its first layer is for n keys; 0: the usual capacity. */
bool sink_open_in_memory(struct sink *k, const struct key_rule *rule, uint64_t n, double p,
                         struct err *err);

/* The list and the rule must outlive the sink. A sink in memory has only keys of this run, which
 * are known without the list. */
bool sink_confirm(struct sink *k, struct confirm *list, const struct key_rule *rule,
                  struct err *err);

bool sink_begin(struct sink *k, const struct add_options *options, struct err *err);

/* Adds keys (store_add). Afterwards, if i < *done and bit i of keys->known is clear, key i was new.
 * Key i comes from the record [record[i], record[i + 1]). */
enum add_result sink_add(struct sink *k, struct writer_keys *keys, const char *const *record,
                         size_t *done, struct err *err);

/* How many keys have been new. */
uint64_t sink_n_new(const struct sink *k);

/* New keys that were taken for known. */
struct lost {
    double run, all; /* in this run (NAN: unknown), and since the sink was made */
    bool at_least;   /* both are lower bounds */
};

/* Estimates how many new keys were taken for known so far. For the sink, this is its own count, or
 * a bound if it is too full. For the sources it follows from their current FPR: of N keys new to
 * all, N * fpr. With a list it is 0. Reads all bits of the sources, and of a sink that is too full,
 * at the end of a run, after sink_conclude. If those of a source cannot be read, warns, and `run`
 * is NAN. */
struct lost sink_lost(const struct sink *k, const struct sources *sources, unsigned threads);

/* The warning to print when all keys have been added (store_conclude); NULL: none. */
const char *sink_conclude(struct sink *k, bool again);

void sink_close(struct sink *k);

#endif
