/* SPDX-License-Identifier: MIT */
#include "redis/conn.h"

#include <errno.h>
#include <hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/port.h"
#include "base/sig.h"
#include "redis/dial.h"
#include "redis/tls.h"

void conn_name(const struct conn_address *address, char name[CONN_NAME])
{
    if (address->host == NULL)
        snprintf(name, CONN_NAME, "%s", address->socket);
    else if (strchr(address->host, ':') != NULL)
        snprintf(name, CONN_NAME, "[%s]:%u", address->host, address->port);
    else
        snprintf(name, CONN_NAME, "%s:%u", address->host, address->port);
}

enum {
    READ_BLOCK = 64 << 10,
    /* A string in Redis has at most 512 MiB (proto-max-bulk-len). A server that sends a longer
     * reply than this is broken or malicious. */
    MAX_REPLY = 520 << 20,
    /* Limit on the elements of all arrays of a batch: an array is allocated when its length
     * arrives, before its elements. Far more than a batch of keys has bits. */
    MAX_ELEMENTS = 4 << 20,
    /* Of arrays in arrays: those of CLUSTER SLOTS are 4 deep. hiredis 1 has no limit of its own,
     * and takes a hundred bytes for each level that a server opens with four. */
    MAX_DEPTH = 6,
};

struct conn {
    struct conn_options options;
    char name[CONN_NAME];
    int fd;
    struct tls *tls; /* NULL: not encrypted */
    redisReader *reader;
    char *out; /* out_len bytes to send; the first `sent` of them have been sent */
    size_t out_len, out_room, sent;
    size_t expected;
    uint64_t waited_from; /* the next reply has been waited for since then; 0: not yet */
    uint64_t moved;       /* bytes sent and received since then */
    bool is_socket;
    bool heard;   /* the server has sent something */
    bool refused; /* see conn_open */
    bool failed;
    char trouble[CONN_NAME + 300];
};

/* Marks the connection as failed, for this reason. The first reason stays. */
static bool lose(struct conn *c, const char *reason)
{
    /* A server that expects TLS answers plain text by hanging up. */
    bool wants_tls = !c->heard && c->tls == NULL && c->options.tls == NULL && !c->is_socket;
    if (!c->failed)
        snprintf(c->trouble, sizeof c->trouble, "connection to '%s' lost: %.200s%s", c->name,
                 reason, wants_tls ? " (if it expects TLS, write rediss://)" : "");
    c->failed = true;
    return false;
}

/* The same for errno. */
static bool lose_errno(struct conn *c)
{
    bool of_tls = c->tls != NULL && errno == EPROTO;
    return lose(c, of_tls ? tls_trouble(c->tls, &c->refused) : strerror(errno));
}

/* ---- replies: callbacks of hiredis' parser. NULL makes it fail with "Out of memory". */

/* Stores a value in its element of the array around it, or, at the top, in a new reply. */
static void *put(const redisReadTask *task, struct reply value)
{
    struct reply *r = task->parent != NULL
                          ? &((struct reply *)task->parent->obj)->elements[task->idx]
                          : reply_alloc(task->privdata, sizeof *r);
    if (r != NULL)
        *r = value;
    return r;
}

static void *make_text(const redisReadTask *task, char *text, size_t len)
{
    char *copy = reply_alloc(task->privdata, len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    enum reply_type type = task->type == REDIS_REPLY_ERROR    ? REPLY_ERROR
                           : task->type == REDIS_REPLY_STATUS ? REPLY_STATUS
                                                              : REPLY_STRING;
    return put(task, (struct reply){.type = type, .n = len, .text = copy});
}

static bool is_too_deep(const redisReadTask *task)
{
    int depth = 1;
    while ((task = task->parent) != NULL)
        depth++;
    return depth > MAX_DEPTH;
}

#if HIREDIS_MAJOR >= 1
static void *make_array(const redisReadTask *task, size_t n)
#else
static void *make_array(const redisReadTask *task, int n)
#endif
{
    struct replies *rs = task->privdata;
    size_t len = (size_t)n;
    rs->too_deep |= is_too_deep(task);
    if (rs->too_deep || len > MAX_ELEMENTS - rs->n_elements)
        return NULL;
    rs->n_elements += len;
    struct reply *elements = reply_alloc(rs, len * sizeof *elements);
    if (elements == NULL)
        return NULL;
    return put(task, (struct reply){.type = REPLY_ARRAY, .n = len, .elements = elements});
}

static void *make_integer(const redisReadTask *task, long long value)
{
    return put(task, (struct reply){.type = REPLY_INTEGER, .integer = value});
}

static void *make_nil(const redisReadTask *task)
{
    return put(task, (struct reply){.type = REPLY_NIL});
}

static void free_nothing(void *reply)
{
    (void)reply; /* its struct replies is freed as a whole */
}

#if HIREDIS_MAJOR >= 1
/* Types of RESP3, which is never requested. */
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t len)
{
    (void)task, (void)value, (void)text, (void)len;
    return NULL;
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)task, (void)value;
    return NULL;
}
#endif

static redisReplyObjectFunctions functions = {
    .createString = make_text,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = free_nothing,
#if HIREDIS_MAJOR >= 1
    .createDouble = refuse_double,
    .createBool = refuse_bool,
#endif
};

/* ---- opening */

const char *conn_hiredis_version(void)
{
#define TEXT_OF(x)       #x
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
    return VERSION(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

static bool shake_hands(struct conn *c, const char *host, uint64_t until, struct err *err)
{
    struct err why;
    short events = 0;
    c->tls = tls_begin(c->options.tls, c->fd, host, &why);
    enum tls_state state = c->tls != NULL ? TLS_WAIT : TLS_REFUSED;
    while (state == TLS_WAIT && (state = tls_shake(c->tls, &events, &why)) == TLS_WAIT)
        if (!dial_wait(c->fd, events, until))
            return fail(err,
                        "no TLS answer from '%s' within %u s (if it expects none, write redis://)",
                        c->name, (c->options.connect_ms + 999) / 1000);
    c->refused = state == TLS_REFUSED;
    return state == TLS_DONE || fail(err, "cannot connect to '%s': %s", c->name, why.text);
}

static bool connect_to(struct conn *c, const struct conn_address *a, struct err *err)
{
    uint64_t until = dial_now() + c->options.connect_ms;
    struct err why;
    c->fd = a->host != NULL ? dial_host(a->host, a->port, until, &why)
                            : dial_socket(a->socket, until, &why);
    if (c->fd < 0)
        return fail(err, "cannot connect to '%s': %.300s", c->name, why.text);
    c->reader = redisReaderCreateWithFunctions(&functions);
    if (c->reader == NULL)
        return fail(err, "cannot connect to '%s': %s", c->name, strerror(ENOMEM));
    c->reader->maxbuf = 1 << 20;
    return c->options.tls == NULL || shake_hands(c, a->host, until, err);
}

/* Does this refusal of AUTH only mean that the server needs no password? Then this program goes on,
 * like redis-cli: REDISCLI_AUTH may be set for another server. */
static bool needs_no_password(const struct conn *c, const struct reply *r)
{
    return c->options.user == NULL && reply_is_error(r, "ERR") &&
           strstr(r->text, "without any password configured") != NULL;
}

/* Sends AUTH and SELECT as needed; with TLS 1.3, a server says only to the first command that it
 * wants a certificate of the client, so one is sent in any case. */
static bool greet(struct conn *c, struct err *err)
{
    struct requests rq = {0};
    struct replies rs = {0};
    struct reply *out[3];
    const char *user = c->options.user, *password = c->options.password;
    bool auth = user != NULL || password != NULL;
    if (auth) {
        requests_begin(&rq, user != NULL ? 3 : 2, "AUTH");
        if (user != NULL)
            requests_word(&rq, user);
        requests_word(&rq, password != NULL ? password : "");
    }
    if (c->options.db != 0) {
        requests_begin(&rq, 2, "SELECT");
        requests_number(&rq, c->options.db);
    }
    size_t n = rq.n;
    if (c->tls != NULL)
        requests_begin(&rq, 1, "PING");
    if (rq.n == 0)
        return true;

    bool ok = conn_exchange(c, &rq, &rs, out, err);
    for (size_t i = 0; ok && i < rq.n; i++) {
        char reason[REPLY_REASON];
        if (i < n && out[i]->type == REPLY_ERROR &&
            !(auth && i == 0 && needs_no_password(c, out[i])))
            ok = fail(err, "cannot use '%s': %s", c->name, reply_reason(out[i], reason));
    }
    port_wipe(rq.data, rq.len);
    port_wipe(c->out, c->out_room);
    requests_free(&rq);
    reply_free(&rs);
    return ok;
}

struct conn *conn_open(const struct conn_address *address, const struct conn_options *options,
                       bool *refused, struct err *err)
{
    struct conn *c = malloc(sizeof *c);
    if (c == NULL) {
        fail_errno(err, "cannot connect to a server");
        return NULL;
    }
    *c = (struct conn){.options = *options, .fd = -1, .is_socket = address->host == NULL};
    conn_name(address, c->name);
    if (connect_to(c, address, err) && greet(c, err))
        return c;
    *refused = c->refused;
    conn_close(c);
    return NULL;
}

void conn_close(struct conn *c)
{
    if (c == NULL)
        return;
    tls_end(c->tls);
    if (c->reader != NULL)
        redisReaderFree(c->reader);
    if (c->fd >= 0)
        close(c->fd);
    free(c->out);
    free(c);
}

/* ---- sending and receiving */

/* The time limit of a reply begins with the next wait. */
static void begin_clock(struct conn *c)
{
    c->waited_from = 0;
    c->moved = 0;
}

void conn_queue(struct conn *c, const char *bytes, size_t len, size_t n, struct replies *into)
{
    if (c->expected == 0)
        begin_clock(c);
    c->expected += n;
    c->reader->privdata = into;
    if (len > c->out_room - c->out_len) {
        size_t room = c->out_room + len > 2 * c->out_room ? c->out_room + len : 2 * c->out_room;
        char *out = realloc(c->out, room);
        if (out == NULL) {
            lose(c, strerror(ENOMEM));
            return;
        }
        c->out = out;
        c->out_room = room;
    }
    memcpy(c->out + c->out_len, bytes, len);
    c->out_len += len;
}

/* Sends what the socket accepts. If the server has closed the connection, drops the output: the
 * last replies may still be unread, and receive_some finds the end. */
static void send_some(struct conn *c)
{
    if (c->sent == c->out_len)
        return;
    const char *from = c->out + c->sent;
    size_t len = c->out_len - c->sent;
    ssize_t n = c->tls != NULL ? tls_send(c->tls, from, len)
                               : send(c->fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        c->sent += (size_t)n;
        c->moved += (size_t)n;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != EPIPE && errno != ECONNRESET)
        lose_errno(c);
    if (c->sent == c->out_len || (n < 0 && (errno == EPIPE || errno == ECONNRESET)))
        c->sent = c->out_len = 0;
}

static bool receive_some(struct conn *c)
{
    char block[READ_BLOCK];
    ssize_t n = c->tls != NULL ? tls_recv(c->tls, block, sizeof block)
                               : recv(c->fd, block, sizeof block, MSG_DONTWAIT);
    if (n == 0)
        return lose(c, "the server has closed it");
    if (n < 0)
        return errno == EAGAIN || errno == EINTR || lose_errno(c);
    c->heard = true;
    c->moved += (size_t)n;
    if (redisReaderFeed(c->reader, block, (size_t)n) != REDIS_OK)
        return lose(c, c->reader->errstr);
    return c->reader->len - c->reader->pos <= MAX_REPLY || lose(c, "a reply is too long");
}

enum conn_got conn_next(struct conn *c, struct reply **reply)
{
    void *parsed = NULL;
    /* Replies that came before a loss are returned before it is reported. */
    if (redisReaderGetReply(c->reader, &parsed) != REDIS_OK) {
        const struct replies *into = c->reader->privdata;
        lose(c, into->too_deep ? "a reply is nested too deep" : c->reader->errstr);
        return CONN_FAILED;
    }
    if (parsed == NULL)
        return c->failed ? CONN_FAILED : CONN_NOTHING;
    c->expected--;
    begin_clock(c);
    *reply = parsed;
    return CONN_REPLY;
}

/* After a signal, a silent server is not waited for as long. The signal may come to another thread,
 * so poll ends once a second to look. */
enum { AFTER_SIGNAL_MS = 2000, LOOK_MS = 1000 };

static unsigned patience_of(const struct conn *c)
{
    bool ends = sig_caught() && c->options.reply_ms > AFTER_SIGNAL_MS;
    return ends ? AFTER_SIGNAL_MS : c->options.reply_ms;
}

/* Receives data if poll found any, and checks the time limit. False: neither data nor a failure. */
static bool get_on(struct conn *c, const struct pollfd *found)
{
    bool readable = (found->revents & ~POLLOUT) != 0;
    uint64_t moving = c->moved * 1000 / CONN_LEAST_RATE; /* milliseconds at the least rate */
    bool late = dial_now() >= c->waited_from + patience_of(c) + moving;
    /* What came before this process looked is not late. */
    if (readable && !(late && c->reader->len > c->reader->pos)) {
        receive_some(c);
        return true;
    }
    if (!late)
        return false;
    snprintf(c->trouble, sizeof c->trouble, "no answer from '%s' within %u s", c->name,
             (patience_of(c) + 999) / 1000);
    c->failed = true;
    return true;
}

void conn_wait(struct conn *const *conns, size_t n, struct pollfd *room)
{
    for (bool has_got_on = n == 0; !has_got_on;) {
        for (size_t i = 0; i < n; i++) {
            struct conn *c = conns[i];
            if (c->waited_from == 0)
                c->waited_from = dial_now();
            send_some(c);
            if (c->failed)
                return;
            room[i] = (struct pollfd){.fd = c->fd,
                                      .events = (short)(POLLIN | (c->out_len > 0 ? POLLOUT : 0))};
        }
        poll(room, n, LOOK_MS); /* if it fails, all revents stay 0 */
        for (size_t i = 0; i < n; i++)
            has_got_on |= get_on(conns[i], &room[i]);
    }
}

bool conn_exchange(struct conn *c, const struct requests *requests, struct replies *replies,
                   struct reply **out, struct err *err)
{
    if (requests->no_memory)
        return fail(err, "cannot use '%s': %s", c->name, strerror(ENOMEM));
    conn_queue(c, requests->data, requests->len, requests->n, replies);
    for (size_t i = 0; i < requests->n;) {
        struct pollfd room;
        switch (conn_next(c, &out[i])) {
        case CONN_REPLY:
            i++;
            break;
        case CONN_NOTHING:
            conn_wait(&c, 1, &room);
            break;
        case CONN_FAILED:
            return fail(err, "%s", c->trouble);
        }
    }
    return true;
}

const char *conn_trouble(const struct conn *c)
{
    return c->trouble;
}

bool conn_is_stale(const struct conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0 && (c->tls == NULL || !tls_is_quiet(c->tls));
}
