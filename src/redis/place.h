/* SPDX-License-Identifier: MIT
 * Private to this folder: the filter in Redis that an address names, and the commands that several
 * files of this folder send.
 *
 *     struct redis *r = redis_connect(name, options, &err);   // whether or not the filter exists
 *     redis_settle(r, &err) && redis_check(r, &err)          // for a filter that exists
 *
 * A filter is one bitmap or several shards. Each shard is a separate filter of the same layout and
 * size. Shard number i has the keys whose CRC-32 modulo the number of shards is i.
 */
#ifndef REDIS_PLACE_H
#define REDIS_PLACE_H

#include <pthread.h>

#include "foreign/layout.h"
#include "redis/cluster.h"
#include "redis/uri.h"
#include "file/format.h"
#include "redis/redis.h"
#include "store/store.h"

enum {
    /* Bytes of a bitmap that are moved at once: larger chunks do not stay in the caches. */
    REDIS_CHUNK = 1 << 20,
    /* The most keys, and positions of keys, in a batch. A pipeline of more than some hundred keys
     * is no faster, and with a slow input its first keys wait longer. */
    REDIS_BATCH = 1024,
    REDIS_BATCH_BITS = 1 << 14,
};

struct shard {
    char *key;
    size_t key_len;
    uint64_t len;          /* bytes of the bitmap, at least; it only grows */
    uint64_t set, counted; /* bits that are set: about now; at the last count */
    double fpr;            /* at the beginning of the current batch */
    bool in_batch;
    /* The k positions of the first key that was added in this run. If it is missing later, another
     * client has deleted or replaced the bitmap. */
    uint64_t *witness;
    bool has_witness;
    bool missing; /* redis_prepare found neither bitmap nor configuration */
};

struct redis {
    struct store store;
    struct uri uri;
    char *password; /* NULL: none */
    struct cluster *cluster;
    struct shard *shard;
    unsigned n_shards;

    /* Set by redis_settle. */
    struct header header;             /* of a shard */
    uint8_t *data[FORMAT_MAX_LAYERS]; /* all NULL */
    uint64_t m;                       /* of a shard */
    unsigned k;
    bool configured;           /* each shard has a configuration */
    struct creation *creation; /* by redis_prepare; or NULL */

    struct layout_filter latest; /* of the Bloom module: from the header that was read last */

    pthread_mutex_t lock; /* for all that follows */
    struct requests rq;   /* the current commands */
    struct reply **replies;
    size_t batch;        /* keys */
    uint64_t *positions; /* of a batch */
    uint16_t *shard_of;  /* of its keys */
    uint16_t *used;      /* the shards of its keys */
    uint64_t *witnesses; /* of all shards */
    size_t n_used;
    struct add_options options;
    bool warned; /* that the filter is fuller than it was made for */
    bool gone;   /* the last keys could not be added, whatever the reason */
};

/* Connects; checks only the address. redis_close ends it. */
struct redis *redis_connect(const char *name, const struct open_options *options, struct err *err);
void redis_close(struct redis *r);

/* Makes r->store a store of bitmaps, which can take keys after redis_settle and redis_check. */
void redis_store(struct redis *r);

/* store_make. */
bool redis_make(struct store *s, char layout[LAYOUT_TEXT], struct err *err);

/* Determines layout and size of the filter, from the address and the configuration, and allocates
 * room for batches. Fails if the filter does not exist. */
bool redis_settle(struct redis *r, struct err *err);

/* Has the bitmap the right type and length? */
bool redis_check(struct redis *r, struct err *err);

/* Parses the layout in the address. Fails if its bits are not a string in Redis. */
bool redis_spec(const struct redis *r, struct layout_spec *spec, struct err *err);

static inline const struct layer *redis_layer(const struct redis *r)
{
    return &r->header.layers[0];
}

/* Begins a command on a shard's key, of `words` words, including the command and the key. */
void redis_command(struct redis *r, const struct shard *s, size_t words, const char *command);

/* Runs the commands of r->rq into r->replies. */
bool redis_run(struct redis *r, enum cluster_repeat repeat, struct err *err);

/* The same; fails if the first command was refused. For a command whose reply tells only that it
 * was done; others may follow it. */
bool redis_do(struct redis *r, enum cluster_repeat repeat, struct err *err);

/* Takes the reply to EXEC, an array of `elements` elements, of a block of n commands whose replies
 * begin at r->replies[at]. Fails if the block was not executed, or if a command in it was refused.
 * If there is no reply, *err is unchanged. */
bool redis_block_result(const struct redis *r, size_t at, size_t n, size_t elements,
                        const struct reply **array, struct err *err);

/* Fails; `why` tells why the address cannot be used. */
static inline bool redis_unfit(const struct redis *r, struct err *err, const char *why)
{
    fail(err, "cannot use '%.1000s': %s", r->store.name, why);
    return false;
}

/* Fails because of an unexpected reply; the error tells what it says. */
bool redis_refused(const struct redis *r, const struct reply *reply, struct err *err);

/* Takes a reply that is an integer of at least 0. */
bool redis_number(const struct redis *r, const struct reply *reply, uint64_t *out, struct err *err);

/* Asks for the lengths of all bitmaps. */
bool redis_lengths(struct redis *r, struct err *err);

/* Takes the reply to STRLEN. Fails if the bitmap has become shorter. */
bool redis_length(struct redis *r, struct shard *s, const struct reply *reply, struct err *err);

/* Bytes [at, at + n) of a shard's bitmap, zero where it has none. n is REDIS_CHUNK at most. */
bool redis_read_chunk(struct redis *r, const struct shard *s, uint64_t at, size_t n, uint8_t *out,
                      struct err *err);

/* Reads the fields of a shard's configuration. value[i] is valid until the next command. *any:
 * there is a configuration. */
bool redis_ask_config(struct redis *r, const struct shard *s, const struct layout_redis *layout,
                      const char **value, bool *any, struct err *err);

/* Appends a command, such as EXISTS, on the key of a shard's configuration. */
bool redis_config_command(struct redis *r, const struct layout_redis *redis, const struct shard *s,
                          const char *command, struct err *err);

/* Fails because there is no such key. */
bool redis_absent(const struct redis *r, struct err *err);

/* Fails because keys that the server has acknowledged are missing. */
bool redis_lost(const struct redis *r, struct err *err);

/* Counts the bits that are set in each shard. */
bool redis_count(struct redis *r, struct err *err);

/* The FPR of a shard, from the bits set in it. */
double redis_shard_fpr(const struct redis *r, const struct shard *s);

/* The FPR of the filter, from the bits set in each shard: the mean of the shards, since an absent
 * key is equally likely to belong to any of them. */
double redis_fpr(const struct redis *r);

/* Finds positions and shards of keys [0, n), a batch at most: sets r->positions, r->shard_of and
 * r->used. */
void redis_place_keys(struct redis *r, struct hashes keys, size_t n);

/* ---- The Redis hash beside a bitmap, in which some libraries store the configuration of the
 * filter (layout_redis.fields). */

/* The key of a shard's configuration, for free(); NULL: no memory. */
char *config_key(const struct layout_redis *layout, const struct shard *s, size_t *len);

/* Appends the command that writes a filter's configuration to that key. */
void config_write(struct requests *rq, const struct layout_filter *filter, const char *key,
                  size_t key_len);

/* ---- Queries and adds keys by commands for each key, in pipelined batches (live.c). */

/* Sets bit i of present if key i is in. */
bool live_ask(struct redis *r, struct hashes keys, size_t n, uint64_t *present, struct err *err);

/* A bitmap and its configuration are one filter with one life. The first key would make a bitmap
 * that lives for ever. So where a bitmap is missing, and its configuration expires, makes it first.
 */
bool live_share_life(struct redis *r, struct err *err);

/* Adds some of the keys [*done, n), as store_add. */
enum add_result live_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                         size_t *done, struct err *err);

/* Is the filter still the one to which keys were added? Fails if keys of this run are missing. */
bool live_check(struct redis *r, struct err *err);

#endif
