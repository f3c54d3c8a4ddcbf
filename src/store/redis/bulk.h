/*
 * Private to this folder: for many keys. Queries use a local copy of the bitmaps. Keys are added by
 * uniting local bitmaps with those on the server, each in one step. This moves all bits, but costs
 * the server far less for each key.
 *
 * The keys of each call are united with the bitmaps on the server, and the previous contents tell
 * which were new. Of several processes that add the same key, only one is told that it was new.
 */
#ifndef STORE_REDIS_BULK_H
#define STORE_REDIS_BULK_H

#include "store/redis/place.h"

struct bulk;

/* NULL: out of memory. */
struct bulk *bulk_new(struct redis *r, struct err *err);
void bulk_free(struct bulk *b); /* or NULL */

enum bulk_result { BULK_DONE, BULK_NOT, BULK_FAILED };

/* Searches the copy for n keys; sets bits of present. BULK_NOT: querying the server is cheaper so
 * far. Any number of threads may ask, without the lock. */
enum bulk_result bulk_ask(struct bulk *b, struct hashes keys, size_t n, uint64_t *present,
                          struct err *err);

/* Adds keys [*done, n), all or none of them, as store_add. BULK_NOT: adding them by commands is
 * cheaper, or the FPR might exceed max_fpr. */
enum bulk_result bulk_add(struct bulk *b, struct hashes keys, uint64_t *known, size_t n,
                          size_t *done, struct err *err);

/* Bytes of input whose keys are best added by one call; 0: any number. */
size_t bulk_chunk(const struct redis *r);

/* Counts n keys that were queried or added by commands. */
void bulk_count_live(struct bulk *b, size_t n);

/* Describes in words how many keys were handled in which way. */
void bulk_describe(struct bulk *b, char *out, size_t room);

#endif
