/* SPDX-License-Identifier: MIT
 * A filter, wherever it lives: in a file, in memory or in Redis (redis.h).
 * Callers see no mappings or pages. A call takes any number of keys.
 *
 *     struct store *s = store_open(name, STORE_READ, NULL, &err);    // NULL: see err
 *     ok = store_enter(s, len, &err);                                // any thread
 *     ok = ok && store_query(s, keys, n, present, &err);
 *     ok = store_leave(s, ok, &again, &err);                         // false: the answers are void
 *     store_close(s);
 *
 *     store_add_begin(s, &options, &err);                            // opened with STORE_WRITE
 *     store_add(s, keys, known, n, &done, &err);                     // one thread at a time
 *     store_add_end(s, sync, &err);
 *
 * To add a new kind of store, implement one `struct store_ops` and add a line to store_servers.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "kind/foreign.h"
#include "file/format.h"
#include "file/layers.h"
#include "write/borrow.h"
#include "write/writer.h"

struct filter;

enum store_mode {
    STORE_READ,
    STORE_WRITE, /* refuses filters to which no keys can be added */
};

/* What is known of a store without reading its bits. */
struct facts {
    struct layers layers;     /* valid until store_enter or store_close; data[i] is NULL if the bits
                                 are not on this machine */
    struct counters counters; /* as they are now, if keys are being added */
    unsigned n_shards;        /* number of shards, each with these layers; a key is in one of them;
                                 0: the filter is not sharded */
    uint64_t bytes;           /* of its file, or on the server */
    bool closed;              /* nobody is told its bits and hashes: rates are by number of keys */
};

struct store {
    const struct store_ops *ops;
    const char *name;            /* in messages */
    const struct header *header; /* of the filter; its counters may be those of an earlier time */
    const struct filter *file;   /* NULL: the store is not a file, or the file is not made yet */
    bool wants_bytes; /* query and add need the keys' bytes (hashes.bytes), not only their hashes */
    struct add_state state;
};

/* All zero, or NULL instead of a pointer to them: the defaults. */
struct open_options {
    struct borrow borrow; /* how files of other programs are read */
    /* The rest is for stores that are not files. */
    unsigned timeout_ms; /* to connect, and for each reply; 0: the usual limits */
    /* Of TLS, as struct tls_files has them; NULL: not given. */
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    const char *password_file; /* its first line is the password; NULL: the environment has it */
    /* Number of replicas that must have received what is written. If they do not have keys in time,
     * adding fails, and the keys are not reported as added, although the server has them. */
    unsigned replicas;
};

struct store_ops {
    void (*describe)(const struct store *s, struct facts *facts);
    bool (*query)(struct store *s, struct hashes keys, size_t n, uint64_t *present,
                  struct err *err);
    bool (*census)(struct store *s, unsigned threads, struct census *layer, struct census *all,
                   struct err *err);

    /* NULL: no filter in such a store counts its keys. */
    bool (*query_counts)(struct store *s, struct hashes keys, size_t n, uint64_t *count,
                         struct err *err);

    /* NULL, both: no other process changes what is read of it. */
    bool (*enter)(struct store *s, size_t len, struct err *err);
    bool (*leave)(struct store *s, bool *again, struct err *err);

    bool (*add_begin)(struct store *s, const struct add_options *options, struct err *err);
    enum add_result (*add)(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err);
    bool (*add_end)(struct store *s, bool sync, struct err *err);

    bool (*make)(struct store *s, char layout[LAYOUT_TEXT], struct err *err); /* see store_make */

    void (*close)(struct store *s);
};

/* The store of that name, or NULL. The name must outlive it. */
struct store *store_open(const char *name, enum store_mode mode, const struct open_options *options,
                         struct err *err);
void store_close(struct store *s); /* or NULL */

/* A filter that is to be made if it does not exist. */
struct store_plan {
    uint64_t n; /* keys; 0: not given */
    double p;   /* FPR; 0: not given */
    /* Plans a missing file. In Redis, the filter follows from n, p and the address. */
    bool (*header)(void *ctx, struct header *h, struct err *err);
    void *ctx;
};

/* Opens a filter that need not exist, for writing. If it exists, it is opened as by store_open,
 * except that in Redis its size may also follow from n and p. If it does not exist, or if some of
 * its shards do not, *there is false, and it has only a header until store_make. Nothing is written
 * yet. */
struct store *store_prepare(const char *name, const struct store_plan *plan,
                            const struct open_options *options, bool *there, struct err *err);

/* Makes what store_prepare found missing, or opens what another process has made meanwhile. Each
 * shard is made in one step: of several processes that make it from different options, one makes it
 * completely, and the others use it, or fail if their addresses state another size. `layout`: the
 * layout that later addresses must state instead of that of this address; empty: the same. */
static inline bool store_make(struct store *s, char layout[LAYOUT_TEXT], struct err *err)
{
    return s->ops->make(s, layout, err);
}

/* Whole filters of other programs, copied from and to stores that are not files. */
struct store_push {
    struct open_options open;
    bool merge;      /* unite with the existing bits instead of replacing them */
    uint64_t expire; /* lifetime in seconds; 0: that of the existing filter */
};

/* The longest lifetime: its end, in milliseconds since 1970, must stay below 2^63. */
#define STORE_MAX_EXPIRE ((uint64_t)INT64_MAX / 2000)

/* Describes the filter, and copies the bits of each layer i to bits[i], as layout->read does from
 * files. The caller frees bits[i].owned. Keys that are added meanwhile may be included, with all of
 * their bits or some. */
bool store_pull(const char *name, const struct open_options *options, struct layout_filter *filter,
                struct layout_bits *bits, struct err *err);

/* Writes a filter in one step; data[i] is layer i. The bits go to a temporary place first, which
 * then replaces the existing filter, or is united with it. An existing configuration must fit; a
 * missing one is written. */
bool store_push(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                const struct store_push *options, struct err *err);

/* Is this the name of a file, not of another store? */
bool store_is_file(const char *name);

/* Does the name now refer to another file? False also if no file has that name. */
bool store_replaced(const struct store *s);

/* Are both the same store? */
bool store_same(const struct store *a, const struct store *b);

static inline void store_describe(const struct store *s, struct facts *facts)
{
    s->ops->describe(s, facts);
}

/* Begins a group of queries, or a census: takes up what other processes have done to the layers.
 * `len`: bytes of the keys to come; before many, a file is read ahead. Any number of threads may be
 * between this and store_leave, which must be called in any case. */
static inline bool store_enter(struct store *s, size_t len, struct err *err)
{
    return s->ops->enter == NULL || s->ops->enter(s, len, err);
}

/* Ends it, before its answers are used. Returns `ok`, or fails if the store was overwritten since
 * store_enter (filter_check_intact): then the answers are void. Sets *again if the same questions
 * may have answers now, from store_enter on (filter_is_doubtful). */
static inline bool store_leave(struct store *s, bool ok, bool *again, struct err *err)
{
    return (s->ops->leave == NULL || s->ops->leave(s, again, err)) && ok;
}

/* Clears bits 0..n-1 of present, then sets bit i if key i is present. n is at most LAYER_BATCH. Any
 * number of threads may query at once. Fails if the data needed for the answer is damaged. */
static inline bool store_query(struct store *s, struct hashes keys, size_t n, uint64_t *present,
                               struct err *err)
{
    return s->ops->query(s, keys, n, present, err);
}

/* Does the filter count its keys? If not, *err says so. */
bool store_check_counts(const struct store *s, struct err *err);

/* The same with a count for each key, 0 if absent. Requires store_check_counts. */
static inline bool store_query_counts(struct store *s, struct hashes keys, size_t n,
                                      uint64_t *count, struct err *err)
{
    return s->ops->query_counts(s, keys, n, count, err);
}

/* Takes a census of the bits: *all of all layers; layer[i] of layer i, unless `layer` is NULL.
 * Fails if the store was overwritten. */
static inline bool store_census(struct store *s, unsigned threads, struct census *layer,
                                struct census *all, struct err *err)
{
    struct census each[FORMAT_MAX_LAYERS];
    return s->ops->census(s, threads, layer != NULL ? layer : each, all, err);
}

/* Begins to add. If it succeeds, store_add_end must be called. */
static inline bool store_add_begin(struct store *s, const struct add_options *options,
                                   struct err *err)
{
    s->state = (struct add_state){0};
    return s->ops->add_begin(s, options, err);
}

/* Adds n keys in order, except those whose bit is set in `known`. Sets the bit in `known` of each
 * key that was already reported present. Each key is added as a whole or not at all. The first
 * *done keys are done: all n if it returns ADD_OK. */
static inline enum add_result store_add(struct store *s, struct hashes keys, uint64_t *known,
                                        size_t n, size_t *done, struct err *err)
{
    return s->ops->add(s, keys, known, n, done, err);
}

/* Ends adding: the keys are there, or it fails. Says in `state` if the filter is too full. `sync`
 * false trades durability for speed (session.h). */
static inline bool store_add_end(struct store *s, bool sync, struct err *err)
{
    return s->ops->add_end(s, sync, err);
}

/* ---- For store.c: where stores are that are not files. The prefix of a name tells. */
struct store_place {
    const char *prefix; /* "name://" */
    const char *needs;  /* the library without which `open` is not built */
    /* NULL, as all others then: this program was built without them. `prepare` may be NULL alone,
     * `pull` and `push` together: what is only read has a `push` that fails. */
    struct store *(*open)(const char *name, enum store_mode mode,
                          const struct open_options *options, struct err *err);
    struct store *(*prepare)(const char *name, const struct store_plan *plan,
                             const struct open_options *options, bool *there, struct err *err);
    bool (*pull)(const char *name, const struct open_options *options, struct layout_filter *filter,
                 struct layout_bits *bits, struct err *err);
    bool (*push)(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                 const struct store_push *options, struct err *err);
};

/* The last one has no prefix. Defined above the stores, where the servers' own code is. */
extern const struct store_place store_servers[];

/* ---- For store.c: the same for the file at `path`, which must outlive the store. */
struct store *file_open(const char *path, enum store_mode mode, const struct open_options *options,
                        struct err *err);
struct store *file_prepare(const char *path, const struct store_plan *plan,
                           const struct open_options *ignored, bool *there, struct err *err);

/* Makes an empty filter with this header in memory (filter_open_memory). NULL: see err. */
struct store *store_in_memory(const struct header *h, struct err *err);

#endif
