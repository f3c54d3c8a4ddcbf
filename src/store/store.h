/*
 * A filter, wherever it lives: in a file, in memory or in Redis (redis.h).
 * Callers see no files, mappings or pages. A call takes any number of keys.
 *
 *     struct store *s = store_open(name, STORE_READ, NULL, &err);    // NULL: see err
 *     store_query(s, keys, n, present, &err);                        // any thread
 *     store_close(s);
 *
 *     store_add_begin(s, &options, &err);                            // opened with STORE_WRITE
 *     store_add(s, keys, known, n, &done, &err);                     // one thread at a time
 *     store_conclude(s, false);
 *     store_add_end(s, sync, &err);
 *
 * To add a new kind of store, implement one `struct store_ops` and add its name prefix to the list
 * store_servers.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "keys/hash.h"
#include "kind/layout.h"
#include "file/format.h"
#include "file/layers.h"
#include "write/writer.h"

struct filter;

enum store_mode {
    STORE_READ,
    STORE_WRITE, /* refuses filters to which no keys can be added */
};

/* What is known of a store without reading its bits. */
struct facts {
    struct layers layers;     /* valid until the store is refreshed or closed; data[i] is NULL if
                                 the bits are not on this machine */
    struct counters counters; /* as they are now, if keys are being added */
    bool is_writing;          /* a live process is adding keys */
    bool is_dirty;            /* a writer ended without leaving, and no writer has come since */
    bool needs_repair;        /* a page differs since a crash of the machine or a failed sync */
    bool slot_damaged;        /* one of two copies of the header */
    unsigned n_shards;        /* number of shards, each with these layers; a key is in one of them;
                                 0: the filter is not sharded */
};

struct store {
    const struct store_ops *ops;
    const char *name; /* in messages */
    bool wants_bytes; /* query and add need the keys' bytes, not only their hashes */
    struct add_state state;
};

/* For stores that are not files. All zero, or NULL instead of a pointer to them: the defaults. */
struct open_options {
    const char *password_file; /* its first line is the password; NULL: the environment has it */
    /* So many replicas must have received what is written; 0: they are not asked. If they do not
     * have keys in time, adding fails, and the keys are not reported as added, although the server
     * has them. */
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

    /* NULL: no other process changes it. */
    bool (*changed)(const struct store *s);
    bool (*refresh)(struct store *s, struct err *err);
    void (*expect)(struct store *s, bool many); /* NULL: no matter */

    /* NULL: it cannot be overwritten. */
    bool (*check_intact)(const struct store *s, struct err *err);

    bool (*add_begin)(struct store *s, const struct add_options *options, struct err *err);
    enum add_result (*add)(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err);
    void (*conclude)(struct store *s, bool again);

    /* NULL: nothing to do after keys have been added. */
    bool (*sync)(struct store *s, struct err *err);
    bool (*add_end)(struct store *s, bool sync, struct err *err);

    bool (*make)(struct store *s, char layout[LAYOUT_TEXT], struct err *err); /* see store_make */

    /* NULL: the store is not a file. */
    struct filter *(*file)(struct store *s);

    void (*close)(struct store *s);
};

/* The store of that name, or NULL. The name must outlive it. */
struct store *store_open(const char *name, enum store_mode mode, const struct open_options *options,
                         struct err *err);
void store_close(struct store *s); /* or NULL */

enum store_there { STORE_THERE, STORE_IN_PART, STORE_ABSENT };

/* A filter that is to be made if it does not exist. */
struct store_plan {
    enum store_mode mode; /* how an existing file is opened */
    uint64_t n;           /* keys; 0: not given */
    double p;             /* FPR; 0: not given */
    /* Plans a missing file. In Redis, the filter follows from n, p and the address. */
    bool (*header)(void *ctx, struct header *h, struct err *err);
    void *ctx;
};

/* Opens a filter that need not exist. If it exists, it is opened as by store_open, except that in
 * Redis its size may also follow from n and p. If it does not exist, or if some of its shards do
 * not, only store_header may be used until store_make. Nothing is written yet. */
struct store *store_prepare(const char *name, const struct store_plan *plan,
                            const struct open_options *options, enum store_there *there,
                            struct err *err);

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

/* The store's file, for operations that only files have (layers, pages, sessions). NULL: the store
 * is not a file; see err. */
struct filter *store_file(struct store *s, struct err *err);

/* The status of the store's file, which must not be read as keys. False: not a file. */
bool store_stat(struct store *s, struct stat *st);

/* Checks each page of the store's file, and sets the number of damaged ones. False: not a file. */
bool store_check_pages(struct store *s, unsigned threads, uint64_t *damaged);

/* Does the name now refer to another file? False also if no file has that name. */
bool store_replaced(struct store *s);

/* Are both the same store? */
bool store_same(struct store *a, struct store *b);

static inline void store_describe(const struct store *s, struct facts *facts)
{
    s->ops->describe(s, facts);
}

static inline const struct header *store_header(const struct store *s)
{
    struct facts facts;
    s->ops->describe(s, &facts);
    return facts.layers.header;
}

/* Does the store need hashes.bytes? If so, set key_rule.bytes (keys/batch.h). */
static inline bool store_wants_bytes(const struct store *s)
{
    return s->wants_bytes;
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

/* Has another process changed more than bits? Costs next to nothing. */
static inline bool store_changed(const struct store *s)
{
    return s->ops->changed != NULL && s->ops->changed(s);
}

/* Loads such changes. If it fails, the store can be used as before. Not beside queries. */
static inline bool store_refresh(struct store *s, struct err *err)
{
    return s->ops->refresh == NULL || s->ops->refresh(s, err);
}

/* Fails if the store was overwritten (filter_check_intact): then all answers since store_open are
 * void. Call it after a group of queries, before their answers are used. */
static inline bool store_check_intact(const struct store *s, struct err *err)
{
    return s->ops->check_intact == NULL || s->ops->check_intact(s, err);
}

/* Takes a census of the bits: *all of all layers; layer[i] of layer i, unless `layer` is NULL.
 * Fails if the store was overwritten. */
static inline bool store_census(struct store *s, unsigned threads, struct census *layer,
                                struct census *all, struct err *err)
{
    struct census each[FORMAT_MAX_LAYERS];
    return s->ops->census(s, threads, layer != NULL ? layer : each, all, err) &&
           store_check_intact(s, err);
}

/* Hints whether many keys will be queried. The default is many. */
static inline void store_expect(struct store *s, bool many)
{
    if (s->ops->expect != NULL)
        s->ops->expect(s, many);
}

/* Begins to add. Call store_add_end afterwards in any case. */
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

/* Call when all keys have been added. If the filter is fuller than designed, sets the warning to a
 * text about the final FPR; else empties it. Unless `again`, also empties it if an earlier warning
 * gave the same rate. */
static inline void store_conclude(struct store *s, bool again)
{
    s->ops->conclude(s, again);
}

/* Syncs the keys added so far. */
static inline bool store_sync(struct store *s, struct err *err)
{
    return s->ops->sync == NULL || s->ops->sync(s, err);
}

/* Ends adding. `sync` false trades durability for speed (session.h). */
static inline bool store_add_end(struct store *s, bool sync, struct err *err)
{
    return s->ops->add_end == NULL || s->ops->add_end(s, sync, err);
}

/* ---- For store.c: where stores are that are not files. The prefix of a name tells. */
struct store_place {
    const char *prefix;
    /* NULL, as all others then: this program was built without them. */
    struct store *(*open)(const char *name, enum store_mode mode,
                          const struct open_options *options, struct err *err);
    struct store *(*prepare)(const char *name, const struct store_plan *plan,
                             const struct open_options *options, enum store_there *there,
                             struct err *err);
    bool (*pull)(const char *name, const struct open_options *options, struct layout_filter *filter,
                 struct layout_bits *bits, struct err *err);
    bool (*push)(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                 const struct store_push *options, struct err *err);
};

/* The last one has no prefix. Defined above the stores, where the servers' own code is. */
extern const struct store_place store_servers[];

/* ---- For store.c: the same for the file at `path`, which must outlive the store. */
struct store *file_open(const char *path, enum store_mode mode, const struct open_options *ignored,
                        struct err *err);
struct store *file_prepare(const char *path, const struct store_plan *plan,
                           const struct open_options *ignored, enum store_there *there,
                           struct err *err);

/* Makes an empty filter with this header in memory (write/memory.h). NULL: see err. */
struct store *memory_open(const struct header *h, struct err *err);

/* For tests: closes the newest layer and begins another, as a full layer makes a writer do. */
bool memory_advance(struct store *s, struct err *err);

#endif
