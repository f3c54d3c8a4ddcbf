/*
 * Private to redis.c and redis_whole.c: a connection to where a filter lives, or is to live.
 */
#ifndef STORE_REDIS_PARTS_H
#define STORE_REDIS_PARTS_H

#include <pthread.h>

#include "redis/cluster.h"
#include "redis/uri.h"
#include "store/format.h"
#include "store/store.h"

/* A chunk of a whole bitmap: larger ones do not stay in the caches. */
enum { REDIS_CHUNK = 1 << 20 };

struct redis {
    struct store store;
    struct uri uri;
    char *password; /* NULL: none */
    struct cluster *cluster;
    struct header header;
    uint8_t *data[FORMAT_MAX_LAYERS]; /* all NULL */
    uint64_t m;
    unsigned k;
    bool one_by_one; /* the server has no BITFIELD_RO */
    pthread_mutex_t lock; /* of all that follows */
    struct requests rq;       /* the commands of now */
    struct reply **replies;
    size_t batch; /* keys */
    uint64_t *positions; /* of a batch */
    uint64_t len; /* bytes of the bitmap, at least; it only grows */
    struct add_options options;
    uint64_t set, counted; /* bits that are set, about; and at the last count */
    double warned_fpr;     /* 0: no warning yet */
};

/* Connects; no more than the address is checked. Closed by store_close(&r->store). */
struct redis *redis_connect(const char *name, struct err *err);

/* Begins a command on the bitmap's key, of so many words with both. */
void redis_command(struct redis *r, size_t words, const char *command);

/* Fails with what the reply says, which is not what was expected. */
bool redis_refused(const struct redis *r, const struct reply *reply, struct err *err);

/* Takes an integer from 0 on. */
bool redis_number(const struct redis *r, const struct reply *reply, uint64_t *out,
                  struct err *err);

/* Bytes [at, at + n) of the bitmap, zero where it has none. n is REDIS_CHUNK at most. */
bool redis_read_chunk(struct redis *r, uint64_t at, size_t n, uint8_t *out, struct err *err);

/* Asks for the fields of the configuration. value[i] stays until the next command. *any: there is a
 * configuration. */
bool redis_ask_config(struct redis *r, const struct layout_redis *layout, const char **value,
                      bool *any, struct err *err);

#endif
