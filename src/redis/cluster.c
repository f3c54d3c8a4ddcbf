/* SPDX-License-Identifier: MIT */
#include "redis/cluster.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sig.h"
#include "redis/dial.h"
#include "redis/messages.h"

enum {
    /* Nodes that a process hears of. Four times the recommended maximum for a cluster: some come
     * and go. */
    MAX_NODES = 4096,
    NO_NODE = UINT16_MAX,
    MAX_HOST = 255, /* a name in DNS */
    MAX_PORT = 65535,
    MAX_REDIRECTS = 5, /* rounds without a pause: two are normal */
    PAUSE_MS = 250,    /* before it is tried again */
};

struct node {
    struct conn_address address;
    char host[MAX_HOST + 1]; /* that of the address, except in the first node */
    struct conn *conn;       /* NULL: none */
    size_t begin, end;       /* the node's part of `order` in this round */
    size_t next;             /* place in `order` of the request whose reply comes next */
    unsigned answered;       /* commands of that request */
    bool waits;              /* its replicas are still to acknowledge this round */
};

enum job_state { PENDING, DONE, LOST };

/* A request being run. */
struct job {
    uint16_t node;
    uint8_t state;
    bool asking; /* send it to `node` once, after ASKING */
};

struct cluster {
    struct cluster_options options;
    struct node nodes[MAX_NODES]; /* the first is at the address that cluster_open was given */
    size_t n_nodes;
    bool is_cluster;        /* or a single server */
    uint16_t owners[SLOTS]; /* NO_NODE, all bits of which are 1: unknown */
    bool is_map_old;
    size_t source; /* the node to ask first for a map */
    struct replies replies;
    struct job *jobs;       /* jobs_room of each */
    struct reply **results; /* of the requests */
    size_t *order;          /* requests by node */
    size_t jobs_room;
    struct conn *conns[MAX_NODES]; /* for conn_wait */
    struct pollfd polls[MAX_NODES];
    struct err trouble; /* the latest error that may be temporary */
    bool hopeless;      /* a node refused, or was refused, for good: conn_open */
};

/* The result of sending all pending requests once. */
struct round {
    size_t pending, lost;
    bool refused;     /* a server refused temporarily */
    bool too_few;     /* replicas have acknowledged */
    bool unreachable; /* a server could not be reached, or its connection was lost */
};

/* ---- nodes */

static void disconnect(struct node *node)
{
    conn_close(node->conn);
    node->conn = NULL;
}

/* Makes sure that the node has a usable connection. */
static bool connect_node(struct cluster *cl, struct node *node, struct err *err)
{
    if (node->conn != NULL && conn_is_stale(node->conn))
        disconnect(node);
    if (node->conn != NULL)
        return true;
    node->conn = conn_open(&node->address, &cl->options.conn, &cl->hopeless, err);
    return node->conn != NULL;
}

/* Finds the node at host:port, which node `teller` has named, or adds it. NO_NODE: it cannot be
 * added. A node that does not know its own address gives an empty host: then uses the host at which
 * it was reached, or 127.0.0.1 for a socket. */
static uint16_t find_node(struct cluster *cl, const struct node *teller, const char *host,
                          size_t len, unsigned port)
{
    if (len == 1 && host[0] == '?') /* a server that does not know its own name */
        return NO_NODE;
    if (len == 0) {
        host = teller->address.host != NULL ? teller->address.host : "127.0.0.1";
        len = strlen(host);
    }
    for (size_t i = 0; i < cl->n_nodes; i++) {
        const struct conn_address *known = &cl->nodes[i].address;
        if (known->host != NULL && known->port == port && strlen(known->host) == len &&
            memcmp(known->host, host, len) == 0)
            return (uint16_t)i;
    }
    if (cl->n_nodes == MAX_NODES || len > MAX_HOST)
        return NO_NODE;
    struct node *node = &cl->nodes[cl->n_nodes];
    memcpy(node->host, host, len); /* all else is 0 */
    node->address = (struct conn_address){.host = node->host, .port = port};
    return (uint16_t)cl->n_nodes++;
}

/* ---- the map of slots */

static bool is_integer(const struct reply *r, int64_t min, int64_t max)
{
    return r->type == REPLY_INTEGER && r->integer >= min && r->integer <= max;
}

/* Parses a node in the answer to CLUSTER SLOTS: host, port and more. NO_NODE: not understood. */
static uint16_t map_node(struct cluster *cl, const struct node *teller, const struct reply *r)
{
    if (r->type != REPLY_ARRAY || r->n < 2 || !is_integer(&r->elements[1], 1, MAX_PORT))
        return NO_NODE;
    const struct reply *host = &r->elements[0];
    unsigned port = (unsigned)r->elements[1].integer;
    if (host->type == REPLY_NIL)
        return find_node(cl, teller, "", 0, port);
    return host->type == REPLY_STRING ? find_node(cl, teller, host->text, host->n, port) : NO_NODE;
}

/* Takes the answer to CLUSTER SLOTS: ranges of slots, each with first, last, master, replicas.
 * Ranges not understood are skipped: commands for their slots go to any node, which redirects. */
static bool take_map(struct cluster *cl, const struct node *teller, const struct reply *map)
{
    if (map->type != REPLY_ARRAY || map->n > SLOTS)
        return false;
    cl->is_cluster = true;
    memset(cl->owners, UCHAR_MAX, sizeof cl->owners);
    for (size_t i = 0; i < map->n; i++) {
        const struct reply *range = &map->elements[i];
        if (range->type != REPLY_ARRAY || range->n < 3 ||
            !is_integer(&range->elements[0], 0, SLOTS - 1) ||
            !is_integer(&range->elements[1], 0, SLOTS - 1))
            continue;
        uint16_t owner = map_node(cl, teller, &range->elements[2]);
        for (int64_t s = range->elements[0].integer; s <= range->elements[1].integer; s++)
            cl->owners[s] = owner;
        for (size_t replica = 3; replica < range->n; replica++)
            map_node(cl, teller, &range->elements[replica]);
    }
    return true;
}

/* Asks one connected node for the map. False: the connection failed. If the answer is a map, it is
 * in use then. */
static bool ask_map(struct cluster *cl, struct node *node, struct err *err)
{
    struct requests rq = {0};
    struct replies rs = {0};
    struct reply *map;
    requests_begin(&rq, 2, "CLUSTER");
    requests_word(&rq, "SLOTS");
    bool ok = conn_exchange(node->conn, &rq, &rs, &map, err);
    if (ok && take_map(cl, node, map))
        cl->is_map_old = false;
    requests_free(&rq);
    reply_free(&rs);
    if (!ok)
        disconnect(node);
    return ok;
}

/* Asks nodes for the map until one gives it; connected nodes first. */
static void refresh_map(struct cluster *cl, uint64_t until)
{
    size_t n = cl->n_nodes, at = cl->source;
    for (size_t i = 0; i < 2 * n && (i < n || dial_now() < until); i++) {
        struct node *node = &cl->nodes[at];
        at = at + 1 < n ? at + 1 : 0;
        struct err err; /* dropped: the error that made the map old is the one to report */
        if ((i < n && node->conn == NULL) || !connect_node(cl, node, &err) ||
            !ask_map(cl, node, &err) || cl->is_map_old)
            continue;
        /* If this map is of no use, the next refresh asks the next node first. */
        cl->source = at;
        return;
    }
}

/* ---- a round: all pending requests are sent once */

/* The node for requests that can go to any node, or whose slot has no known owner. */
static uint16_t any_node(const struct cluster *cl)
{
    for (size_t i = 0; i < cl->n_nodes; i++)
        if (cl->nodes[i].conn != NULL)
            return (uint16_t)i;
    return (uint16_t)cl->source;
}

/* Puts pending requests into `order`, by node. */
static void sort_jobs(struct cluster *cl, const struct requests *rq)
{
    for (size_t i = 0; i < cl->n_nodes; i++)
        cl->nodes[i].begin = cl->nodes[i].end = 0;
    for (size_t i = 0; i < rq->n; i++) {
        struct job *job = &cl->jobs[i];
        const int slot = rq->list[i].slot;
        bool owned = slot >= 0 && cl->owners[slot] != NO_NODE;
        if (!job->asking)
            job->node = owned ? cl->owners[slot] : any_node(cl);
        cl->nodes[job->node].end++;
    }
    size_t at = 0;
    for (size_t i = 0; i < cl->n_nodes; i++) {
        struct node *node = &cl->nodes[i];
        size_t count = node->end;
        node->begin = node->next = node->end = at;
        node->answered = 0;
        node->waits = false;
        at += count;
    }
    for (size_t i = 0; i < rq->n; i++)
        if (cl->jobs[i].state == PENDING)
            cl->order[cl->nodes[cl->jobs[i].node].end++] = i;
}

static void queue_jobs(struct cluster *cl, struct node *node, const struct requests *rq)
{
    static const char ASKING[] = "*1\r\n$6\r\nASKING\r\n";
    for (size_t at = node->begin; at < node->end; at++) {
        size_t i = cl->order[at], len;
        const char *text = requests_text(rq, i, &len);
        if (cl->jobs[i].asking)
            conn_queue(node->conn, ASKING, sizeof ASKING - 1, 1, &cl->replies);
        conn_queue(node->conn, text, len, rq->list[i].n, &cl->replies);
    }
    if (cl->options.replicas == 0)
        return;
    char wait[60];
    int n =
        snprintf(wait, sizeof wait, "WAIT %u %u\r\n", cl->options.replicas, cl->options.wait_ms);
    conn_queue(node->conn, wait, (size_t)n, 1, &cl->replies);
    node->waits = true;
}

/* The node's connection was lost, or could not be opened. Its unanswered requests become pending
 * again if they can be repeated, else lost; so do those that replicas have not acknowledged. */
static void leave_node(struct cluster *cl, struct node *node, bool can_repeat, struct round *round)
{
    if (node->waits)
        node->next = node->begin;
    for (; node->next < node->end; node->next++) {
        size_t i = cl->order[node->next];
        struct job *job = &cl->jobs[i];
        cl->results[i] = NULL;
        job->state = can_repeat ? PENDING : LOST;
        job->asking = false;
        *(can_repeat ? &round->pending : &round->lost) += 1;
    }
    node->waits = false;
    round->unreachable = true;
    cl->is_map_old = true;
    disconnect(node);
}

/* The target node of "MOVED SLOT HOST:PORT" or "ASK ...", or NO_NODE. */
static uint16_t redirection(struct cluster *cl, const struct node *teller, const struct reply *r)
{
    const char *slot = strchr(r->text, ' ');
    const char *host = slot != NULL ? strchr(slot + 1, ' ') : NULL;
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    if (colon == NULL)
        return NO_NODE;
    host++;
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || port < 1 || port > MAX_PORT)
        return NO_NODE;
    return find_node(cl, teller, host, (size_t)(colon - host), (unsigned)port);
}

/* Follows MOVED and ASK. False: the reply is neither, or is not understood. */
static bool redirect(struct cluster *cl, const struct node *node, struct job *job, int slot,
                     const struct reply *r)
{
    bool moved = reply_is_error(r, "MOVED");
    if ((!moved && !reply_is_error(r, "ASK")) || slot < 0)
        return false;
    uint16_t target = redirection(cl, node, r);
    if (target == NO_NODE)
        return false;
    cl->is_cluster = true;
    if (moved) {
        cl->owners[slot] = target;
        cl->is_map_old = true;
        cl->source = (size_t)(node - cl->nodes);
    } else {
        job->node = target;
        job->asking = true;
    }
    return true;
}

/* Keeps the reason why the node cannot be used, from its reply. */
static void blame(struct cluster *cl, const struct node *node, const struct reply *r)
{
    char name[CONN_NAME], reason[REPLY_REASON];
    conn_name(&node->address, name);
    fail(&cl->trouble, "cannot use '%s': %s", name, reply_reason(r, reason));
}

/* Does this reply require that the request be sent again? */
static bool is_again(struct cluster *cl, const struct node *node, struct job *job, int slot,
                     const struct reply *r, struct round *round)
{
    if (redirect(cl, node, job, slot, r))
        return true;
    /* A temporary refusal: the server has not run the command. */
    bool passes = reply_is_error(r, "LOADING") || reply_is_error(r, "TRYAGAIN") ||
                  reply_is_error(r, "BUSY") || reply_is_error(r, "MASTERDOWN") ||
                  reply_is_error(r, "CLUSTERDOWN");
    if (!passes)
        return false;
    blame(cl, node, r);
    round->refused = true;
    cl->is_map_old = true;
    return true;
}

/* Takes the reply to the node's next command. */
static void take_reply(struct cluster *cl, struct node *node, const struct requests *rq,
                       struct reply *r, struct round *round)
{
    size_t i = cl->order[node->next];
    struct reply **result = &cl->results[i];
    struct job *job = &cl->jobs[i];
    if (job->asking) { /* the reply to ASKING */
        job->asking = false;
        return;
    }
    if (*result == NULL || (*result)->type != REPLY_ERROR)
        *result = r;
    if (++node->answered < rq->list[i].n)
        return;
    node->answered = 0;
    node->next++;
    if (is_again(cl, node, job, rq->list[i].slot, *result, round)) {
        *result = NULL;
        round->pending++;
    } else {
        job->state = DONE;
    }
}

/* Takes the reply to WAIT: the number of replicas that have acknowledged. If they are too few, what
 * the node has done in this round counts as lost. */
static void take_wait(struct cluster *cl, struct node *node, const struct reply *r,
                      struct round *round)
{
    node->waits = false;
    if (r->type == REPLY_INTEGER && r->integer >= cl->options.replicas)
        return;
    for (size_t at = node->begin; at < node->end; at++) {
        size_t i = cl->order[at];
        if (cl->jobs[i].state != DONE)
            continue;
        cl->jobs[i].state = LOST;
        cl->results[i] = NULL;
        round->too_few = true;
    }
    if (r->type != REPLY_INTEGER) {
        blame(cl, node, r);
        return;
    }
    char name[CONN_NAME];
    conn_name(&node->address, name);
    fail(&cl->trouble,
         "only %lld of %u replicas of '%s' have acknowledged what was written within %u s",
         (long long)r->integer, cl->options.replicas, name, cl->options.wait_ms / 1000);
}

static void take_replies(struct cluster *cl, struct node *node, const struct requests *rq,
                         enum cluster_repeat repeat, struct round *round)
{
    while (node->next < node->end || node->waits) {
        struct reply *r;
        switch (conn_next(node->conn, &r)) {
        case CONN_REPLY:
            if (node->next < node->end)
                take_reply(cl, node, rq, r, round);
            else
                take_wait(cl, node, r, round);
            break;
        case CONN_NOTHING:
            return;
        case CONN_FAILED:
            fail(&cl->trouble, "%s", conn_trouble(node->conn));
            leave_node(cl, node, repeat == CLUSTER_REPEAT, round);
            return;
        }
    }
}

static struct round run_round(struct cluster *cl, const struct requests *rq,
                              enum cluster_repeat repeat)
{
    struct round round = {0};
    /* Redirections append nodes; these take part from the next round on. */
    size_t n_nodes = cl->n_nodes, n_busy;
    sort_jobs(cl, rq);
    for (size_t i = 0; i < n_nodes; i++) {
        struct node *node = &cl->nodes[i];
        if (node->begin == node->end)
            continue;
        if (connect_node(cl, node, &cl->trouble))
            queue_jobs(cl, node, rq);
        else
            leave_node(cl, node, true, &round);
    }
    do {
        n_busy = 0;
        for (size_t i = 0; i < n_nodes; i++) {
            struct node *node = &cl->nodes[i];
            take_replies(cl, node, rq, repeat, &round);
            if (node->next < node->end || node->waits)
                cl->conns[n_busy++] = node->conn;
        }
        conn_wait(cl->conns, n_busy, cl->polls);
    } while (n_busy > 0);
    return round;
}

/* ---- a call of cluster_run: rounds until all requests are answered */

static bool get_jobs(struct cluster *cl, size_t n)
{
    if (n > cl->jobs_room) {
        free(cl->jobs);
        free(cl->results);
        free(cl->order);
        cl->jobs = malloc(n * sizeof *cl->jobs);
        cl->results = malloc(n * sizeof(struct reply *));
        cl->order = malloc(n * sizeof *cl->order);
        bool ok = cl->jobs != NULL && cl->results != NULL && cl->order != NULL;
        cl->jobs_room = ok ? n : 0;
    }
    for (size_t i = 0; i < n && n <= cl->jobs_room; i++) {
        cl->jobs[i] = (struct job){.state = PENDING};
        cl->results[i] = NULL;
    }
    return n <= cl->jobs_room;
}

/* The state of a call of cluster_run. */
struct course {
    unsigned redirects;
    uint64_t until; /* when patience ends; 0: no request was left pending yet */
    bool reopened;  /* the connection to a single server was opened once more */
};

/* Prepares the next round, after one that left requests pending. False: give up. */
static bool prepare_next(struct cluster *cl, struct course *course, const struct round *round)
{
    if (cl->hopeless)
        return false;
    if (course->until == 0)
        course->until = dial_now() + cl->options.patience_ms;
    if (cl->is_cluster && cl->is_map_old)
        refresh_map(cl, course->until);
    if (!round->refused && !round->unreachable && ++course->redirects <= MAX_REDIRECTS)
        return true;
    bool reopens = !cl->is_cluster && round->unreachable;
    if (sig_caught() || (reopens ? course->reopened : dial_now() >= course->until))
        return false;
    course->reopened |= reopens;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL); /* a signal ends it */
    return true;
}

bool cluster_run(struct cluster *cl, const struct requests *requests, enum cluster_repeat repeat,
                 struct reply *const **replies, struct err *err)
{
    *replies = NULL;
    reply_free(&cl->replies);
    if (requests->no_memory || !get_jobs(cl, requests->n))
        return fail(err, "cannot send commands: %s", strerror(ENOMEM));
    *replies = cl->results;
    fail(&cl->trouble, "the cluster redirects in a circle");

    struct course course = {0};
    for (;;) {
        struct round round = run_round(cl, requests, repeat);
        if (round.too_few)
            return fail(err, "%s", cl->trouble.text);
        if (round.lost > 0)
            return fail(err, "%s; unanswered commands: %zu, which may have been carried out or not",
                        cl->trouble.text, round.lost);
        if (round.pending == 0)
            return true;
        if (!prepare_next(cl, &course, &round))
            return fail(err, "%s", cl->trouble.text);
    }
}

struct cluster *cluster_open(const struct uri *address, const struct cluster_options *options,
                             struct err *err)
{
    struct cluster *cl = calloc(1, sizeof *cl); /* most of it is never touched */
    if (cl == NULL) {
        fail_errno(err, "cannot connect to a server");
        return NULL;
    }
    cl->options = *options;
    cl->options.conn.user = address->user;
    cl->options.conn.db = address->db;
    cl->n_nodes = 1;
    cl->nodes[0].address = (struct conn_address){address->host, address->port, address->socket};
    memset(cl->owners, UCHAR_MAX, sizeof cl->owners);
    if (connect_node(cl, &cl->nodes[0], err) && ask_map(cl, &cl->nodes[0], err))
        return cl;
    cluster_close(cl);
    return NULL;
}

void cluster_close(struct cluster *cl)
{
    if (cl == NULL)
        return;
    for (size_t i = 0; i < cl->n_nodes; i++)
        disconnect(&cl->nodes[i]);
    reply_free(&cl->replies);
    free(cl->jobs);
    free(cl->results);
    free(cl->order);
    free(cl);
}
