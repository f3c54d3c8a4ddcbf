/*
 * The keys of the process that has made a growing filter, kept until its end. Nobody knew how many
 * would come: the file begins with a small layer. Who has all keys can put them into a new layer
 * too, so that the older ones need not be asked any more, and in the end replace the file by one
 * with a single layer of the right size.
 *
 *     struct refit *r = refit_new(&header, &st, &rule, &limits);    // NULL: it cannot be done
 *     struct refit_keys k = {0};                     // for each batch that is on its way
 *     refit_note(r, &k, keys, known, n);             // in any thread, in any order ...
 *     ... they are added, with kept_keys that call refit_complete and refit_each ...
 *     refit_added(&k);                               // ... one after another
 *     refit_put(r, worker, &k);                      // before k is used again
 *     refit_drop(r, &k);
 *     ... the writer leaves the file ...
 *     refit_apply(r, path, hasty);
 *     refit_free(r);                                 // in any case
 *
 * Nothing here fails: where anything is in the way, the file stays as it is. Every key that was
 * given is kept, not only the new ones: one that was wrongly taken for known is reported present by
 * the layers that there are, and must be by the one that replaces them.
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
    uint64_t most;           /* keys that are kept, 8 bytes each, repeats counted ... */
    uint64_t in_memory;      /* ... so many of them in memory, the others in scratch files ... */
    const char *scratch_dir; /* ... there */
    unsigned threads;
};

/* The keys of a batch. Begins as zero. */
struct refit_keys {
    struct hashes keys;
    uint64_t *known; /* a copy of what was known before they were added */
    size_t n, room;
    bool added;
    struct refit_keys *next; /* of all that were noted */
    bool is_listed;
};

/* For a filter of that header, which grows and has no keys yet, in the file of that stat. The rule
 * and the directory must outlive it. Where a process gets less memory, fewer are kept there. */
struct refit *refit_new(const struct header *h, const struct stat *file,
                        const struct key_rule *rule, const struct refit_limits *limits);

/* Notes n keys that will be given to the filter, but not those whose bit is set in `known`. The
 * keys must stay until they are put. */
void refit_note(struct refit *r, struct refit_keys *k, struct hashes keys, const uint64_t *known,
                size_t n);

/* They have all been added. Not while another thread is in refit_complete. */
void refit_added(struct refit_keys *k);

/* Keeps them, if they were added. `worker` is below `threads`. When there are more than are kept,
 * gives up and frees the memory. */
void refit_put(struct refit *r, unsigned worker, struct refit_keys *k);

/* The same, and frees what `k` has. */
void refit_drop(struct refit *r, struct refit_keys *k);

/* The functions of struct kept_keys (store.h). `now` are the keys that are being added. */
bool refit_complete(struct refit *r, const struct refit_keys *now, const uint8_t *id,
                    uint64_t records, size_t done);
bool refit_forget(struct refit *r);
bool refit_each(struct refit *r, const struct refit_keys *now, size_t done, unsigned threads,
                keyset_each_fn *each, void *to, struct err *err);

/* Replaces the file at `path`, if it is the same file and has no other name, has the keys that were
 * put and no others, nobody is writing to it, and it becomes smaller by a sixth at least. All keys
 * that were put must have been added. `hasty` as in newfile.h. */
void refit_apply(struct refit *r, const char *path, bool hasty);

void refit_free(struct refit *r); /* or NULL */

#endif
