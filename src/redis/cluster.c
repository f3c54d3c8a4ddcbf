#include "redis/cluster.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sig.h"
#include "redis/slot.h"

enum {
    MAX_NODES = 4096,  /* four times as many as a cluster should have at most */
    NO_NODE = UINT16_MAX,
    MAX_HOST = 255,    /* a name in DNS */
    MAX_PORT = 65535,
    MAX_REDIRECTS = 5, /* rounds without a pause: two are normal */
    FIRST_PAUSE_MS = 25,
    LAST_PAUSE_MS = 1000,
    RECONNECT_PAUSE_MS = 250, /* before a single server's connection is opened once more */
};

struct node {
    char *host; /* NULL: the address that was given */
    unsigned port;
    bool is_master;
    struct conn *conn; /* NULL: none */
    size_t begin, end; /* the part of `order` that is its round's */
    size_t next;       /* the command in `order` whose reply comes next */
    size_t block;      /* the first command of its block */
    bool again;        /* the block must be sent again: replies to it have said so */
    bool has_answered; /* commands, since cluster_wait was last called */
};

enum job_state { PENDING, DONE, LOST };

/* A command on its way. A block's are always in the same state. */
struct job {
    uint16_t node;
    uint8_t state;
    bool asking; /* a block's first: go to that node once, with ASKING before it */
};

struct cluster {
    struct cluster_options options;
    struct conn_address address;
    struct node *nodes; /* the first is the address that was given */
    size_t n_nodes;
    uint16_t *owners; /* of SLOTS slots, NO_NODE for unknown; NULL: it is no cluster */
    bool is_map_old;
    size_t source; /* the node to be asked first for a map */
    struct replies replies, map_replies;
    struct job *jobs; /* jobs_room of each */
    size_t *order;    /* commands by node */
    size_t jobs_room;
    struct conn **conns; /* for conn_wait, MAX_NODES of each */
    struct pollfd *polls;
    struct err trouble;  /* the latest that may pass */
};

/* What came of sending all pending commands once. */
struct round {
    size_t pending, lost;
    bool waits;       /* a server refused for a reason that passes */
    bool unreachable; /* a server could not be reached, or went away */
};

/* ---- nodes */

static struct conn_address node_address(const struct cluster *cl, const struct node *node)
{
    if (node->host == NULL)
        return cl->address;
    return (struct conn_address){.host = node->host, .port = node->port};
}

static void node_name(const struct cluster *cl, const struct node *node, char *name)
{
    struct conn_address address = node_address(cl, node);
    conn_name(&address, name);
}

static void disconnect(struct node *node)
{
    conn_close(node->conn);
    node->conn = NULL;
}

/* Sees to a connection that can be used. */
static bool connect_node(struct cluster *cl, struct node *node, struct err *err)
{
    if (node->conn != NULL && conn_is_stale(node->conn))
        disconnect(node);
    if (node->conn != NULL)
        return true;
    struct conn_address address = node_address(cl, node);
    node->conn = conn_open(&address, &cl->options.conn, err);
    return node->conn != NULL;
}

/* The node at host:port, a new one if it is not known; NO_NODE if there is no room for it. */
static uint16_t find_node(struct cluster *cl, const char *host, size_t len, unsigned port)
{
    for (size_t i = 0; i < cl->n_nodes; i++) {
        struct conn_address known = node_address(cl, &cl->nodes[i]);
        if (known.host != NULL && known.port == port && strlen(known.host) == len &&
            memcmp(known.host, host, len) == 0)
            return (uint16_t)i;
    }
    char *copy = cl->n_nodes < MAX_NODES && len <= MAX_HOST ? strndup(host, len) : NULL;
    if (copy == NULL)
        return NO_NODE;
    cl->nodes[cl->n_nodes] = (struct node){.host = copy, .port = port};
    return (uint16_t)cl->n_nodes++;
}

/* The same for what node `teller` told. It calls itself by an empty name if it does not know how it
 * is reached: it has been reached, or is on this machine. */
static uint16_t told_node(struct cluster *cl, const struct node *teller, const char *host,
                          size_t len, unsigned port)
{
    struct conn_address address = node_address(cl, teller);
    const char *self = address.host != NULL ? address.host : "127.0.0.1";
    return len > 0 ? find_node(cl, host, len, port) : find_node(cl, self, strlen(self), port);
}

/* Nodes come and go in the lifetime of a process: forgets them all before there are too many. */
static void forget_nodes(struct cluster *cl)
{
    while (cl->n_nodes > 1) {
        struct node *node = &cl->nodes[--cl->n_nodes];
        disconnect(node);
        free(node->host);
    }
    for (size_t i = 0; cl->owners != NULL && i < SLOTS; i++)
        cl->owners[i] = NO_NODE;
    cl->source = 0;
}

/* ---- the map of slots */

/* The owners of all slots, unknown at first; false: no memory. */
static bool be_cluster(struct cluster *cl)
{
    if (cl->owners != NULL)
        return true;
    cl->owners = malloc(SLOTS * sizeof *cl->owners);
    for (size_t i = 0; cl->owners != NULL && i < SLOTS; i++)
        cl->owners[i] = NO_NODE;
    return cl->owners != NULL;
}

static bool is_integer(const struct reply *r, int64_t min, int64_t max)
{
    return r->type == REPLY_INTEGER && r->integer >= min && r->integer <= max;
}

/* A node in the answer to CLUSTER SLOTS: host, port and more. NO_NODE if it is not understood. */
static uint16_t map_node(struct cluster *cl, const struct node *teller, const struct reply *r)
{
    if (r->type != REPLY_ARRAY || r->n < 2 || !is_integer(&r->elements[1], 1, MAX_PORT))
        return NO_NODE;
    const struct reply *host = &r->elements[0];
    unsigned port = (unsigned)r->elements[1].integer;
    if (host->type == REPLY_NIL)
        return told_node(cl, teller, "", 0, port);
    return host->type == REPLY_STRING ? told_node(cl, teller, host->text, host->n, port) : NO_NODE;
}

/* Takes the answer to CLUSTER SLOTS: ranges of slots, each first, last, master, replicas. What is
 * not understood is left out: its slots are asked about where any others are. */
static bool take_map(struct cluster *cl, const struct node *teller, const struct reply *map)
{
    if (map->type != REPLY_ARRAY || !be_cluster(cl))
        return false;
    for (size_t i = 0; i < SLOTS; i++)
        cl->owners[i] = NO_NODE;
    for (size_t i = 0; i < cl->n_nodes; i++)
        cl->nodes[i].is_master = false;
    for (size_t i = 0; i < map->n; i++) {
        const struct reply *range = &map->elements[i];
        if (range->type != REPLY_ARRAY || range->n < 3 ||
            !is_integer(&range->elements[0], 0, SLOTS - 1) ||
            !is_integer(&range->elements[1], 0, SLOTS - 1))
            continue;
        uint16_t owner = map_node(cl, teller, &range->elements[2]);
        if (owner == NO_NODE)
            continue;
        cl->nodes[owner].is_master = true;
        for (int64_t s = range->elements[0].integer; s <= range->elements[1].integer; s++)
            cl->owners[s] = owner;
        for (size_t replica = 3; replica < range->n; replica++)
            map_node(cl, teller, &range->elements[replica]);
    }
    return true;
}

/* Asks one node, to which there is a connection, for the map. False with an error: the connection
 * failed; with none: the answer is no map. */
static bool ask_map(struct cluster *cl, struct node *node, bool *is_map, struct err *err)
{
    struct requests rq = {0};
    struct reply *map;
    requests_begin(&rq, 2, "CLUSTER");
    requests_word(&rq, "SLOTS");
    reply_clear(&cl->map_replies);
    bool ok = conn_exchange(node->conn, &rq, &cl->map_replies, &map, err);
    requests_free(&rq);
    *is_map = ok && take_map(cl, node, map);
    if (!ok)
        disconnect(node);
    return ok;
}

static size_t first_source(const struct cluster *cl)
{
    return cl->source < cl->n_nodes ? cl->source : 0;
}

/* Asks nodes until one has told its map: first those to which there is a connection. */
static void refresh_map(struct cluster *cl, uint64_t until)
{
    size_t n = cl->n_nodes, at = first_source(cl);
    for (size_t i = 0; i < 2 * n && (i < n || conn_now() < until); i++) {
        struct node *node = &cl->nodes[at];
        at = at + 1 < n ? at + 1 : 0;
        struct err err; /* the trouble that made the map old is the one to tell */
        bool is_map;
        if ((i < n && node->conn == NULL) || !connect_node(cl, node, &err) ||
            !ask_map(cl, node, &is_map, &err) || !is_map)
            continue;
        /* If what it told is of no use, another is asked. */
        cl->source = at;
        cl->is_map_old = false;
        return;
    }
}

/* ---- a round: all pending commands are sent once */

/* Where commands go that can go anywhere, or whose slot's owner is unknown. */
static uint16_t any_node(const struct cluster *cl)
{
    for (size_t i = 0; i < cl->n_nodes; i++)
        if (cl->nodes[i].conn != NULL)
            return (uint16_t)i;
    return (uint16_t)first_source(cl);
}

static uint16_t owner_of(const struct cluster *cl, int slot)
{
    uint16_t owner = cl->owners != NULL && slot >= 0 ? cl->owners[slot] : NO_NODE;
    return owner != NO_NODE ? owner : any_node(cl);
}

/* Puts pending commands into `order`, by node. */
static void sort_jobs(struct cluster *cl, const struct requests *rq)
{
    for (size_t i = 0; i < cl->n_nodes; i++)
        cl->nodes[i].begin = cl->nodes[i].end = 0;
    for (size_t i = 0; i < rq->n; i++) {
        struct job *job = &cl->jobs[i];
        if (job->state != PENDING)
            continue;
        if (rq->list[i].joined)
            job->node = cl->jobs[i - 1].node;
        else if (!job->asking)
            job->node = owner_of(cl, rq->list[i].slot);
        cl->nodes[job->node].end++;
    }
    size_t at = 0;
    for (size_t i = 0; i < cl->n_nodes; i++) {
        struct node *node = &cl->nodes[i];
        size_t count = node->end;
        node->begin = node->block = node->next = node->end = at;
        node->again = false;
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
        conn_queue(node->conn, text, len, 1, &cl->replies);
    }
}

/* The node has gone, or was not there: what becomes of those of its blocks that are unanswered? */
static void leave_node(struct cluster *cl, struct node *node, bool can_repeat,
                       struct reply **replies, struct round *round)
{
    for (node->next = node->block; node->next < node->end; node->next++) {
        size_t i = cl->order[node->next];
        struct job *job = &cl->jobs[i];
        replies[i] = NULL;
        job->state = can_repeat ? PENDING : LOST;
        job->asking = false;
        *(can_repeat ? &round->pending : &round->lost) += 1;
    }
    round->unreachable = true;
    cl->is_map_old = true;
    disconnect(node);
}

/* "MOVED SLOT HOST:PORT" or "ASK ...": the node that is meant, or NO_NODE. */
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
    return told_node(cl, teller, host, (size_t)(colon - host), (unsigned)port);
}

/* Follows MOVED and ASK. False: the reply is neither, or is not understood. */
static bool redirect(struct cluster *cl, const struct node *node, struct job *job, int slot,
                     const struct reply *r)
{
    bool moved = reply_is_error(r, "MOVED");
    if ((!moved && !reply_is_error(r, "ASK")) || slot < 0 || !be_cluster(cl))
        return false;
    uint16_t target = redirection(cl, node, r);
    if (target == NO_NODE)
        return false;
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

/* A refusal that will pass, before which nothing was done. */
static bool passes(const struct reply *r)
{
    return reply_is_error(r, "LOADING") || reply_is_error(r, "TRYAGAIN") ||
           reply_is_error(r, "BUSY") || reply_is_error(r, "MASTERDOWN") ||
           reply_is_error(r, "CLUSTERDOWN");
}

/* Must the block be sent again, for this reply? */
static bool is_again(struct cluster *cl, const struct node *node, struct job *first, int slot,
                     const struct reply *r, struct round *round)
{
    if (redirect(cl, node, first, slot, r))
        return true;
    if (!passes(r))
        return false;
    char name[CONN_NAME], reason[REPLY_REASON];
    node_name(cl, node, name);
    fail(&cl->trouble, "cannot use '%s': %s", name, reply_reason(r, reason));
    round->waits = true;
    cl->is_map_old = true;
    return true;
}

/* All commands of the node's block have been answered. */
static void end_block(struct cluster *cl, struct node *node, struct reply **replies,
                      struct round *round)
{
    for (; node->block < node->next; node->block++) {
        size_t i = cl->order[node->block];
        if (node->again) {
            round->pending++;
            replies[i] = NULL;
        } else {
            cl->jobs[i].state = DONE;
            node->has_answered = true;
        }
    }
    node->again = false;
}

/* The reply to the node's next command has come. The first one that is no answer decides what
 * becomes of its block: those behind it only tell that the whole was given up. */
static void take_reply(struct cluster *cl, struct node *node, const struct requests *rq,
                       struct reply *r, struct reply **replies, struct round *round)
{
    size_t i = cl->order[node->next];
    struct job *first = &cl->jobs[cl->order[node->block]];
    if (first->asking && !node->again) { /* the reply to ASKING */
        first->asking = false;
        return;
    }
    node->next++;
    replies[i] = r;
    if (!node->again)
        node->again = is_again(cl, node, first, rq->list[i].slot, r, round);
    if (node->next == node->end || !rq->list[cl->order[node->next]].joined)
        end_block(cl, node, replies, round);
}

/* Takes what has come from a node. */
static void take_replies(struct cluster *cl, struct node *node, const struct requests *rq,
                         enum cluster_repeat repeat, struct reply **replies, struct round *round)
{
    while (node->next < node->end) {
        struct reply *r;
        switch (conn_next(node->conn, &r)) {
        case CONN_REPLY:
            take_reply(cl, node, rq, r, replies, round);
            break;
        case CONN_NOTHING:
            return;
        case CONN_FAILED:
            fail(&cl->trouble, "%s", conn_trouble(node->conn));
            leave_node(cl, node, repeat == CLUSTER_REPEAT || conn_unsent(node->conn), replies,
                       round);
            return;
        }
    }
}

static struct round run_round(struct cluster *cl, const struct requests *rq,
                              enum cluster_repeat repeat, struct reply **replies)
{
    struct round round = {0};
    /* Redirections add nodes behind these. */
    size_t n_nodes = cl->n_nodes, n_busy;
    sort_jobs(cl, rq);
    for (size_t i = 0; i < n_nodes; i++) {
        struct node *node = &cl->nodes[i];
        if (node->begin == node->end)
            continue;
        if (connect_node(cl, node, &cl->trouble))
            queue_jobs(cl, node, rq);
        else
            leave_node(cl, node, true, replies, &round);
    }
    do {
        n_busy = 0;
        for (size_t i = 0; i < n_nodes; i++) {
            struct node *node = &cl->nodes[i];
            take_replies(cl, node, rq, repeat, replies, &round);
            if (node->next < node->end)
                cl->conns[n_busy++] = node->conn;
        }
        conn_wait(cl->conns, n_busy, cl->polls);
    } while (n_busy > 0);
    return round;
}

/* ---- the whole */

static bool get_jobs(struct cluster *cl, size_t n)
{
    if (n > cl->jobs_room) {
        free(cl->jobs);
        free(cl->order);
        cl->jobs = malloc(n * sizeof *cl->jobs);
        cl->order = malloc(n * sizeof *cl->order);
        cl->jobs_room = cl->jobs != NULL && cl->order != NULL ? n : 0;
    }
    for (size_t i = 0; i < n && n <= cl->jobs_room; i++)
        cl->jobs[i] = (struct job){.state = PENDING};
    return n <= cl->jobs_room;
}

/* Ends early on a signal. */
static void pause_ms(uint64_t ms)
{
    nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
}

/* The course of a call of cluster_run. */
struct course {
    unsigned redirects;
    uint64_t until; /* when patience ends; 0: there was no trouble yet */
    uint64_t pause;
    bool reopened; /* the connection to a single server */
};

/* After a round that left commands pending: prepares the next. False: there is no use in one. */
static bool prepare_next(struct cluster *cl, struct course *course, const struct round *round)
{
    uint64_t now = conn_now();
    if (course->until == 0)
        *course = (struct course){.redirects = course->redirects,
                                  .until = now + cl->options.patience_ms,
                                  .pause = FIRST_PAUSE_MS};
    if (cl->owners != NULL && cl->is_map_old)
        refresh_map(cl, course->until);
    if (!round->waits && !round->unreachable && ++course->redirects <= MAX_REDIRECTS)
        return true;
    if (sig_caught())
        return false;
    if (cl->owners == NULL && round->unreachable) {
        if (course->reopened)
            return false;
        course->reopened = true;
        pause_ms(RECONNECT_PAUSE_MS);
        return true;
    }
    now = conn_now();
    if (now >= course->until)
        return false;
    pause_ms(course->pause < course->until - now ? course->pause : course->until - now);
    course->pause = course->pause < LAST_PAUSE_MS / 2 ? 2 * course->pause : LAST_PAUSE_MS;
    return true;
}

bool cluster_run(struct cluster *cl, const struct requests *requests, enum cluster_repeat repeat,
                 struct reply **replies, struct err *err)
{
    size_t n = requests->n;
    for (size_t i = 0; i < n; i++)
        replies[i] = NULL;
    reply_clear(&cl->replies);
    if (requests->no_memory || !get_jobs(cl, n))
        return fail(err, "cannot send commands: %s", strerror(ENOMEM));
    if (cl->n_nodes > MAX_NODES / 2)
        forget_nodes(cl);
    fail(&cl->trouble, "the cluster redirects in a circle");

    struct course course = {0};
    for (;;) {
        struct round round = run_round(cl, requests, repeat, replies);
        if (round.lost > 0)
            return fail(err,
                        "%s; unanswered commands: %zu, which may have been carried out or not",
                        cl->trouble.text, round.lost);
        if (round.pending == 0)
            return true;
        if (!prepare_next(cl, &course, &round))
            return fail(err, "%s", cl->trouble.text);
    }
}

/* ---- replicas */

/* Takes a node's reply to WAIT: how many replicas have it. */
static bool take_count(const struct cluster *cl, const struct node *node, const struct reply *r,
                       unsigned replicas, unsigned ms, struct err *err)
{
    char name[CONN_NAME], reason[REPLY_REASON];
    node_name(cl, node, name);
    if (r->type != REPLY_INTEGER)
        return fail(err, "cannot use '%s': %s", name, reply_reason(r, reason));
    return r->integer >= replicas ||
           fail(err, "only %lld of %u replicas of '%s' have acknowledged what was written within "
                     "%u s", (long long)r->integer, replicas, name, ms / 1000);
}

static bool fail_unknown(const struct cluster *cl, const struct node *node, struct err *err)
{
    char name[CONN_NAME];
    node_name(cl, node, name);
    return fail(err, "the connection to '%s' was lost before its replicas had acknowledged what "
                     "was written", name);
}

/* Asks the nodes; the first trouble is told. */
static bool ask_replicas(struct cluster *cl, const struct requests *rq, struct err *err)
{
    bool ok = true;
    reply_clear(&cl->map_replies);
    for (size_t i = 0; i < cl->n_nodes; i++) {
        struct node *node = &cl->nodes[i];
        if (node->has_answered && node->conn != NULL)
            conn_queue(node->conn, rq->data, rq->len, 1, &cl->map_replies);
        else if (node->has_answered && ok)
            ok = fail_unknown(cl, node, err);
        node->has_answered = false;
    }
    return ok;
}

bool cluster_wait(struct cluster *cl, unsigned replicas, unsigned ms, struct err *err)
{
    struct requests rq = {0};
    requests_begin(&rq, 3, "WAIT");
    requests_number(&rq, replicas);
    requests_number(&rq, ms);
    if (rq.no_memory) {
        requests_free(&rq);
        return fail(err, "cannot send commands: %s", strerror(ENOMEM));
    }
    bool ok = ask_replicas(cl, &rq, err);
    requests_free(&rq);
    for (size_t n_busy = 1; n_busy > 0; conn_wait(cl->conns, n_busy, cl->polls)) {
        n_busy = 0;
        for (size_t i = 0; i < cl->n_nodes; i++) {
            struct node *node = &cl->nodes[i];
            struct reply *r = NULL;
            if (node->conn == NULL || conn_expected(node->conn) == 0)
                continue;
            switch (conn_next(node->conn, &r)) {
            case CONN_REPLY:
                ok = ok && take_count(cl, node, r, replicas, ms, err);
                break;
            case CONN_NOTHING:
                cl->conns[n_busy++] = node->conn;
                break;
            case CONN_FAILED:
                ok = ok && fail_unknown(cl, node, err);
                disconnect(node);
                break;
            }
        }
    }
    return ok;
}

unsigned cluster_masters(const struct cluster *cl)
{
    unsigned n = 0;
    for (size_t i = 0; i < cl->n_nodes; i++)
        n += cl->nodes[i].is_master;
    return n;
}

static void free_memory(struct cluster *cl)
{
    reply_free(&cl->replies);
    reply_free(&cl->map_replies);
    free(cl->nodes);
    free(cl->owners);
    free(cl->jobs);
    free(cl->order);
    free(cl->conns);
    free(cl->polls);
    free(cl);
}

/* Without connections; NULL: no memory. */
static struct cluster *new_cluster(const struct uri *address,
                                   const struct cluster_options *options)
{
    struct cluster *cl = calloc(1, sizeof *cl);
    if (cl == NULL)
        return NULL;
    cl->options = *options;
    cl->options.conn.user = address->user;
    cl->options.conn.db = address->db;
    cl->address = (struct conn_address){address->host, address->port, address->socket};
    cl->nodes = calloc(MAX_NODES, sizeof *cl->nodes); /* most of it is never touched */
    cl->conns = malloc(MAX_NODES * sizeof(struct conn *));
    cl->polls = malloc(MAX_NODES * sizeof *cl->polls);
    if (cl->nodes == NULL || cl->conns == NULL || cl->polls == NULL) {
        free_memory(cl);
        return NULL;
    }
    cl->n_nodes = 1;
    return cl;
}

struct cluster *cluster_open(const struct uri *address, const struct cluster_options *options,
                             struct err *err)
{
    struct cluster *cl = new_cluster(address, options);
    bool is_map;
    if (cl == NULL) {
        fail_errno(err, "cannot connect to a server");
        return NULL;
    }
    cl->nodes[0].conn = conn_open(&cl->address, &cl->options.conn, err);
    if (cl->nodes[0].conn == NULL || !ask_map(cl, &cl->nodes[0], &is_map, err)) {
        cluster_close(cl);
        return NULL;
    }
    return cl;
}

void cluster_close(struct cluster *cl)
{
    if (cl == NULL)
        return;
    forget_nodes(cl);
    disconnect(&cl->nodes[0]);
    free_memory(cl);
}
