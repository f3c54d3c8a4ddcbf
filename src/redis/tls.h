/* SPDX-License-Identifier: MIT
 * TLS 1.2 and 1.3 for a connection to a server, by OpenSSL 3, which nothing else here knows. It is
 * loaded when the first context is opened: linked, it would double the time of every start.
 *
 *     struct tls_context *ctx = tls_open(&files, err);       // NULL: see err
 *     struct tls *t = tls_begin(ctx, fd, host, err);          // NULL: see err
 *     while ((state = tls_shake(t, &events, err)) == TLS_WAIT)
 *         ... poll fd for events ...
 *     tls_send(t, data, len); tls_recv(t, data, len);         // as send and recv do
 *     tls_end(t);                                             // before fd is closed
 *     tls_close(ctx);                                         // after all its connections
 *
 * The server's certificate is always checked: that it descends from a trusted one, and that it
 * bears the right name. A trusted certificate need not be a root (X509_V_FLAG_PARTIAL_CHAIN), so a
 * server's own certificate can be named as the one to trust.
 *
 * fd does not block. Not for two threads at once.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct tls_context;
struct tls;

/* Paths of PEM files; NULL: not given. */
struct tls_files {
    const char *ca;   /* certificates to trust (NULL: those of the system) */
    const char *cert; /* of this client, with those between it and a root */
    const char *key;  /* its private key (NULL: in `cert`) */
    const char *name; /* of the server's certificate (NULL: the host) */
};

/* Reads the files. They may change later; the strings must stay. */
struct tls_context *tls_open(const struct tls_files *files, struct err *err);
void tls_close(struct tls_context *ctx); /* or NULL */

struct tls *tls_begin(const struct tls_context *ctx, int fd, const char *host, struct err *err);

enum tls_state {
    TLS_DONE,
    TLS_WAIT,    /* *events: what to poll for */
    TLS_FAILED,  /* *err has the reason; it may pass, if the connection broke */
    TLS_REFUSED, /* the same, but a new attempt would fail too: certificates, names, versions */
};

enum tls_state tls_shake(struct tls *t, short *events, struct err *err);

/* Return what send and recv would, with errno EAGAIN for "later". EPROTO: tls_trouble says what
 * happened, and whether a new attempt would fail, too. ECONNRESET: the connection has ended, with
 * TLS's own goodbye or without. */
ssize_t tls_send(struct tls *t, const void *data, size_t len);
ssize_t tls_recv(struct tls *t, void *data, size_t len);
const char *tls_trouble(const struct tls *t, bool *refused);

/* fd is readable: is that only a message of TLS itself, and the connection still usable? */
bool tls_is_quiet(struct tls *t);

void tls_end(struct tls *t); /* or NULL; says goodbye, without waiting */

/* "OpenSSL 3.0.19", that of the headers; NULL: built without it. */
const char *tls_version(void);

#endif
