/* SPDX-License-Identifier: MIT
 * Private to this folder: the filter in Redis that an address names, and the commands that several
 * files of this folder send.
 *
 *     struct redis *r = redis_connect(name, options, &err);   // whether or not the filter exists
 *     redis_settle(r, &err)                                  // for a filter that exists
 *
 * A filter is one bitmap or several shards. Each shard is a separate filter of the same layout and
 * size. Shard number i has the keys whose CRC-32 modulo the number of shards is i.
 */
#ifndef REDIS_PLACE_H
#define REDIS_PLACE_H

#include <pthread.h>

#include "foreign/classic.h"
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

struct redis_key {
    char *name; /* not a string: any byte may be NUL */
    size_t len;
};

struct shard {
    struct redis_key bits;
    struct redis_key config; /* of its configuration; its name is in the memory of that of bits */
    uint64_t len;            /* bytes of the bitmap, at least; it only grows */
    uint64_t set, counted;   /* bits that are set: at least, now; at the last count */
    /* The k positions of the first key that is added in this run. If it is missing later, another
     * client has deleted or replaced the bitmap. */
    uint64_t *witness;
    bool has_witness;
    bool in_batch; /* a key of the current batch belongs to the shard; true before the first */
    bool missing;  /* redis_prepare found neither bitmap nor configuration */
};

/* A filter that is to be made. */
struct creation {
    struct layout_filter filter; /* of a shard */
    bool by_n;                   /* its size follows from n and p */
    bool made;
    char layout[LAYOUT_TEXT]; /* with that size, if a later address must state it; else empty */
};

struct redis {
    struct store store;
    struct uri uri;
    struct layout_spec spec; /* of the address; kind NULL: it has none */
    char *password;          /* NULL: none */
    struct tls_context *tls; /* NULL: not encrypted */
    struct cluster *cluster;
    struct shard *shard;
    unsigned n_shards;

    /* Set by redis_settle. */
    struct header header;             /* of a shard */
    uint8_t *data[FORMAT_MAX_LAYERS]; /* all NULL */
    uint64_t m;                       /* of a shard */
    unsigned k;
    bool configured;          /* each shard has a configuration */
    struct creation creation; /* of redis_prepare */

    struct layout_filter latest; /* from the configuration or header that was read last */
    bool informs;                /* the Bloom module has no headers, but BF.INFO (valkey-bloom) */
    uint64_t size;               /* then: bytes on the server */

    pthread_mutex_t lock;         /* for all that follows */
    struct requests rq;           /* the current commands */
    struct reply *const *replies; /* NULL: memory ran out */
    size_t batch;                 /* keys */
    uint64_t *positions;          /* of a batch; then those of the witnesses */
    uint16_t *shard_of;           /* of its keys */
    struct add_options options;
    double max_fpr; /* writer_limit */
    bool begun;     /* keys were to be added */
    bool warned;    /* that the filter is fuller than it was made for */
    bool gone;      /* the last keys could not be added, whatever the reason */
};

/* Connects; checks only the address. Then r->store can take keys after redis_settle or module_open.
 * redis_close ends it. */
struct redis *redis_connect(const char *name, const struct open_options *options, struct err *err);
void redis_close(struct redis *r);

/* The calls of a store in Redis. */
extern const struct store_ops redis_ops;

/* store_make. */
bool redis_make(struct store *s, char layout[LAYOUT_TEXT], struct err *err);

/* Determines layout and size of the filter, from the address and the configuration, and allocates
 * room for batches. Fails if the filter does not exist, or if its bitmaps are of another type or
 * size. */
bool redis_settle(struct redis *r, struct err *err);

/* Fails if the address names no layout whose bits are a string in Redis. */
bool redis_is_bitmap(struct redis *r, struct err *err);

/* Does the address name a layout of the Bloom module (module.h)? */
static inline bool redis_is_module(const struct redis *r)
{
    return r->spec.kind != NULL && r->spec.kind->layout->reserve != NULL;
}

/* Describes the filter of a spec that states all of its parameters. */
bool redis_filter(const struct layout_spec *spec, struct layout_filter *filter, struct err *why);

static inline const struct layer *redis_layer(const struct redis *r)
{
    return &r->header.layers[0];
}

/* Begins a command on a key, of `words` words, including the command and the key. */
void redis_command(struct redis *r, const struct redis_key *key, size_t words, const char *command);

/* Runs the commands of r->rq into r->replies. */
bool redis_run(struct redis *r, enum cluster_repeat repeat, struct err *err);

/* Begins MULTI ... EXEC, the only request; ends it. Request i was one: returns the replies to its
 * commands, or NULL: it was not executed, or a command in it was refused. */
void redis_multi(struct redis *r);
void redis_multi_end(struct redis *r);
const struct reply *redis_executed(const struct redis *r, size_t i, struct err *err);

/* Ends and runs it, and takes its replies. */
const struct reply *redis_exec(struct redis *r, enum cluster_repeat repeat, struct err *err);

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

/* Asks for the lengths of all bitmaps. Before the first batch. */
bool redis_lengths(struct redis *r, struct err *err);

/* The same as part of other commands, for the shards that are in_batch: appends STRLEN for each;
 * takes the replies. Fails if a bitmap has become shorter. */
void redis_ask_lengths(struct redis *r);
bool redis_take_lengths(struct redis *r, struct reply *const *replies, struct err *err);

/* The first `len` bytes of a shard's bitmap, zero where it has none. */
bool redis_read_bits(struct redis *r, const struct shard *s, uint8_t *out, uint64_t len,
                     struct err *err);

/* Reads the fields of a shard's configuration. value[i] is valid until the next command. *any:
 * there is a configuration. */
bool redis_ask_config(struct redis *r, const struct shard *s, const struct layout_redis *layout,
                      const char **value, bool *any, struct err *err);

/* Completes the spec of the address from the configurations of the shards that are there, which
 * must agree. *spec is a copy of r->spec, or r->spec itself. */
bool redis_configure(struct redis *r, struct layout_spec *spec, struct err *err);

/* How long a key still lives, in milliseconds; 0: for ever, or there is no such key. */
bool redis_life(struct redis *r, const struct redis_key *key, uint64_t *life, struct err *err);

/* Fails because there is no such key. */
bool redis_absent(const struct redis *r, struct err *err);

/* Fails because keys that the server has acknowledged are missing. */
bool redis_lost(const struct redis *r, struct err *err);

/* Counts the set bits of each shard. Fails if bits that this process has set are missing. */
bool redis_count(struct redis *r, struct err *err);

/* Counts new keys that were added at this FPR. */
void redis_count_new(struct redis *r, uint64_t n_new, double fpr);

/* The FPR of the filter, from the bits set in each shard: the mean of the shards, since an absent
 * key is equally likely to belong to any of them. */
double redis_fpr(const struct redis *r);

/* ---- The Redis hash beside a bitmap, in which some libraries store the configuration of the
 * filter (layout_redis.fields). */

/* Sets config of each shard, if the layout has configurations. */
void redis_name_configs(struct redis *r, const struct layout_redis *layout);

/* Appends the commands that write a filter's configuration to that key. */
void redis_write_config(struct redis *r, const struct layout_filter *filter,
                        const struct redis_key *key);

/* ---- Queries and adds keys by commands for each key, in pipelined batches (live.c). */

/* Sets bit i of present if key i is in. */
bool live_ask(struct redis *r, struct hashes keys, size_t n, uint64_t *present, struct err *err);

/* A bitmap and its configuration are one filter with one life. The first key would make a bitmap
 * that lives for ever. So makes a missing bitmap first if its configuration expires. */
bool live_share_life(struct redis *r, struct err *err);

/* Adds some of the keys [*done, n), as store_add. */
enum add_result live_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                         size_t *done, struct err *err);

/* At the end: is the filter still the one to which keys were added? Fails if keys of this run are
 * missing. */
bool live_check(struct redis *r, struct err *err);

#endif
