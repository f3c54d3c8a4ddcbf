/*
 * The file of a filter that grows has layers that were made before anybody knew how many keys would
 * come. If the process that made it has seen all of its keys, it can replace it by a file with one
 * layer of the right size.
 *
 *     struct refit *r = refit_new(&header, &st, &rule, most, threads);  // NULL: it cannot be done
 *     refit_put(r, worker, keys, known, n);          // from each worker's thread: all keys given
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
#include "store/format.h"

struct refit;

/* For a filter of that header, which grows and has no keys yet, in the file of that stat. The rule
 * must outlive it. `most` is the number of keys, repeats counted, up to which the file is replaced:
 * each takes 8 bytes of memory. Where a process gets less memory, fewer are kept. */
struct refit *refit_new(const struct header *h, const struct stat *file,
                        const struct key_rule *rule, uint64_t most, unsigned threads);

/* Keeps n keys that are given to the filter, but not those whose bit is set in `known`. `worker` is
 * below `threads`. When there are more than are kept, gives up and frees the memory. */
void refit_put(struct refit *r, unsigned worker, struct hashes keys, const uint64_t *known,
               size_t n);

/* Replaces the file at `path`, if it is the same file and has no other name, has the keys that were
 * put and no others, nobody is writing to it, and it becomes smaller by a sixth at least. All keys
 * that were put must have been added. `hasty` as in newfile.h. */
void refit_apply(struct refit *r, const char *path, bool hasty);

void refit_free(struct refit *r); /* or NULL */

#endif
