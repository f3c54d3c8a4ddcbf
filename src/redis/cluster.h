/* SPDX-License-Identifier: MIT
 * Runs commands on one Redis server or on the nodes of a Redis Cluster. Both are used in the same
 * way. Redirections are followed; after a temporary error, commands are sent again.
 *
 *     struct cluster *cl = cluster_open(&address, &options, &err);    // NULL: see err
 *     if (!cluster_run(cl, &requests, CLUSTER_REPEAT, &replies, &err)) ...
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
#include "redis/conn.h"
#include "redis/messages.h"
#include "redis/uri.h"

struct cluster;

enum {
    CLUSTER_PATIENCE_MS = 60000, /* longer than a usual failover (15 s and an election) */
    CLUSTER_WAIT_MS = 5000, /* a good replica acknowledges at once; one that lags by a second cannot
                               be relied on */
};

struct cluster_options {
    struct conn_options conn; /* its user and db are set from the address */
    unsigned patience_ms;     /* how long to retry after temporary errors */
    unsigned replicas;        /* of each node, that must acknowledge each batch (WAIT) */
    unsigned wait_ms;         /* within this time; conn.reply_ms must be more */
};

/* Connects to the server at `address`. If it is a node of a cluster, asks it for the other nodes.
 * The address and the options' strings must outlive the cluster. */
struct cluster *cluster_open(const struct uri *address, const struct cluster_options *options,
                             struct err *err);
void cluster_close(struct cluster *cl); /* or NULL */

/* May commands run twice? With CLUSTER_REPEAT, commands that were sent but not answered before the
 * connection was lost are sent again. */
enum cluster_repeat { CLUSTER_ONCE, CLUSTER_REPEAT };

/* Runs the requests. Each goes to the node that owns its slot; all are sent before any reply is
 * awaited. (*replies)[i] becomes the reply to request i, which can be an error. These cases are
 * handled here:
 * - MOVED and ASK: the redirection is followed.
 * - LOADING, TRYAGAIN, BUSY, MASTERDOWN, CLUSTERDOWN, and unreachable nodes of a cluster: the
 *   commands are sent again, for up to patience_ms.
 * - A lost connection to a single server: it is opened once more.
 *
 * Requests of one batch can run in any order if they go to different nodes or are redirected.
 *
 * Returns false if requests remained without a reply, or if too few replicas have acknowledged
 * them: their replies are NULL. Such requests may or may not have run. If memory ran out, nothing
 * has run, and *replies is NULL. A signal (sig.h) ends waiting.
 *
 * The replies are valid until the next call. */
bool cluster_run(struct cluster *cl, const struct requests *requests, enum cluster_repeat repeat,
                 struct reply *const **replies, struct err *err);

#endif
