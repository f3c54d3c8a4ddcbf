/*
 * The known keys: a filter that takes new keys, in a store or in memory; references, which are
 * filters that are only asked; and, with --confirm, a sorted list, which must hold every key that a
 * filter reports present.
 *
 *     struct known k = {0};
 *     known_open(&k, name, &err)                        // or known_open_in_memory
 *     known_add_reference(&k, name, &err)               // if asked for
 *     known_confirm(&k, list, &rule, &err)
 *     known_begin(&k, &options, &err)
 *     while (...) {
 *         known_ask(&k, batch, &err);                       // any thread, any order
 *         known_peek(&k, &keys);                            // the same, of a chunk's keys
 *         known_add(&k, &keys, record, &done, &err);        // one thread at a time, in order
 *     }
 *     known_end(&k, sync, &err);
 *     known_close(&k);                                      // in any case
 */
#ifndef CMD_KNOWN_H
#define CMD_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "keys/confirm.h"
#include "store/redis/redis.h"
#include "store/store.h"
#include "store/writer_keys.h"

struct known {
    struct store *sink; /* that keys are added to */
    bool in_memory;
    struct store **reference; /* other filters, which are only asked */
    size_t n_references;
    struct confirm list;
    bool has_list;
    struct store *run;    /* with a list, beside a file: the keys that were new in this run */
    struct batch *single; /* for one record */
    uint64_t n_denied;    /* keys that FILTER reported present, wrongly by the list */
    uint64_t *before;     /* keys->known before known_add */
    size_t before_capacity;
};

/* Opens the filter that takes new keys. */
bool known_open(struct known *k, const char *name, struct err *err);

/* For a filter in Redis that need not be there (redis_prepare); known_make makes it then. The note
 * on stderr tells the layout, where later commands need another one than this address has. */
bool known_prepare(struct known *k, const char *name, uint64_t n, double p,
                   enum redis_there *there, struct err *err);
bool known_make(struct known *k, struct err *err);

/* In a dry run: makes it a reference if it is there, else forgets it. */
bool known_only_ask(struct known *k, enum redis_there there, struct err *err);

/* Makes it: it grows, from n keys on (0: not told), and keeps FPR p. */
bool known_open_in_memory(struct known *k, const struct key_rule *rule, uint64_t n, double p,
                          struct err *err);

/* Opens a reference: a filter that is only asked. It must be one for the same keys as those before
 * it; who opens the one that takes keys behind these compares it (header_same_questions). */
bool known_add_reference(struct known *k, const char *name, struct err *err);

/* Opens the list; after the filters. The rule must outlive `k`. */
bool known_confirm(struct known *k, const char *path, const struct key_rule *rule, struct err *err);

bool known_begin(struct known *k, const struct add_options *options, struct err *err);

/* Marks in b->bad the keys of a batch that are in a reference. */
bool known_ask(struct known *k, struct batch *b, struct err *err);

/* Asks layers that take no more keys, so that known_add need not (store_peek). */
void known_peek(struct known *k, struct writer_keys *keys);

/* Adds keys (store_add); afterwards the bits of keys->known that are not set, up to *done, are
 * those of the new ones. Key i comes from the record [record[i], record[i + 1]). */
enum add_result known_add(struct known *k, struct writer_keys *keys, const char *const *record,
                            size_t *done, struct err *err);

/* How many keys have been new. */
uint64_t known_n_new(const struct known *k);

/* How many new keys were probably taken for known so far: by the filter that takes keys, as it has
 * counted them, and by the references, by their FPR now: of N keys new to all, N * fpr. With a list
 * none was. Reads all bits of the latter; if that fails, which is said, it is infinite. */
double known_lost(const struct known *k, unsigned threads);

/* What is to be said when all has been added (store_conclude); NULL: nothing. */
const char *known_conclude(struct known *k, bool again);

/* Ends what known_begin began; `sync` as for store_add_end. */
bool known_end(struct known *k, bool sync, struct err *err);
void known_close(struct known *k);

#endif
