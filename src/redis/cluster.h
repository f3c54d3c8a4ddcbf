/*
 * The servers that keys live on: one server, or the nodes of a Redis Cluster. Both are used in the
 * same way. Redirections are followed, and troubles that pass are waited for.
 *
 *     struct cluster *cl = cluster_open(&address, &options, &err);    // NULL: see err
 *     if (!cluster_run(cl, &requests, CLUSTER_REPEAT, replies, &err)) ...
 *     for (i = 0; i < requests.n; i++)
 *         if (replies[i]->type == REPLY_ERROR) ... reply_reason ...
 *     cluster_close(cl);
 *
 * Not for two threads at once.
 */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "redis/requests.h"
#include "redis/conn.h"
#include "redis/reply.h"
#include "redis/uri.h"

struct cluster;

enum { CLUSTER_PATIENCE_MS = 60000 }; /* longer than a usual failover (15 s and an election) */

struct cluster_options {
    struct conn_options conn; /* its user and db are set from the address */
    unsigned patience_ms;     /* how long to wait for troubles that pass */
};

/* Connects to the server named; if that is a node of a cluster, asks it for the others. The address
 * and the options' strings must outlive the cluster. */
struct cluster *cluster_open(const struct uri *address, const struct cluster_options *options,
                             struct err *err);
void cluster_close(struct cluster *cl); /* or NULL */

/* Nodes that own slots; 0 if it is no cluster. */
unsigned cluster_masters(const struct cluster *cl);

/* May commands be carried out twice? They are when the connection was lost after they had been sent
 * and before they were answered. */
enum cluster_repeat { CLUSTER_ONCE, CLUSTER_REPEAT };

/* Runs the commands: each goes to the node that has its slot, all are sent before any reply is
 * waited for. replies[i] becomes the reply to command i. It can be an error; the exceptions are
 * those that are dealt with here: MOVED and ASK are followed; LOADING, TRYAGAIN, BUSY, MASTERDOWN
 * and CLUSTERDOWN, and nodes of a cluster that cannot be reached, are waited for. A lost connection
 * to a single server is opened once more. The commands of one batch can be carried out in any order
 * if they go to different nodes or are redirected, but not those of a block (requests.h), which
 * have a reply each or none at all. If a command in MULTI ... EXEC is refused for good, the reply
 * to it says why, that to EXEC only that nothing was done.
 *
 * Returns false when a command remained without a reply: replies[i] of those are NULL. Commands not
 * to be repeated may then have been carried out, or not. A signal (sig.h) ends waiting.
 *
 * The replies stay until the next call. */
bool cluster_run(struct cluster *cl, const struct requests *requests, enum cluster_repeat repeat,
                 struct reply **replies, struct err *err);

/* Waits until what was written is on so many replicas: asks all nodes that have answered commands
 * since the last call, on the same connections (WAIT). Fails if fewer replicas have acknowledged it
 * after so many milliseconds (options.conn.reply_ms must be more), or if a connection was lost
 * meanwhile: the node may have been replaced by a replica that lacks it. */
bool cluster_wait(struct cluster *cl, unsigned replicas, unsigned ms, struct err *err);

#endif
