/*
 * Filters in Redis: bitmaps of other programs' layouts, under an address (redis/uri.h) with the
 * layout in it. Commands use them through store.h.
 *
 * Keys are asked for and added in batches, one pipeline each. A key's bits are read, or read and
 * set, by one command, which Redis carries out as a whole. So of several processes that add one
 * key, on whatever machines, one alone is told that it was new. Where it is cheaper, whole bitmaps
 * are moved instead (bulk.h): a batch is then united with the bitmap as a whole.
 *
 * A connection that is lost between sending and answer leaves a batch of which nobody knows which
 * keys were new; what is known of its first keys is told, and adding fails. If the caller does not
 * rely on what was new, the batch is sent again. What a server has answered is what is promised:
 * how well it keeps that is its own affair.
 *
 * Filters of the Bloom module of a server (layout->module) are asked and added to in the same way.
 *
 * Whole filters come and go in chunks:
 *
 *     struct store *s = redis_open(name, STORE_READ, &err);
 *     redis_pull(s, &filter, bits, &err);                  // as layout->read does from files
 *     redis_push(name, &filter, data, &options, &err);     // data as for layout->write
 */
#ifndef STORE_REDIS_REDIS_H
#define STORE_REDIS_REDIS_H

#include "kind/layout.h"
#include "store/store.h"

/* The file that has the password, for connections that are made afterwards; NULL, as at first: the
 * environment has it. The name must stay. */
void redis_password_file(const char *path);

struct store *redis_open(const char *name, enum store_mode mode, struct err *err);

/* How keys are asked for and added by stores that are opened afterwards: by what is cheaper, as at
 * first; by commands for each key, of the moment; or by moving whole bitmaps: those that are asked
 * are copied once. */
enum redis_way { REDIS_AUTO, REDIS_LIVE, REDIS_BULK };
void redis_use_way(enum redis_way way);

/* How many replicas must have what is written, in stores that are opened afterwards and by
 * redis_push; 0, as at first: it is not asked. Keys of which they do not have it in time are not
 * told to have been added: adding fails. The server has them all the same. */
void redis_use_replicas(unsigned replicas);

enum redis_there { REDIS_THERE, REDIS_IN_PART, REDIS_ABSENT };

/* Opens a filter that need not be there. If it is, it is opened as by redis_open; its size can
 * follow from n and p too. If it is not, or some of its shards are not, then the store is good for
 * store_header only, until redis_make. It will be made for n keys at FPR p (0: not given), or of
 * the size that the address tells. Nothing is written yet. */
struct store *redis_prepare(const char *name, uint64_t n, double p, enum redis_there *there,
                            struct err *err);

/* Makes what redis_prepare found missing, or opens what another process has made meanwhile. Each
 * shard is made in one step: of several processes that make it from different options, one makes it
 * as a whole, and the others take it as it is, or fail if their addresses tell another size.
 * `layout`: what later addresses have to tell instead of what this one does; empty: the same. */
bool redis_make(struct store *s, char layout[LAYOUT_TEXT], struct err *err);

/* Copies the bits, bits[i] those of layer i; bits[0].owned is the caller's. Of keys that are added
 * meanwhile some may be there, with all of their bits or some. */
bool redis_pull(struct store *s, struct layout_filter *filter, struct layout_bits *bits,
                struct err *err);

/* Seconds that make no more than 2^63 milliseconds, since 1970 too. */
#define REDIS_MAX_EXPIRE (INT64_MAX / 2000)

struct redis_push {
    bool merge;      /* unite with what is there, instead of replacing it */
    uint64_t expire; /* seconds that the key is to live; 0: as long as what was there */
};

/* Writes a filter to that address, data[i] being layer i, in one step: its bits go to a temporary
 * key first, which then takes the place of what is there, or is united with it. A configuration
 * that is there must fit; one that is not is written. If it fails, the temporary key is deleted,
 * and if that fails too, it expires. */
bool redis_push(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                const struct redis_push *options, struct err *err);

#endif
