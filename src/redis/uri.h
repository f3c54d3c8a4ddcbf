/* SPDX-License-Identifier: MIT
 * The address of a value in Redis, given instead of a file name:
 *
 *     redis://[USER@]HOST[:PORT]/KEY[?layout=SPEC&db=N&shards=S&timeout=SECONDS]
 *     rediss://...                                     the same, with TLS
 *     redis+unix://[USER@]/SOCKET?key=KEY[&layout=SPEC&db=N&shards=S&timeout=SECONDS]
 *
 * ?key=KEY may stand for /KEY, too. redis-socket:// and unix:// are redis+unix://.
 *
 * All parts are percent-decoded (RFC 3986); an IPv6 address stands in brackets. A '+' does
 * not stand for a space. After the scheme and the authority, only '%' and, as separators, '?' and
 * '&' are special: SPEC's ':' and ',' and a key's '/' and '#' need no escape. Only KEY may hold
 * NUL.
 *
 *     struct uri uri;
 *     if (uri_parse(name, &uri, &err)) { ... uri_free(&uri); }
 */
#ifndef REDIS_URI_H
#define REDIS_URI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    URI_PORT = 6379,        /* unless given */
    URI_MAX_SHARDS = 16384, /* slots of a cluster: more shards would have to share slots */
    URI_MAX_SOCKET = 107,   /* sun_path of sockaddr_un, less its NUL */
};

/* Strings end with NUL; a string not given is NULL. Exactly one of host and socket is given. */
struct uri {
    const char *host; /* without brackets */
    unsigned port;
    bool tls;
    const char *socket; /* absolute path */
    const char *user;
    const char *key; /* key_len bytes, at least one; any of them may be NUL */
    size_t key_len;
    const char *layout;
    unsigned db;
    unsigned shards;     /* at least 1 */
    unsigned timeout_ms; /* 0: not given */
    char *store;         /* owns the strings */
};

/* On failure *out needs no uri_free. */
bool uri_parse(const char *text, struct uri *out, struct err *err);
void uri_free(struct uri *uri);

#endif
