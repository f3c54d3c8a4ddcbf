/* For builds without hiredis: replaces the functions of conn.c that need it. conn_open always
 * fails. */
#include "redis/conn.h"

#ifndef SEEN_HIREDIS

const char *conn_hiredis_version(void)
{
    return NULL;
}

struct conn *conn_open(const struct conn_address *address, const struct conn_options *options,
                       struct err *err)
{
    char name[CONN_NAME];
    (void)options;
    conn_name(address, name);
    fail(err,
         "cannot connect to '%s': this program was built without hiredis (on Debian, install "
         "libhiredis-dev and build it again)",
         name);
    return NULL;
}

void conn_close(struct conn *c)
{
    (void)c;
}

void conn_queue(struct conn *c, const char *bytes, size_t len, size_t n, struct replies *into)
{
    (void)c, (void)bytes, (void)len, (void)n, (void)into;
}

enum conn_got conn_next(struct conn *c, struct reply **reply)
{
    (void)c, (void)reply;
    return CONN_FAILED;
}

size_t conn_expected(const struct conn *c)
{
    (void)c;
    return 0;
}

void conn_wait(struct conn *const *conns, size_t n, struct pollfd *room)
{
    (void)conns, (void)n, (void)room;
}

bool conn_exchange(struct conn *c, const struct requests *requests, struct replies *replies,
                   struct reply **out, struct err *err)
{
    (void)c, (void)requests, (void)replies, (void)out;
    return fail(err, "there is no connection");
}

void conn_set_patience(struct conn *c, unsigned reply_ms)
{
    (void)c, (void)reply_ms;
}

const char *conn_trouble(const struct conn *c)
{
    (void)c;
    return "there is no connection";
}

bool conn_unsent(const struct conn *c)
{
    (void)c;
    return true;
}

bool conn_is_stale(const struct conn *c)
{
    (void)c;
    return true;
}

#endif
