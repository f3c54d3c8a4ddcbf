/*
 * Keeps all keys that a process gives to a growing filter that it has made. The number of keys was
 * unknown, so the file begins with a small layer. With all keys at hand, each new layer can hold
 * the old keys too, so that lookups skip the older layers. At the end the file can be replaced by
 * one with a single layer of the right size.
 *
 *     struct refit *r = refit_new(&header, &st, &rule, &limits);    // NULL: not possible
 *     struct refit_keys k = {0};                     // one for each batch in flight
 *     refit_note(r, &k, keys, known, n);             // any thread, any order ...
 *     ... store_add adds them; its kept_keys call refit_complete and refit_each ...
 *     refit_added(&k);                               // ... one at a time
 *     refit_put(r, worker, &k);                      // before k is used again
 *     refit_drop(r, &k);
 *     ... the writer leaves the file ...
 *     refit_apply(r, path, hasty);
 *     refit_free(r);                                 // in any case
 *
 * Nothing here returns an error: on any failure the file stays as it is. Every key that is given is
 * kept, not only new ones. A key that is a false positive is reported present by the existing
 * layers, so the layer that replaces them must report it too.
 */
#ifndef STORE_REFIT_H
#define STORE_REFIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "keys/batch.h"
#include "keys/hash.h"
#include "keys/keyset.h"
#include "store/format.h"

struct refit;

struct refit_limits {
    uint64_t most;           /* maximum number of keys kept, repeats included; 8 bytes each */
    uint64_t in_memory;      /* this many of them in memory, the others in scratch files */
    const char *scratch_dir; /* directory of the scratch files */
    unsigned threads;
};

/* The keys of a batch. Initialize to zero. */
struct refit_keys {
    struct hashes keys;
    uint64_t *known; /* a copy of `known`, taken before the keys were added */
    size_t n, room;
    bool added;
};

/* For an empty growing filter with this header, in the file that `file` describes. `rule` and
 * scratch_dir must outlive the refit. If the process gets less memory than that, fewer keys are
 * kept in memory. */
struct refit *refit_new(const struct header *h, const struct stat *file,
                        const struct key_rule *rule, const struct refit_limits *limits);

/* Notes n keys that will be given to the filter, except those whose bit is set in `known`. The keys
 * must stay valid until refit_put. */
void refit_note(struct refit *r, struct refit_keys *k, struct hashes keys, const uint64_t *known,
                size_t n);

/* Records that all keys of the batch have been added. Must not run beside refit_complete. */
void refit_added(struct refit_keys *k);

/* Keeps the keys of the batch, if they were added. `worker` is below `threads`. If the limit of
 * kept keys is passed, gives up and frees the memory. */
void refit_put(struct refit *r, unsigned worker, struct refit_keys *k);

/* The same, and frees the memory of `k`. */
void refit_drop(struct refit *r, struct refit_keys *k);

/* Replaces the file at `path` if all of this holds: it is the same file and has no other name; it
 * has exactly the keys that were put; nobody is writing to it; and it becomes smaller by at least a
 * sixth. All keys that were put must have been added. `hasty` as in newfile.h. */
void refit_apply(struct refit *r, const char *path, bool hasty);

void refit_free(struct refit *r); /* or NULL */

#endif
