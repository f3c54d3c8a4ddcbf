/* SPDX-License-Identifier: MIT
 * A connection to one Redis server. Commands are queued, then sent while replies are read, on any
 * number of connections at once, encrypted or not. hiredis parses replies.
 *
 *     struct conn *c = conn_open(&address, &options, &err);           // NULL: see err
 *     conn_exchange(c, &requests, &replies, &err);                    // one server, all at once
 *     conn_close(c);
 *
 *     conn_queue(c, bytes, len, 1, &replies);                         // several: as cluster.c does
 *     conn_wait(conns, n, room);                                      // until data or a failure
 *     while ((got = conn_next(c, &reply)) == CONN_REPLY) ...
 *
 * The time limit of a reply runs from the end of the one before it, or from the first command that
 * was queued. A large one has more time: what it takes at CONN_LEAST_RATE. That a limit has passed
 * is noticed up to a second late. After any failure a connection is unusable: close it. Not for two
 * threads at once.
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "redis/messages.h"

struct conn;

struct conn_address {
    const char *host; /* NULL: the socket */
    unsigned port;
    const char *socket;
};

enum {
    CONN_CONNECT_MS = 5000, /* usual time limits, in milliseconds */
    CONN_REPLY_MS = 30000,
    CONN_LEAST_RATE =
        64 << 10, /* bytes a second, either way: a slow line, but not one that drips */
};

struct tls_context;

/* The strings must outlive the connections. */
struct conn_options {
    const char *user;     /* NULL: the server's default user */
    const char *password; /* NULL: none */
    unsigned db;
    const struct tls_context *tls; /* NULL: not encrypted */
    unsigned connect_ms;           /* also for the handshake of TLS */
    unsigned reply_ms;
};

/* The name for messages: "host:port", "[::1]:port" or the socket's path. Truncated if longer. */
enum { CONN_NAME = 300 };
void conn_name(const struct conn_address *address, char name[CONN_NAME]);

/* The version, such as "0.14.1". */
const char *conn_hiredis_version(void);

/* Connects, authenticates, and selects the database. NULL: see err; *refused: a new attempt would
 * fail, too, since a certificate, a name or a version of TLS does not fit. */
struct conn *conn_open(const struct conn_address *address, const struct conn_options *options,
                       bool *refused, struct err *err);
void conn_close(struct conn *c); /* or NULL */

/* Copies the bytes of n commands into the send queue. The replies are stored in *into, which must
 * stay valid until all have been taken. conn_next reports failures. */
void conn_queue(struct conn *c, const char *bytes, size_t len, size_t n, struct replies *into);

enum conn_got {
    CONN_REPLY,
    CONN_NOTHING, /* no reply yet */
    CONN_FAILED,  /* see conn_trouble */
};

/* Takes the next reply, if it has arrived. Only while one is expected. */
enum conn_got conn_next(struct conn *c, struct reply **reply);

/* Sends and receives on n connections, all of which expect replies, until one of them has received
 * data or failed. `room` is working memory for n `struct pollfd`. */
struct pollfd;
void conn_wait(struct conn *const *conns, size_t n, struct pollfd *room);

/* Sends commands, without blocks, and reads the replies. out[i] becomes the reply to command i; its
 * memory is in *replies. */
bool conn_exchange(struct conn *c, const struct requests *requests, struct replies *replies,
                   struct reply **out, struct err *err);

/* Why the connection failed: a sentence that names the server. */
const char *conn_trouble(const struct conn *c);

/* Is the connection unusable, for example because the server closed it when idle? Costs a system
 * call. */
bool conn_is_stale(const struct conn *c);

#endif
