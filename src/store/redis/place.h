/*
 * Private to this folder: the place in Redis that an address names, with the commands that all of
 * the folder sends there.
 *
 *     struct redis *r = redis_connect(name, &err);      // whatever is there, or is to be
 *     redis_settle(r, &err) && redis_check(r, &err)     // a filter that is there
 *
 * A filter is one bitmap, or `shards` of them: each shard is a filter of its own of the same layout
 * and size, and has the keys whose CRC-32 modulo their number is its own.
 */
#ifndef STORE_REDIS_PLACE_H
#define STORE_REDIS_PLACE_H

#include <pthread.h>

#include "kind/layout.h"
#include "redis/cluster.h"
#include "redis/uri.h"
#include "store/format.h"
#include "store/redis/redis.h"
#include "store/store.h"

enum {
    /* A chunk of a whole bitmap: larger ones do not stay in the caches. */
    REDIS_CHUNK = 1 << 20,
    /* Keys of a batch. Beyond some hundred keys in a pipeline a larger one is no faster, and with a
     * slow input the first of them wait longer. A key of many positions counts for more. */
    REDIS_BATCH = 1024,
    REDIS_BATCH_BITS = 1 << 14,
};

/* Commands that are sent to all shards at once, at most: unite.h. */
enum { REDIS_STEP = 7 };

struct shard {
    char *key;
    size_t key_len;
    uint64_t len;          /* bytes of the bitmap, at least; it only grows */
    uint64_t set, counted; /* bits that are set, about; and at the last count */
    double fpr;            /* when its part of a batch was begun */
    bool in_batch;
    bool missing; /* neither bitmap nor configuration was there when the filter was to be made */
};

struct redis {
    struct store store;
    struct uri uri;
    char *password; /* NULL: none */
    struct cluster *cluster;
    enum redis_way way;
    unsigned replicas; /* which must have what is written */
    struct shard *shard;
    unsigned n_shards;

    /* By redis_settle. */
    struct header header; /* of a shard */
    uint8_t *data[FORMAT_MAX_LAYERS]; /* all NULL */
    uint64_t m; /* of a shard */
    unsigned k;
    bool configured; /* each shard has a configuration */
    bool one_by_one; /* the server has no BITFIELD_RO */
    struct creation *creation; /* by redis_prepare; or NULL */

    pthread_mutex_t lock; /* of all that follows */
    struct requests rq;       /* the commands of now */
    struct reply **replies;
    size_t batch; /* keys */
    uint64_t *positions; /* of a batch */
    uint16_t *shard_of;  /* of its keys */
    uint16_t *used;      /* the shards that it has keys of */
    size_t n_used;
    struct add_options options;
    double warned_fpr; /* 0: no warning yet */
    bool uncounted;    /* bits were set that shard[].set does not tell of */
    struct bulk *bulk; /* has locks of its own */
};

/* Connects; no more than the address is checked. Ends by redis_close. */
struct redis *redis_connect(const char *name, struct err *err);
void redis_close(struct redis *r);

/* Makes it a store, which is ready for keys when it has been settled and checked. */
struct store *redis_store(struct redis *r, struct err *err);

/* Finds out what filter it is, by the address and by the configuration, and makes room for batches.
 */
bool redis_settle(struct redis *r, struct err *err);

/* Is a bitmap there, of the right type and length? Where there is a configuration, it may come with
 * the first key. */
bool redis_check(struct redis *r, struct err *err);

/* The spec of the address, of a layout whose bits are a string. */
bool redis_spec(const struct redis *r, struct layout_spec *spec, struct err *err);

static inline const struct layer *redis_layer(const struct redis *r)
{
    return &r->header.layers[0];
}

/* Begins a command on a shard's key, of so many words with both. */
void redis_command(struct redis *r, const struct shard *s, size_t words, const char *command);

/* Runs the commands of r->rq into r->replies. */
bool redis_run(struct redis *r, enum cluster_repeat repeat, struct err *err);

/* The same; fails if the first of them was refused. For one whose reply says nothing but that it
 * was done, and what may follow it. */
bool redis_do(struct redis *r, enum cluster_repeat repeat, struct err *err);

/* Takes what EXEC answers, an array of so many elements, of a block of n commands whose replies are
 * r->replies[at] on. Fails if it was not carried out, or a command in it was refused; *err stays as
 * it is if there is no reply. */
bool redis_block_result(const struct redis *r, size_t at, size_t n, size_t elements,
                        const struct reply **array, struct err *err);

/* Waits until what was written is on as many replicas as was asked for. */
bool redis_replicated(struct redis *r, struct err *err);

/* The same after keys [before, *done) were added, with that result. If they are not there, or not
 * all were added, none is told to have been. */
enum add_result redis_added(struct redis *r, enum add_result result, size_t before, size_t *done,
                            struct err *err);

/* Fails: why the place is of no use. */
static inline bool redis_unfit(const struct redis *r, struct err *err, const char *why)
{
    fail(err, "cannot use '%.1000s': %s", r->store.name, why);
    return false;
}

/* Fails with what the reply says, which is not what was expected. */
bool redis_refused(const struct redis *r, const struct reply *reply, struct err *err);

/* Takes an integer from 0 on. */
bool redis_number(const struct redis *r, const struct reply *reply, uint64_t *out,
                  struct err *err);

/* Asks for the lengths of all bitmaps. */
bool redis_lengths(struct redis *r, struct err *err);

/* Takes the reply to STRLEN. Fails if the bitmap has become shorter. */
bool redis_length(struct redis *r, struct shard *s, const struct reply *reply, struct err *err);

/* Bytes [at, at + n) of a shard's bitmap, zero where it has none. n is REDIS_CHUNK at most. */
bool redis_read_chunk(struct redis *r, const struct shard *s, uint64_t at, size_t n, uint8_t *out,
                      struct err *err);

/* Asks for the fields of a shard's configuration. value[i] stays until the next command. *any:
 * there is one. */
bool redis_ask_config(struct redis *r, const struct shard *s, const struct layout_redis *layout,
                      const char **value, bool *any, struct err *err);

/* Counts the bits that are set in each shard; with those that bulk.h is still to send. */
bool redis_count(struct redis *r, struct err *err);

/* The FPR of a shard with so many bits set. */
double redis_shard_fpr(const struct redis *r, uint64_t set);

/* The FPR of the filter, by the bits set in each shard: absent keys are of each one alike. */
double redis_fpr(const struct redis *r);

/* The shard of key i. */
unsigned redis_shard_of(const struct redis *r, struct hashes keys, size_t i);

/* Positions and shards of keys [0, n), a batch at most: r->positions, r->shard_of, r->used. */
void redis_place_keys(struct redis *r, struct hashes keys, size_t n);

#endif
