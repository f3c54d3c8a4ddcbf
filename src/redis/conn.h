/*
 * A connection to one Redis server. Commands are queued, then sent while replies are read, on any
 * number of connections at once. hiredis connects and parses; without it (SEEN_HIREDIS undefined)
 * conn_open always fails, and says what is missing.
 *
 *     struct conn *c = conn_open(&address, &options, &err);           // NULL: see err
 *     conn_exchange(c, &requests, &replies, &err);                    // one server, all at once
 *     conn_close(c);
 *
 *     conn_queue(c, bytes, len, 1, &replies);                         // several: as cluster.c does
 *     conn_wait(conns, n);                                            // until one has got on
 *     while ((got = conn_next(c, &reply)) == CONN_REPLY) ...
 *
 * A time-out runs from the last byte that was sent or received. A connection on which anything went
 * wrong is of no use any more: close it. Not for two threads at once.
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "redis/requests.h"
#include "redis/reply.h"

struct conn;

struct conn_address {
    const char *host; /* NULL: the socket */
    unsigned port;
    const char *socket;
};

enum { CONN_CONNECT_MS = 5000, CONN_REPLY_MS = 30000 }; /* usual time-outs, in milliseconds */

/* The strings must outlive the connections. */
struct conn_options {
    const char *user;     /* NULL: the server's default user */
    const char *password; /* NULL: none */
    unsigned db;
    unsigned connect_ms, reply_ms;
};

/* Longer strings are cut off. "host:port", "[::1]:port" or the socket's path. */
enum { CONN_NAME = 300 };
void conn_name(const struct conn_address *address, char name[CONN_NAME]);

/* "0.14.1", or NULL in a program without it. */
const char *conn_hiredis_version(void);

/* Connects, gives user and password, and selects the database. */
struct conn *conn_open(const struct conn_address *address, const struct conn_options *options,
                       struct err *err);
void conn_close(struct conn *c); /* or NULL */

/* Takes the bytes of commands to which n replies are expected. The replies go into *into, which
 * must stay until all have been taken. Failure is found by conn_next. */
void conn_queue(struct conn *c, const char *bytes, size_t len, size_t n, struct replies *into);

enum conn_got {
    CONN_REPLY,
    CONN_NOTHING, /* yet, or all have been taken */
    CONN_FAILED,  /* see conn_trouble */
};

/* The next reply, if it has come. */
enum conn_got conn_next(struct conn *c, struct reply **reply);

/* Replies that are still to be taken. */
size_t conn_expected(const struct conn *c);

/* Sends and receives, on those of n connections on which replies are expected, until one of them
 * has received something or failed. Room is needed for n `struct pollfd`. */
struct pollfd;
void conn_wait(struct conn *const *conns, size_t n, struct pollfd *room);

/* Sends commands and reads the replies: *replies gets those, out[i] is that to command i. */
bool conn_exchange(struct conn *c, const struct requests *requests, struct replies *replies,
                   struct reply **out, struct err *err);

/* Why it failed: a sentence that names the server. */
const char *conn_trouble(const struct conn *c);

/* Is it certain that the server received nothing of what was queued after the last reply? */
bool conn_unsent(const struct conn *c);

/* Has the server closed it while nothing was asked? Costs a system call. */
bool conn_is_stale(const struct conn *c);

/* Milliseconds of a clock that never steps. */
uint64_t conn_now(void);

#endif
