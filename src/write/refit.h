/* SPDX-License-Identifier: MIT
 * Rebuilds a growing filter at the end of the run that made it. The number of keys was unknown, so
 * the file began with a small layer. The run keeps all its keys beside the filter, and at the end
 * replaces the file by one with a single layer of the right size.
 *
 *     struct refit *r = refit_new(&header, &st, &rule, &limits);    // NULL: not possible
 *     refit_put(r, worker, keys, n);                 // any thread, any order
 *     ... all keys are added, and the writer leaves the file ...
 *     refit_apply(r, path, hasty);
 *     refit_free(r);                                 // in any case
 *
 * Nothing here returns an error: on any failure the file stays as it is. Every key that is given is
 * kept, not only new ones. A key that is a false positive is reported present by the existing
 * layers, so the layer that replaces them must report it too.
 */
#ifndef WRITE_REFIT_H
#define WRITE_REFIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "keys/hash.h"
#include "file/format.h"

struct key_rule; /* keys/rule.h */
struct refit;

struct refit_limits {
    uint64_t most;           /* maximum number of keys kept, repeats included; 8 bytes each */
    uint64_t in_memory;      /* this many of them in memory, the others in scratch files */
    const char *scratch_dir; /* directory of the scratch files */
    unsigned threads;
};

/* For an empty growing filter with this header, in the file that `file` describes. `rule` and
 * scratch_dir must outlive the refit. If the process gets less memory than that, fewer keys are
 * kept in memory. */
struct refit *refit_new(const struct header *h, const struct stat *file,
                        const struct key_rule *rule, const struct refit_limits *limits);

/* Keeps n keys that are given to the filter. `worker` is below `threads`. If the limit of kept keys
 * is passed, gives up and frees the memory. */
void refit_put(struct refit *r, unsigned worker, struct hashes keys, size_t n);

/* Replaces the file at `path` if all of this holds: it is the same file and has no other name; it
 * has exactly the keys that were put; nobody is writing to it; and it becomes smaller by at least a
 * sixth. All keys that were put must have been added. `hasty` as in newfile.h. */
void refit_apply(struct refit *r, const char *path, bool hasty);

void refit_free(struct refit *r); /* or NULL */

#endif
