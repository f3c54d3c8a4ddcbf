/* SPDX-License-Identifier: MIT
 * Adds a batch of keys to a counting filter, or removes it: all keys or none. A new file replaces
 * the old one. Readers are not disturbed, and a crash leaves either the old file or the new one.
 *
 *     struct change c = {.path = path, .op = COUNTS_ADD, .batch_id = id};
 *     if (change_open(&c, &err) &&
 *         change_begin(&c, &rule, memory, scratch_dir, &err)) {
 *         ... change_put(&c, worker, hashes, n, &err) ...       // from each worker's thread
 *         change_apply(&c, n_put, &err);
 *     }
 *     change_close(&c);                                         // in any case
 *
 * Equal hashes in a batch count each time, unless `once` is set. Only change_apply locks writers
 * out. It changes the file that has the name at that time, so two processes can change a filter at
 * once and lose nothing.
 *
 * A batch may have an ID. The file remembers the last FORMAT_MAX_BATCHES IDs, and a batch whose ID
 * is remembered changes nothing, so a batch can safely be retried if its outcome is unknown. Adding
 * and removing have separate IDs: the same text names two batches. Batches without keys are not
 * remembered. A file made from others remembers no IDs, unless it replaces one of them.
 */
#ifndef WRITE_CHANGE_H
#define WRITE_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/filter.h"
#include "write/assembly.h"
#include "write/builder.h"

struct key_rule; /* keys/rule.h */

struct change {
    const char *path;
    enum counts_op op; /* COUNTS_ADD, COUNTS_SUBTRACT, or COUNTS_EXCEPT: all counts of a key */
    bool once;         /* equal hashes in the batch count once */
    bool skip_absent;  /* remove the other keys even if some are absent */
    bool no_sync;      /* sync the new file, but do not wait for its name to be on disk */
    double max_fpr;    /* fail if adding would exceed it; 0: writer_limit; whole hashes have none */
    const char *batch_id; /* NULL: none */
    unsigned threads;
    bool progress;
    struct profile learned; /* what keys that are added look like; n 0: unknown */
    /* Results. */
    bool repeated; /* the batch was applied before; change_open may set it already */
    bool applied;  /* the file was replaced: `made` has the new header and the statistics */
    uint64_t n;    /* distinct keys of the batch */
    struct assembly made;
    struct filter now; /* the file as change_open found it */
    /* The rest is private. */
    uint8_t id[FORMAT_BATCH];
    struct design design;
    struct assembly batch; /* in an unnamed file */
    struct builder build;
    char *own_dir; /* for scratch */
};

/* Can the filter of that name be changed by batches? Fails if its header cannot be read. */
bool change_suits(const char *name, bool *suits, struct err *err);

/* If keys cannot be removed from it, fails with the reason. */
bool change_check(const char *name, struct err *err);

/* Opens the file and makes sure that it can be replaced. */
bool change_open(struct change *c, struct err *err);

/* Gets memory for the keys (builder.h); may lower c->threads. `rule` must outlive it.
 * scratch_dir NULL: the directory of the file. */
bool change_begin(struct change *c, const struct key_rule *rule, uint64_t memory,
                  const char *scratch_dir, struct err *err);

/* The least `memory` that change_begin accepts. */
uint64_t change_min_memory(const struct change *c);

bool change_put(struct change *c, unsigned worker, struct hashes hashes, size_t n, struct err *err);

/* Applies a batch of n_put hashes. */
bool change_apply(struct change *c, uint64_t n_put, struct err *err);

void change_close(struct change *c);

#endif
