/* SPDX-License-Identifier: MIT
 * Connections to real Redis servers, alone and as a cluster of three masters and three replicas;
 * and to a server of our own that answers as no server should.
 *
 * tags: redis slow threads
 */
#include "redis/cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "child.h"
#include "redis/messages.h"
#include "redis_servers.h"

enum { MAX_COMMANDS = 4096 };

static struct err err;
static struct requests rq;
static struct reply *const *out;
static struct cluster_options options = {
    .conn = {.connect_ms = 5000, .reply_ms = 30000},
    .patience_ms = 60000,
};

/* Variables of the servers' shell in the address are expanded. */
static struct cluster *open_uri(const char *text, struct uri *uri)
{
    err.text[0] = '\0';
    if (strchr(text, '$') != NULL && sh("echo \"%s\"", text) == 0)
        text = shell.out;
    if (!uri_parse(text, uri, &err))
        return NULL;
    return cluster_open(uri, &options, &err);
}

/* The server `name`; `more` are parameters of the address. */
static struct cluster *open_server(const char *name, const char *more, struct uri *uri)
{
    char text[100];
    snprintf(text, sizeof text, "redis+unix://$REDIS_DIR/%s/socket?key=k%s", name, more);
    struct cluster *cl = open_uri(text, uri);
    CHECK(did(cl != NULL, err.text));
    return cl;
}

static void close_server(struct cluster *cl, struct uri *uri)
{
    cluster_close(cl);
    uri_free(uri);
}

/* Appends a command, given as words with one blank between them. "@WORD" is a key. */
static void add(const char *text)
{
    char copy[400], *rest = copy, *word;
    size_t n = 1;
    snprintf(copy, sizeof copy, "%s", text);
    for (const char *p = text; *p != '\0'; p++)
        n += *p == ' ';
    requests_begin(&rq, n, strsep(&rest, " "));
    while ((word = strsep(&rest, " ")) != NULL) {
        if (word[0] == '@')
            requests_key(&rq, word + 1, strlen(word + 1));
        else
            requests_word(&rq, word);
    }
}

static bool run(struct cluster *cl, enum cluster_repeat repeat)
{
    err.text[0] = '\0';
    bool ok = cl != NULL && cluster_run(cl, &rq, repeat, &out, &err);
    requests_clear(&rq);
    return ok;
}

/* One command's reply, or NULL. */
static struct reply *ask(struct cluster *cl, const char *text)
{
    add(text);
    return did(run(cl, CLUSTER_REPEAT), err.text) ? out[0] : NULL;
}

static bool is_number(const struct reply *r, int64_t number)
{
    return r != NULL && r->type == REPLY_INTEGER && r->integer == number;
}

static bool is_text(const struct reply *r, const char *text)
{
    return r != NULL && (r->type == REPLY_STRING || r->type == REPLY_STATUS) &&
           strcmp(r->text, text) == 0;
}

/* The command is refused, for this reason. */
static void refused(struct cluster *cl, const char *command, const char *reason)
{
    char buf[REPLY_REASON];
    const struct reply *r = ask(cl, command);
    CHECK(r != NULL && r->type == REPLY_ERROR);
    if (r != NULL)
        CHECK_STR(reply_reason(r, buf), reason);
}

static void ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    CHECK_STR(len >= end_len ? text + len - end_len : text, end);
}

/* Listens at a free port of this machine. */
static int listen_there(unsigned *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&in, len) == 0 && listen(fd, 10) == 0 &&
          getsockname(fd, (struct sockaddr *)&in, &len) == 0);
    *port = ntohs(in.sin_port);
    return fd;
}

/* ---- one server */

TEST(pipelines)
{
    struct uri uri;
    CHECK(sh("redis_start a") == 0);
    struct cluster *cl = open_server("a", "", &uri);
    CHECK(cl != NULL);
    CHECK(run(cl, CLUSTER_ONCE)); /* nothing */
    for (unsigned i = 0; i < MAX_COMMANDS; i++) {
        requests_begin(&rq, 4, "SETBIT");
        requests_key(&rq, "b\0its", 5);
        requests_number(&rq, i % 1000 * 7);
        requests_number(&rq, 1);
    }
    MUST(run(cl, CLUSTER_ONCE));
    for (unsigned i = 0; i < MAX_COMMANDS; i++)
        CHECK(is_number(out[i], i >= 1000));
    for (unsigned i = 0; i < 1000; i++) {
        requests_begin(&rq, 3, "GETBIT");
        requests_key(&rq, "b\0its", 5);
        requests_number(&rq, i);
    }
    MUST(run(cl, CLUSTER_ONCE));
    for (unsigned i = 0; i < 1000; i++)
        CHECK(is_number(out[i], i % 7 == 0));

    add("BITFIELD @f SET u1 5 1 SET u1 4000000 1 SET u1 5 1");
    add("BITFIELD_RO @f GET u1 5 GET u1 6");
    add("GET @absent");
    add("LPUSH @list x y");
    add("LRANGE @list 0 -1");
    add("LRANGE @absent 0 -1");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(out[0]->type == REPLY_ARRAY && out[0]->n == 3 && out[1]->n == 2);
    CHECK(is_number(&out[0]->elements[1], 0) && is_number(&out[0]->elements[2], 1));
    CHECK(is_number(&out[1]->elements[0], 1) && is_number(&out[1]->elements[1], 0));
    CHECK(out[2]->type == REPLY_NIL && is_number(out[3], 2));
    CHECK(is_text(&out[4]->elements[0], "y") && is_text(&out[4]->elements[1], "x"));
    CHECK(out[5]->type == REPLY_ARRAY && out[5]->n == 0);

    /* More than any socket holds, both ways at once. */
    enum { BIG = 3 << 20 };
    char *big = malloc(BIG);
    CHECK(big != NULL);
    if (big == NULL)
        return;
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 131 >> 7);
    for (int i = 0; i < 8; i++) {
        requests_begin(&rq, 2, "ECHO");
        requests_bytes(&rq, big, BIG);
    }
    MUST(run(cl, CLUSTER_ONCE));
    for (int i = 0; i < 8; i++)
        CHECK(out[i]->type == REPLY_STRING && out[i]->n == BIG &&
              memcmp(out[i]->text, big, BIG) == 0);
    free(big);

    /* A transaction: its reply is larger than what replies keep. */
    add("SETBIT @big 50000000 1");
    requests_block(&rq);
    add("MULTI");
    add("GETRANGE @big 0 -1");
    add("DEL @big");
    add("EXEC");
    requests_block_end(&rq);
    add("EXISTS @big");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(out[1]->type == REPLY_ARRAY && out[1]->n == 2);
    CHECK(out[1]->elements[0].n == 6250001 && out[1]->elements[0].text[6250000] == -128);
    CHECK(is_number(&out[1]->elements[1], 1) && is_number(out[2], 0));

    add("SET @mortal x PX 1");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(sh("until [ \"$(redis a EXISTS mortal)\" = 0 ]; do sleep 0.01; done") == 0);
    CHECK(is_number(ask(cl, "GETBIT @mortal 1"), 0));
    close_server(cl, &uri);
}

TEST(databases)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "&db=3", &uri);
    CHECK(is_text(ask(cl, "SET @where three"), "OK"));
    CHECK(sh("redis a -n 3 GET where") == 0);
    CHECK_STR(shell.out, "three");
    close_server(cl, &uri);

    CHECK(open_uri("redis+unix://$REDIS_DIR/a/socket?key=k&db=16", &uri) == NULL);
    ends_with(err.text, "/a/socket': the server says 'ERR DB index is out of range'");
    uri_free(&uri);
}

TEST(no_server)
{
    struct uri uri;
    CHECK(open_uri("redis+unix:///absent/socket?key=k", &uri) == NULL);
    CHECK_STR(err.text, "cannot connect to '/absent/socket': No such file or directory");
    uri_free(&uri);
    CHECK(open_uri("redis://127.0.0.1:1/k", &uri) == NULL);
    CHECK_STR(err.text, "cannot connect to '127.0.0.1:1': Connection refused");
    uri_free(&uri);
    CHECK(open_uri("redis://host.invalid/k", &uri) == NULL);
    CHECK(strncmp(err.text, "cannot connect to 'host.invalid:6379': ", 39) == 0);
    uri_free(&uri);
}

static int without_descriptors(void *ctx)
{
    const struct rlimit none = {0, 0};
    struct uri uri;
    (void)ctx;
    return setrlimit(RLIMIT_NOFILE, &none) != 0 ||
           open_uri("redis+unix:///absent/socket?key=k", &uri) != NULL ||
           strstr(err.text, strerror(EMFILE)) == NULL;
}

TEST(no_descriptor)
{
    CHECK(in_child(without_descriptors, NULL) == 0);
}

/* A server whose queue is full: Linux lets the client wait. */
TEST(not_accepted)
{
    struct uri uri;
    unsigned port;
    char text[100];
    int listener = listen_there(&port), others[2];
    CHECK(listen(listener, 0) == 0);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((in_port_t)port)};
    for (int i = 0; i < 2; i++) {
        others[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(others[i] >= 0 && fcntl(others[i], F_SETFL, O_NONBLOCK) == 0);
        (void)connect(others[i], (struct sockaddr *)&in, sizeof in);
    }
    struct pollfd last = {.fd = others[1], .events = POLLOUT};
    if (poll(&last, 1, 100) == 0) {
        options.conn.connect_ms = 200;
        snprintf(text, sizeof text, "redis://127.0.0.1:%u/k", port);
        CHECK(open_uri(text, &uri) == NULL);
        options.conn.connect_ms = 5000;
        ends_with(err.text, strerror(ETIMEDOUT));
        uri_free(&uri);
    }
    for (int i = 0; i < 2; i++)
        close(others[i]);
    close(listener);
}

/* What opening server `name` says with this user and password; "" if it can be used. */
static const char *opened(const char *name, const char *user, const char *password)
{
    static char said[sizeof err.text];
    char text[100];
    struct uri uri;
    snprintf(text, sizeof text, "redis+unix://%s$REDIS_DIR/%s/socket?key=k", user, name);
    options.conn.password = password;
    struct cluster *cl = open_uri(text, &uri);
    options.conn.password = NULL;
    const char *reason = strstr(err.text, "socket': ");
    snprintf(said, sizeof said, "%s", cl != NULL ? "" : reason != NULL ? reason + 9 : err.text);
    if (cl != NULL) {
        char buf[REPLY_REASON];
        const struct reply *r = ask(cl, "PING");
        CHECK(r != NULL);
        if (r != NULL && !is_text(r, "PONG"))
            snprintf(said, sizeof said, "%s", reply_reason(r, buf));
    }
    close_server(cl, &uri);
    return said;
}

TEST(passwords)
{
    struct uri uri;
    const char *wanted = "the server wants a password: set REDISCLI_AUTH or use --password-file";
    const char *wrong = "the server does not take this user or password";
    CHECK(sh("redis_start b --requirepass secret") == 0);
    CHECK_STR(opened("b", "", NULL), wanted);
    CHECK_STR(opened("b", "", "wrong"), wrong);
    CHECK_STR(opened("b", "", "secret"), "");
    CHECK_STR(opened("b", "default@", "secret"), "");
    /* A password for another server does no harm. */
    CHECK_STR(opened("a", "", "secret"), "");

    CHECK(sh("redis b -a secret ACL SETUSER al on '>pass word' '~k*' +@all -setbit") == 0);
    CHECK(sh("redis b -a secret ACL SETUSER free on nopass '~*' +@all") == 0);
    CHECK_STR(opened("b", "al@", "secret"), wrong);
    CHECK_STR(opened("b", "al@", NULL), wrong);
    CHECK_STR(opened("b", "bob@", "pass word"), wrong);
    CHECK_STR(opened("b", "al@", "pass word"), "");
    CHECK_STR(opened("b", "free@", NULL), "");

    options.conn.password = "pass word";
    struct cluster *cl = open_uri("redis+unix://al@$REDIS_DIR/b/socket?key=k", &uri);
    CHECK(did(cl != NULL, err.text));
    CHECK(is_number(ask(cl, "GETBIT @key 1"), 0));
    const struct reply *r = ask(cl, "SETBIT @key 1 1");
    CHECK(r != NULL && reply_is_error(r, "NOPERM"));
    r = ask(cl, "GETBIT @other 1");
    CHECK(r != NULL && reply_is_error(r, "NOPERM"));
    /* A connection that is opened again gives the password again. */
    CHECK(sh("redis b -a secret CLIENT KILL USER al") == 0);
    CHECK(is_number(ask(cl, "GETBIT @key 1"), 0));
    options.conn.password = NULL;
    close_server(cl, &uri);
    CHECK(sh("redis_kill b") == 0);
}

TEST(refusals)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    CHECK(sh("redis a LPUSH wrong x") == 0);
    refused(cl, "GETBIT @wrong 1", "the key holds a value of another type");
    refused(cl, "NOSUCH @k",
            "the server says 'ERR unknown command 'NOSUCH', with args beginning "
            "with: 'k' '");
    CHECK(sh("redis a CONFIG SET maxmemory 1") == 0);
    refused(cl, "SETBIT @new 1 1", "the server is at its memory limit (maxmemory)");
    CHECK(is_number(ask(cl, "GETBIT @new 1"), 0));
    CHECK(sh("redis a CONFIG SET maxmemory 0") == 0);
    /* One command that is refused leaves the others alone. */
    add("SETBIT @new 1 1");
    add("SETBIT @wrong 1 1");
    add("SETBIT @new 1 1");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_number(out[0], 0) && out[1]->type == REPLY_ERROR && is_number(out[2], 1));
    /* In a transaction, it is the command's reply that says why. */
    CHECK(sh("redis a CONFIG SET maxmemory 1") == 0);
    requests_block(&rq);
    add("MULTI");
    add("SETBIT @new 2 1");
    add("EXEC");
    requests_block_end(&rq);
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(sh("redis a CONFIG SET maxmemory 0") == 0);
    CHECK(reply_is_error(out[0], "OOM"));
    /* Or EXEC's, if the reason came up later. */
    char reason[REPLY_REASON];
    const char *late = "EXECABORT Transaction discarded because of: LOADING Redis is loading";
    struct reply aborted = {.type = REPLY_ERROR, .n = strlen(late), .text = late};
    CHECK(reply_is_error(&aborted, "LOADING") && !reply_is_error(&aborted, "OOM"));
    CHECK_STR(reply_reason(&aborted, reason), "the server is loading its data");

    struct uri replica_uri;
    CHECK(sh("redis_start r --replicaof 127.0.0.1 1 --replica-serve-stale-data yes") == 0);
    struct cluster *replica = open_server("r", "", &replica_uri);
    CHECK(is_number(ask(replica, "GETBIT @k 1"), 0));
    refused(replica, "SETBIT @k 1 1",
            "the server is a replica, which cannot be written: name its master");
    options.patience_ms = 100;
    close_server(replica, &replica_uri);
    CHECK(sh("redis r CONFIG SET replica-serve-stale-data no") == 0);
    replica = open_server("r", "", &replica_uri);
    add("GETBIT @k 1");
    CHECK(!run(replica, CLUSTER_REPEAT));
    ends_with(err.text, "/r/socket': the server is a replica that has lost its master");
    options.patience_ms = 60000;
    close_server(replica, &replica_uri);
    CHECK(sh("redis_kill r") == 0);
    close_server(cl, &uri);
}

/* A server that is loading is waited for, but not for ever. */
TEST(loading)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    CHECK(sh("redis a CONFIG SET rdbcompression no && redis a DEBUG POPULATE 200 fill 2000 && "
             "redis a SET loaded yes && redis a SAVE") == 0);
    /* 201 keys, 5 ms each; a client is served after each. */
    CHECK(sh("redis_kill a; redis_start a --key-load-delay 5000 "
             "--loading-process-events-interval-bytes 1024") == 0);
    requests_block(&rq);
    add("MULTI");
    add("GET @loaded");
    add("EXEC");
    requests_block_end(&rq);
    add("GET @loaded");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(out[0]->type == REPLY_ARRAY && is_text(&out[0]->elements[0], "yes"));
    CHECK(is_text(out[1], "yes"));
    close_server(cl, &uri);

    CHECK(sh("redis_kill a; redis_start a --key-load-delay 50000 "
             "--loading-process-events-interval-bytes 1024") == 0);
    options.patience_ms = 100;
    cl = open_server("a", "", &uri);
    add("GET @loaded");
    CHECK(!run(cl, CLUSTER_REPEAT));
    ends_with(err.text, "/a/socket': the server is loading its data");
    options.patience_ms = 60000;
    close_server(cl, &uri);

    /* Replicas are waited for when it has answered, not for what it has refused. */
    CHECK(sh("redis_kill a; redis_start a --key-load-delay 5000 "
             "--loading-process-events-interval-bytes 1024") == 0);
    options.replicas = 1;
    options.wait_ms = 1;
    cl = open_server("a", "", &uri);
    add("GET @loaded");
    CHECK(!run(cl, CLUSTER_REPEAT));
    CHECK(strncmp(err.text, "only 0 of 1 replicas of '/", 26) == 0);
    options.replicas = 0;
    close_server(cl, &uri);
    CHECK(sh("redis_kill a; rm -f $REDIS_DIR/a/dump.rdb; redis_start a") == 0);
}

/* ---- a server that goes away */

static const char suicide[] = "CLIENT KILL TYPE normal SKIPME no";

TEST(lost_in_a_pipeline)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    CHECK(sh("redis a DEL n") == 0);
    add("INCR @n");
    add(suicide);
    add("INCR @n");
    add("INCR @n");
    CHECK(!run(cl, CLUSTER_ONCE));
    CHECK(is_number(out[0], 1) && is_number(out[1], 1) && out[2] == NULL && out[3] == NULL);
    ends_with(err.text, "/a/socket' lost: the server has closed it; unanswered commands: 2, "
                        "which may have been carried out or not");
    /* What was answered is not sent again. */
    add("INCR @n");
    add(suicide);
    add("INCR @n");
    MUST(run(cl, CLUSTER_REPEAT));
    CHECK(is_number(out[0], 2) && is_number(out[2], 3));
    CHECK(sh("redis a GET n") == 0);
    CHECK_STR(shell.out, "3");
    close_server(cl, &uri);
}

/* The connection is lost in the middle of a block, or just before it. */
TEST(lost_in_a_block)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    for (int repeat = 0; repeat < 2; repeat++) {
        char kill_it[60];
        const struct reply *id = ask(cl, "CLIENT ID");
        CHECK(id != NULL && id->type == REPLY_INTEGER);
        snprintf(kill_it, sizeof kill_it, "CLIENT KILL ID %" PRId64 " SKIPME no",
                 id != NULL ? id->integer : 0);
        add("SET @n 0");
        requests_block(&rq);
        add("INCR @n");
        add(kill_it); /* not the connection that it is sent on the second time */
        add("INCR @n");
        requests_block_end(&rq);
        add("INCR @n");
        bool ok = run(cl, repeat ? CLUSTER_REPEAT : CLUSTER_ONCE);
        CHECK(ok == (repeat != 0) && is_text(out[0], "OK"));
        if (repeat) {
            MUST(ok);
            CHECK(is_number(out[1], 3) && is_number(out[2], 4));
        } else {
            CHECK(out[1] == NULL && out[2] == NULL);
            ends_with(err.text, "unanswered commands: 2, which may have been carried out or not");
            CHECK(is_text(ask(cl, "GET @n"), "1"));
        }
    }
    add("SET @n 0");
    add(suicide);
    requests_block(&rq);
    add("MULTI");
    add("INCR @n");
    add("EXEC");
    requests_block_end(&rq);
    MUST(run(cl, CLUSTER_REPEAT));
    CHECK(out[2]->type == REPLY_ARRAY && is_number(&out[2]->elements[0], 1));
    close_server(cl, &uri);
}

/* A connection that was closed while nothing was asked does no harm. */
TEST(closed_while_idle)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    CHECK(is_text(ask(cl, "SET @n 0"), "OK"));
    const struct reply *r = ask(cl, "CLIENT ID");
    int64_t first = r != NULL ? r->integer : 0;
    CHECK(is_number(ask(cl, "CLIENT ID"), first));
    CHECK(sh("redis a %s", "CLIENT KILL TYPE normal") == 0);
    add("INCR @n");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_number(out[0], 1));
    CHECK(sh("redis_kill a; redis_start a") == 0);
    add("INCR @n");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_number(out[0], 1));
    close_server(cl, &uri);
}

/* The server goes away while it is sent more than a socket holds. */
TEST(lost_while_sending)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    enum { BIG = 16 << 20 };
    char *big = calloc(1, BIG);
    CHECK(big != NULL);
    for (int i = 0; big != NULL && i < 3; i++) {
        add(suicide);
        requests_begin(&rq, 2, "ECHO");
        requests_bytes(&rq, big, BIG);
        CHECK(!run(cl, CLUSTER_ONCE));
        CHECK(is_number(out[0], 1) && out[1] == NULL);
        CHECK(strstr(err.text, "/a/socket' lost: ") != NULL);
    }
    free(big);
    close_server(cl, &uri);
}

TEST(killed)
{
    struct uri uri;
    struct cluster *cl = open_server("a", "", &uri);
    pid_t pid = sh("echo ${REDIS_PIDS[a]}") == 0 ? (pid_t)atoi(shell.out) : 0;
    CHECK(pid > 0);
    CHECK(sh("(sleep 0.2; kill -KILL %d) &", (int)pid) == 0);
    add("SET @a 1");
    add("DEBUG SLEEP 100");
    add("SET @b 1");
    CHECK(!run(cl, CLUSTER_ONCE));
    CHECK(out[1] == NULL && out[2] == NULL);
    CHECK(strstr(err.text, "/a/socket' lost: ") != NULL);
    /* It stays away: one more attempt, and no waiting for a minute. */
    add("GET @a");
    CHECK(!run(cl, CLUSTER_REPEAT));
    ends_with(err.text, "/a/socket': Connection refused");
    CHECK(sh("redis_kill a; redis_start a") == 0);
    CHECK(is_text(ask(cl, "SET @a 1"), "OK"));
    close_server(cl, &uri);
}

TEST(no_answer)
{
    struct uri uri;
    options.conn.reply_ms = 1000;
    struct cluster *cl = open_server("a", "", &uri);
    options.conn.reply_ms = 30000;
    add("DEBUG SLEEP 1.5");
    CHECK(!run(cl, CLUSTER_ONCE));
    CHECK(strncmp(err.text, "no answer from '", 16) == 0);
    ends_with(err.text, "/a/socket' within 1 s; unanswered commands: 1, which may have been "
                        "carried out or not");
    close_server(cl, &uri);
}

/* A server without replicas. */
TEST(no_replicas)
{
    struct uri uri;
    options.replicas = 1;
    options.wait_ms = 1000;
    struct cluster *cl = open_server("a", "", &uri);
    for (int i = 0; i < 2; i++) {
        add("SET @a 1");
        CHECK(!run(cl, i == 0 ? CLUSTER_ONCE : CLUSTER_REPEAT));
        CHECK(out[0] == NULL && strncmp(err.text, "only 0 of 1 replicas of '/", 26) == 0);
        ends_with(err.text, "/a/socket' have acknowledged what was written within 1 s");
    }
    options.replicas = 0;
    close_server(cl, &uri);
}

/* The connection is lost after the reply, before the replicas have acknowledged it. */
TEST(lost_before_replicas)
{
    struct uri uri;
    options.replicas = 1;
    options.wait_ms = 20000;
    struct cluster *cl = open_server("a", "", &uri);
    CHECK(sh("redis a SET n 0; (until [ \"$(redis a GET n)\" = 1 ]; do sleep 0.01; done; "
             "redis a CLIENT KILL TYPE normal) &") == 0);
    add("INCR @n");
    CHECK(!run(cl, CLUSTER_ONCE));
    CHECK(out[0] == NULL);
    ends_with(err.text, "/a/socket' lost: the server has closed it; unanswered commands: 1, "
                        "which may have been carried out or not");
    options.replicas = 0;
    close_server(cl, &uri);
}

/* ---- a server that answers as no server should: it is alive and no cluster, but anything else is
 * answered by these bytes */

struct fake {
    int listener;
    const char *bytes;
    size_t len;
    bool goes; /* it closes the connection then */
};

static int serve(void *ctx)
{
    struct fake *f = ctx;
    char block[4096];
    ssize_t n;
    for (;;) {
        int fd = accept(f->listener, NULL, NULL);
        if (fd < 0)
            return 1;
        while ((n = recv(fd, block, sizeof block - 1, 0)) > 0) {
            block[n] = '\0';
            const char *bytes = strstr(block, "CLUSTER") != NULL ? "-ERR no cluster\r\n" : NULL;
            if (strstr(block, "ASKING") != NULL)
                send(fd, "+OK\r\n", 5, MSG_NOSIGNAL);
            send(fd, bytes != NULL ? bytes : f->bytes, bytes != NULL ? strlen(bytes) : f->len,
                 MSG_NOSIGNAL);
            if (bytes == NULL && f->goes)
                break;
        }
        close(fd);
    }
}

/* One command's reply, if that server answers so; NULL and err otherwise. */
static struct reply *faked(const char *bytes, size_t len, struct cluster **cl, struct uri *uri)
{
    unsigned port;
    struct fake fake = {.listener = listen_there(&port), .bytes = bytes, .len = len, .goes = true};
    char text[100];
    snprintf(text, sizeof text, "redis://127.0.0.1:%u/k", port);
    pid_t server = child_start(serve, &fake);
    *cl = open_uri(text, uri);
    CHECK(did(*cl != NULL, err.text));
    add("GET @k");
    bool ok = run(*cl, CLUSTER_ONCE);
    kill(server, SIGKILL);
    child_wait(server);
    close(fake.listener);
    return ok ? out[0] : NULL;
}

TEST(hostile_answers)
{
    struct {
        const char *bytes;
        const char *reason; /* NULL: it is a reply */
    } list[] = {
        {"$3\r\nabc\r\n", NULL},
        {"*2\r\n*0\r\n*-1\r\n", NULL},
        {"*2147483647\r\n", "Out of memory"}, /* would be 48 GiB */
        {"*4194305\r\n:1\r\n", "Out of memory"},
        {"*4000000\r\n*4000000\r\n", "Out of memory"},
        {"*99999999999999999999\r\n", ""},
        {"*-2\r\n", ""},
        {"$-2\r\n", ""},
        {"$9223372036854775807\r\nabc", ""},
        {":99999999999999999999999\r\n", ""},
        {":12x\r\n", ""},
        {"HTTP/1.1 200 OK\r\n\r\n", ""},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", NULL},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "a reply is nested too deep"},
        {"$3\r\nab", ""}, /* and the end */
        {"", ""},
        {"-MOVED\r\n", NULL},
        {"-MOVED 1\r\n", NULL},
        {"-MOVED 1 :\r\n", NULL},
        {"-MOVED 1 host\r\n", NULL},
        {"-MOVED 1 host:0\r\n", NULL},
        {"-MOVED 1 host:65536\r\n", NULL},
        {"-MOVED 1 host:7x\r\n", NULL},
        {"-ASK 1 \r\n", NULL},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct cluster *cl;
        struct uri uri;
        struct reply *r = faked(list[i].bytes, strlen(list[i].bytes), &cl, &uri);
        if ((r != NULL) != (list[i].reason == NULL)) {
            printf("# answer: %s: %s\n", list[i].bytes, err.text);
            CHECK(false);
        }
        CHECK(r != NULL || strstr(err.text, "' lost: ") != NULL);
        CHECK(r != NULL || strstr(err.text, list[i].reason) != NULL);
        close_server(cl, &uri);
    }
}

/* A node that sends to itself. */
TEST(redirected_in_a_circle)
{
    unsigned port;
    struct uri uri;
    char text[100], moved[100];
    struct fake fake = {.listener = listen_there(&port), .bytes = moved};
    snprintf(text, sizeof text, "redis://127.0.0.1:%u/k", port);
    for (int is_ask = 0; is_ask < 2; is_ask++) {
        fake.len = (size_t)snprintf(moved, sizeof moved, "-%s 7 127.0.0.1:%u\r\n",
                                    is_ask ? "ASK" : "MOVED", port);
        pid_t server = child_start(serve, &fake);
        options.patience_ms = 200;
        struct cluster *cl = open_uri(text, &uri);
        CHECK(did(cl != NULL, err.text));
        add("GET @key3444"); /* its slot is 0 */
        CHECK(!run(cl, CLUSTER_REPEAT));
        CHECK(out[0] == NULL);
        CHECK_STR(err.text, "the cluster redirects in a circle");
        options.patience_ms = 60000;
        close_server(cl, &uri);
        kill(server, SIGKILL);
        child_wait(server);
    }
    close(fake.listener);
}

/* ---- a cluster */

enum { KEYS = 1000 };

static void add_for_keys(const char *command, const char *rest)
{
    for (int i = 0; i < KEYS; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s @key%d%s", command, i, rest);
        add(text);
    }
}

static bool all_are(int64_t number)
{
    bool ok = true;
    for (int i = 0; i < KEYS; i++)
        ok &= is_number(out[i], number);
    return ok;
}

static struct cluster *open_cluster(struct uri *uri)
{
    struct cluster *cl = open_uri("redis://127.0.0.1:$REDIS_PORTS/k", uri);
    CHECK(did(cl != NULL, err.text));
    return cl;
}

TEST(cluster_map)
{
    struct uri uri;
    CHECK(sh("redis_cluster") == 0);
    struct cluster *cl = open_cluster(&uri);
    CHECK(cl != NULL);
    add_for_keys("INCR", "");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(all_are(1));
    /* All three have some of them. */
    CHECK(sh("for i in 0 1 2; do [ \"$(redis c$i DBSIZE)\" -gt 200 ] || exit; done") == 0);
    add("RENAME @{k}a @{k}b");
    add("SET @{k}a 1");
    add("RENAME @{k}a @{k}b");
    add("MSET @key1 1 @key2 1");
    add("PING");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_text(out[2], "OK") && reply_is_error(out[3], "CROSSSLOT") && is_text(out[4], "PONG"));
    /* Closed while nothing is asked, by TCP, where the first bytes can still be sent. */
    CHECK(sh("for i in 0 1 2; do redis c$i CLIENT KILL TYPE normal; done") == 0);
    add_for_keys("SET", " 1");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(sh("redis c0 CLUSTER KEYSLOT 'a{b}c'") == 0);
    CHECK(slot_of("a{b}c", 5) == (unsigned)atoi(shell.out));
    close_server(cl, &uri);

    /* By a socket, and by a replica: the others are found all the same. */
    for (int i = 0; i < 6; i += 5) {
        char name[8];
        snprintf(name, sizeof name, "c%d", i);
        cl = open_server(name, "", &uri);
        CHECK(cl != NULL);
        add_for_keys("INCR", "");
        MUST(run(cl, CLUSTER_ONCE));
        CHECK(all_are(i == 0 ? 2 : 3));
        /* Its slot is 0. */
        CHECK(is_number(ask(cl, "INCR @key3444"), i == 0 ? 1 : 2));
        close_server(cl, &uri);
    }
    CHECK(open_uri("redis+unix://$REDIS_DIR/c0/socket?key=k&db=1", &uri) == NULL);
    ends_with(err.text, "/c0/socket': the server says 'ERR SELECT is not allowed in cluster mode'");
    uri_free(&uri);
}

/* Appends MULTI, a command, INCR, and EXEC. */
static void add_block(const char *command)
{
    requests_block(&rq);
    add("MULTI");
    add(command);
    add("INCR @{mover}n");
    add("EXEC");
    requests_block_end(&rq);
}

/* Request i is that of add_block, and was carried out; INCR gave `number`. */
static void was_run(size_t i, int64_t number)
{
    const struct reply *r = out[i];
    CHECK(r != NULL && r->type == REPLY_ARRAY && r->n == 2 && is_number(&r->elements[1], number));
}

/* Each master has one replica. */
TEST(replicas)
{
    struct uri uri, hasty_uri;
    options.replicas = 1;
    options.wait_ms = 20000;
    struct cluster *cl = open_cluster(&uri);
    options.wait_ms = 1000;
    struct cluster *hasty = open_cluster(&hasty_uri);
    options.replicas = 0;
    for (int i = 0; i < 2; i++) {
        add_for_keys("SET", " 1");
        MUST(run(cl, CLUSTER_ONCE));
        CHECK(sh("kill -STOP ${REDIS_PIDS[c3]} ${REDIS_PIDS[c4]} ${REDIS_PIDS[c5]}") == 0);
        add_for_keys("SET", " 1");
        CHECK(!run(hasty, CLUSTER_ONCE));
        CHECK(strncmp(err.text, "only 0 of 1 replicas of '127.0.0.1:", 35) == 0);
        CHECK(sh("kill -CONT ${REDIS_PIDS[c3]} ${REDIS_PIDS[c4]} ${REDIS_PIDS[c5]}; "
                 "until redis_all_agree; do sleep 0.05; done") == 0);
    }
    close_server(hasty, &hasty_uri);
    close_server(cl, &uri);
}

/* The slot of {mover}, from the node that has it to another, step by step. */
TEST(slot_being_moved)
{
    struct uri uri, other_uri;
    struct cluster *cl = open_cluster(&uri), *other = open_cluster(&other_uri);
    add("MSET @{mover}a 1 @{mover}b 2");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_text(out[0], "OK"));
    CHECK(sh("slot=%u; id() { redis $1 CLUSTER MYID; }", slot_of("mover", 5)) == 0);
    CHECK(sh("for i in 0 1 2; do if redis c$i GET '{mover}a' | grep -q MOVED; then to=$i; "
             "else from=$i; fi; done") == 0);
    CHECK(sh("redis c$to CLUSTER SETSLOT $slot IMPORTING $(id c$from) && "
             "redis c$from CLUSTER SETSLOT $slot MIGRATING $(id c$to)") == 0);
    /* Keys that are there are served there, others by the new node. */
    add("GET @{mover}a");
    add("SET @{mover}new 3");
    add("GET @{mover}new");
    add("GET @{mover}b");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_text(out[0], "1") && is_text(out[1], "OK") && is_text(out[3], "2"));
    CHECK(is_text(ask(cl, "GET @{mover}new"), "3"));
    CHECK(sh("redis c$from EXISTS '{mover}new' | grep -q ASK") == 0);
    /* A block goes there as a whole, its first command too, which asks for nothing. */
    add("GET @{mover}a");
    add_block("GET @{mover}n");
    add("GET @{mover}n");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_text(out[0], "1") && is_text(out[2], "1"));
    was_run(1, 1);

    /* Two keys on two nodes: TRYAGAIN, until they are together. */
    CHECK(sh("move() { redis c$from MIGRATE 127.0.0.1 ${REDIS_PORTS[$to]} $1 0 5000; }") == 0);
    CHECK(sh("move '{mover}a'") == 0);
    CHECK(sh("(sleep 0.3; move '{mover}b') &") == 0);
    add("MGET @{mover}a @{mover}b");
    add_block("MGET @{mover}a @{mover}b");
    MUST(run(cl, CLUSTER_ONCE));
    was_run(1, 2);
    CHECK(out[0] != NULL && out[0]->type == REPLY_ARRAY && is_text(&out[0]->elements[0], "1") &&
          is_text(&out[0]->elements[1], "2"));

    /* Settled: the old map is corrected by MOVED. */
    CHECK(sh("for i in $to $from; do redis c$i CLUSTER SETSLOT $slot NODE $(id c$to); done") == 0);
    add_block("GET @{mover}a");
    add_block("GET @{mover}b");
    MUST(run(other, CLUSTER_ONCE));
    was_run(0, 3);
    was_run(1, 4);
    close_server(other, &other_uri);
    CHECK(is_text(ask(cl, "GET @{mover}a"), "1"));
    add("GET @{mover}new");
    add("GET @{mover}b");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(is_text(out[0], "3") && is_text(out[1], "2"));
    close_server(cl, &uri);
}

/* A third of one node's slots go to another while batches run: each command is carried out once. */
TEST(slots_moved_under_load)
{
    struct uri uri;
    struct cluster *cl = open_cluster(&uri);
    CHECK(is_text(ask(cl, "SET @{mover}a 1"), "OK"));
    add_for_keys("SET", " 0");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(sh("redis-cli --cluster reshard 127.0.0.1:${REDIS_PORTS[0]} --cluster-from $(id c0) "
             "--cluster-to $(id c1) --cluster-slots 1500 --cluster-yes >$REDIS_DIR/reshard.log & "
             "reshard=$!") == 0);
    int64_t batches = 0;
    bool ok = true;
    do {
        add_for_keys("INCR", "");
        ok = did(run(cl, CLUSTER_ONCE), err.text) && all_are(++batches);
    } while (ok && sh("kill -0 $reshard") == 0);
    CHECK(ok);
    printf("# %lld batches while slots were moved\n", (long long)batches);
    CHECK(sh("wait $reshard") == 0);
    add_for_keys("INCR", "");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(all_are(++batches));
    close_server(cl, &uri);
}

/* A master is killed; one of the replicas takes its place. */
TEST(failover)
{
    struct uri uri;
    struct cluster *cl = open_cluster(&uri); /* the one that dies */
    add_for_keys("SETBIT", " 9 1");
    MUST(run(cl, CLUSTER_REPEAT));
    CHECK(sh("(sleep 0.2; kill -KILL ${REDIS_PIDS[c0]}) &") == 0);
    bool ok = true;
    do {
        add_for_keys("SETBIT", " 7 1");
        ok = did(run(cl, CLUSTER_REPEAT), err.text);
    } while (ok && sh("kill -0 ${REDIS_PIDS[c0]}") == 0);
    CHECK(ok);
    /* Commands that must not be repeated wait as well, as long as they were not sent. */
    add_for_keys("SETBIT", " 7 1");
    MUST(run(cl, CLUSTER_ONCE));
    CHECK(all_are(1));
    close_server(cl, &uri);

    /* Two more: now slots have nobody. */
    CHECK(sh("for i in 0 1 2 3 4 5; do case $(redis c$i ROLE 2>&1 | head -n 1) in "
             "master) redis_kill c$i; [ -n \"$once\" ] && break; once=1;; esac; done") == 0);
    options.patience_ms = 300;
    CHECK(sh("for i in 5 4 3 2 1; do redis_answers c$i && break; done") == 0);
    cl = open_uri("redis://127.0.0.1:${REDIS_PORTS[$i]}/k", &uri);
    CHECK(did(cl != NULL, err.text));
    add_for_keys("GETBIT", " 9");
    CHECK(!run(cl, CLUSTER_REPEAT));
    CHECK(strncmp(err.text, "cannot ", 7) == 0);
    printf("# %s\n", err.text);
    options.patience_ms = 60000;
    close_server(cl, &uri);
}

#define TESTS(DO)                                                                                  \
    DO(pipelines)                                                                                  \
    DO(databases)                                                                                  \
    DO(no_server)                                                                                  \
    DO(not_accepted)                                                                               \
    DO(passwords)                                                                                  \
    DO(refusals)                                                                                   \
    DO(loading)                                                                                    \
    DO(lost_in_a_pipeline)                                                                         \
    DO(lost_in_a_block)                                                                            \
    DO(closed_while_idle)                                                                          \
    DO(lost_while_sending)                                                                         \
    DO(killed)                                                                                     \
    DO(no_answer)                                                                                  \
    DO(no_replicas)                                                                                \
    DO(lost_before_replicas)                                                                       \
    DO(hostile_answers)                                                                            \
    DO(redirected_in_a_circle)                                                                     \
    DO(cluster_map)                                                                                \
    DO(replicas)                                                                                   \
    DO(slot_being_moved)                                                                           \
    DO(slots_moved_under_load)                                                                     \
    DO(failover)

int main(void)
{
    const char *missing = servers_begin();
    if (missing != NULL) {
#define DO_SKIP(name) SKIP(name, missing);
        TESTS(DO_SKIP)
    } else {
#define DO_RUN(name) RUN(name);
        TESTS(DO_RUN)
    }
    const char *sanitizer = getenv("SANITIZER");
    if (sanitizer != NULL && strcmp(sanitizer, "valgrind") == 0)
        SKIP(no_descriptor, "valgrind opens sockets whatever the limit");
    else
        RUN(no_descriptor);
    if (shell.to != NULL)
        servers_end();
    requests_free(&rq);
    return check_done();
}
