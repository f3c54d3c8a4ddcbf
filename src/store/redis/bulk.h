/*
 * Private to this folder: many keys are asked of a copy of the bitmaps, or added by uniting bitmaps
 * with those on the server, each in one step. That moves all bits, but costs the server far less
 * for a key.
 *
 * Adding in one of two ways, by add_options.may_repeat:
 * - if it does not matter which keys were new, they are added to bitmaps of their own, which
 *   bulk_flush unites with those on the server at the end; and, if their number matters or max_fpr
 *   is to be kept, to the copy;
 * - else the keys of each call are united with the bitmaps, and what was there before tells which
 *   were new. Of several processes that add one key, one alone is told that it was new.
 */
#ifndef STORE_REDIS_BULK_H
#define STORE_REDIS_BULK_H

#include "store/redis/place.h"

struct bulk;

/* NULL: out of memory. */
struct bulk *bulk_new(struct redis *r, struct err *err);
void bulk_free(struct bulk *b); /* or NULL */

enum bulk_result { BULK_DONE, BULK_NOT, BULK_FAILED };

/* Asks n keys of the copy: sets bits of present. BULK_NOT: to ask the server is cheaper so far. Any
 * number of threads may ask, without the lock. */
enum bulk_result bulk_ask(struct bulk *b, struct hashes keys, size_t n, uint64_t *present,
                          struct err *err);

/* Adds keys [*done, n), all or none of them, as store_add. BULK_NOT: to add them by commands is
 * cheaper, or they may not fit. */
enum bulk_result bulk_add(struct bulk *b, struct hashes keys, uint64_t *known, size_t n,
                          size_t *done, struct err *err);

/* Sends what was added to the copy. Under the store's lock. */
bool bulk_flush(struct bulk *b, struct err *err);

/* Are there keys that are still to be sent? Then shard[].set counts their bits, too, unless they
 * are not counted at all. NULL: no. */
bool bulk_is_ahead(const struct bulk *b);

/* Bytes of input whose keys are best added by one call; 0: it does not matter. */
size_t bulk_chunk(const struct redis *r);

/* Notes that so many keys were asked or added by commands. */
void bulk_count_live(struct bulk *b, size_t n);

/* How many keys went which way, in words. */
void bulk_describe(struct bulk *b, char *out, size_t room);

#endif
