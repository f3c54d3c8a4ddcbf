/*
 * Filters in Redis: bitmaps in other programs' layouts. The address (redis/uri.h) names the layout.
 * Commands use them through store.h.
 *
 * Keys are queried and added in batches, one pipeline each. A key's bits are read, or read and set,
 * by one atomic command. So of several processes that add the same key, on any machines, only one
 * is told that it was new. Where it is cheaper, whole bitmaps are moved instead (bulk.h): a batch
 * is then united with the bitmap in one step.
 *
 * If a connection is lost between request and reply, it is unknown which keys of the batch were
 * new. Results of its first keys whose replies arrived are reported, and adding fails. If the
 * caller does not rely on which keys were new, the batch is sent again. A key is acknowledged when
 * the server has replied; whether the server loses it later depends on the server.
 *
 * Filters of the Bloom module of a server (layout->module) are queried and added to in the same
 * way.
 *
 * Whole filters are copied in chunks (redis_whole).
 */
#ifndef STORE_REDIS_REDIS_H
#define STORE_REDIS_REDIS_H

#include "kind/layout.h"
#include "store/store.h"

/* Sets the file that has the password, for connections that are made afterwards. NULL, the default:
 * the environment has it. `path` must stay valid. */
void redis_password_file(const char *path);

struct store *redis_open(const char *name, enum store_mode mode, struct err *err);

/* Sets how keys are queried and added by stores that are opened afterwards. REDIS_AUTO, the
 * default: in the cheaper way. REDIS_LIVE: by commands for each key, with the current bits.
 * REDIS_BULK: by moving whole bitmaps; for queries, they are copied once. */
enum redis_way { REDIS_AUTO, REDIS_LIVE, REDIS_BULK };
void redis_use_way(enum redis_way way);

/* Sets how many replicas must have received what is written, for stores that are opened afterwards
 * and for redis_whole.push. 0, the default: replicas are not asked. If replicas do not have keys in
 * time, adding fails, and the keys are not reported as added, although the server has them. */
void redis_use_replicas(unsigned replicas);

enum redis_there { REDIS_THERE, REDIS_IN_PART, REDIS_ABSENT };

/* Opens a filter that need not exist. If it exists, it is opened as by redis_open, except that its
 * size may also follow from n and p. If it does not exist, or if some of its shards do not, only
 * store_header may be used until redis_make. The filter will be made for n keys at FPR p (0: not
 * given), or with the size that the address states. Nothing is written yet. */
struct store *redis_prepare(const char *name, uint64_t n, double p, enum redis_there *there,
                            struct err *err);

/* Makes what redis_prepare found missing, or opens what another process has made meanwhile. Each
 * shard is made in one step: of several processes that make it from different options, one makes it
 * completely, and the others use it, or fail if their addresses state another size. `layout`: the
 * layout that later addresses must state instead of that of this address; empty: the same. */
bool redis_make(struct store *s, char layout[LAYOUT_TEXT], struct err *err);

/* Copies whole filters. push writes the bits to a temporary key first, which then replaces the
 * existing key, or is united with it. An existing configuration must fit; a missing one is written.
 * On failure the temporary key is deleted; if that fails too, it expires. */
extern const struct store_whole redis_whole;

#endif
