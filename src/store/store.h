/*
 * A filter, wherever it lives: in a file (file.h), in memory (memory.h) or in Redis (redis.h).
 * Above this there is no file, mapping or page. The unit of every call is a batch of keys.
 *
 *     struct store *s = store_open(name, STORE_READ, &err);          // NULL: see err
 *     store_query(s, keys, n, present, &err);                        // any thread
 *     store_close(s);
 *
 *     store_add_begin(s, &options, &err);                            // opened with STORE_WRITE
 *     store_peek(s, keys, n, &peeked);                               // any thread; or not at all
 *     store_add(s, keys, known, &peeked, n, &done, &err);            // one thread at a time
 *     store_conclude(s, false);
 *     store_add_end(s, sync, &err);
 *
 * To add a place where filters live: write its file with one `struct store_ops`, and name the
 * prefix of its names in the list in store.c.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/crew.h"
#include "base/err.h"
#include "keys/hash.h"
#include "keys/keyset.h"
#include "store/layers.h"

struct filter;

enum store_mode {
    STORE_READ,
    STORE_WRITE, /* refuses what no keys can be added to */
};

enum add_result {
    ADD_OK,
    ADD_FULL, /* key *done and those behind it were not added, for the reason in *err */
    ADD_FAILED,
};

/* All keys that have been given to a filter, kept by the caller (refit.h). When the filter grows,
 * they go into the new layer too, and the layers before it need not be asked any more. */
struct kept_keys {
    void *ctx;

    /* Are these all keys of the filter with this id, which was given so many records? Of the call
     * of store_add that asks this, the first `done` keys count. */
    bool (*complete)(void *ctx, const uint8_t *id, uint64_t records, size_t done);

    /* Hands them over, as keyset_each does. */
    bool (*each)(void *ctx, size_t done, unsigned threads, keyset_each_fn *each, void *to,
                 struct err *err);

    /* Keeps them no longer, as the filter may need the disk space. False: none were kept. */
    bool (*forget)(void *ctx);
};

struct add_options {
    unsigned threads;
    double max_fpr; /* refuse to pass it; 0: no limit */
    bool rotate;    /* rotate a ring whose newest generation is full */
    bool may_repeat; /* the caller does not rely on which keys were new ... */
    bool may_guess;  /* ... nor on how many */
    const struct kept_keys *kept; /* NULL: none are */
    struct crew *crew; /* threads that may help store_add; NULL: none. It changes no result. */
};

/* What adding has come to since store_add_begin. */
struct add_state {
    uint64_t n_new;    /* keys added that were not reported present */
    double dropped;    /* keys probably taken for present that were not: sum of fpr / (1 - fpr) */
    char warning[512]; /* what the last call found worth saying; empty: nothing */
    bool ends;         /* set by the caller: the input is known to end ... */
    uint64_t ahead;    /* ... and about so many keys are still to come of it */
    uint64_t to_come;  /* set by the caller: about so many new keys are still to come, those that it
                          adds now among them, if a filter has to grow; 0: nobody knows */
};

/* What layers that take no more keys say of keys that are going to be added: those layers need not
 * be asked again then. */
struct peeked {
    uint64_t *present; /* bit i: one of them has key i */
    unsigned first, layers; /* those from `first` on before this one were asked; 0: none */
    uint64_t file;     /* the filter's number of those that were under its name (filter.h) */
};

/* What is known of a store without reading its bits. */
struct facts {
    struct layers layers;     /* until the store is refreshed or closed; data[i] is NULL if the bits
                                 are not on this machine */
    struct counters counters; /* as they are now, if keys are being added */
    bool is_writing;          /* a live process is adding keys */
    bool is_dirty;            /* a process died while adding keys, and nobody has repaired it */
    bool slot_damaged;        /* one of two copies of the header */
    unsigned n_shards; /* the filter is so many, each with these layers, and a key is in one of
                          them; 0: it is one */
    size_t chunk; /* bytes of input whose keys are best added by one call; 0: it does not matter */
    bool gather;  /* that is worth waiting for while the input has nothing more ready */
};

struct store {
    const struct store_ops *ops;
    const char *name; /* in messages */
    bool wants_bytes; /* query and add need the keys' bytes, not only their hashes */
    struct add_state state;
};

struct store_ops {
    void (*describe)(const struct store *s, struct facts *facts);
    bool (*query)(struct store *s, struct hashes keys, size_t n, uint64_t *present,
                  struct err *err);
    bool (*census)(struct store *s, unsigned threads, struct census *layer, struct census *all,
                   struct err *err);

    /* NULL: no filter in such a place counts. */
    bool (*query_counts)(struct store *s, struct hashes keys, size_t n, uint64_t *count,
                         struct err *err);

    /* NULL: no other process changes it. */
    bool (*changed)(const struct store *s);
    bool (*refresh)(struct store *s, struct err *err);
    void (*expect)(struct store *s, bool many); /* NULL: no matter */

    bool (*add_begin)(struct store *s, const struct add_options *options, struct err *err);
    /* NULL: it does not pay. */
    void (*peek)(struct store *s, struct hashes keys, size_t n, struct peeked *out);
    enum add_result (*add)(struct store *s, struct hashes keys, uint64_t *known,
                           const struct peeked *peeked, size_t n, size_t *done, struct err *err);
    void (*conclude)(struct store *s, bool again);

    /* NULL: nothing is left to do when keys have been added. */
    bool (*sync)(struct store *s, struct err *err);
    bool (*add_end)(struct store *s, bool sync, struct err *err);

    /* NULL: there is nothing to say. */
    void (*tell_way)(struct store *s, char *out, size_t room);

    /* NULL: it is none. */
    struct filter *(*file)(struct store *s);

    void (*close)(struct store *s);
};

/* The store of that name, or NULL. The name must outlive it. */
struct store *store_open(const char *name, enum store_mode mode, struct err *err);
void store_close(struct store *s); /* or NULL */

/* Does a file have that name? Only a file can be made by filter_build_empty_file. */
bool store_is_file(const char *name);

/* The file that it is, for what only files can do: their layers, pages and sessions. Another store
 * is refused: NULL. */
struct filter *store_file(struct store *s, struct err *err);

/* The file that it is in, which must not be read as keys. False: in none. */
bool store_stat(struct store *s, struct stat *st);

/* Does its name stand for another file now? False also if there is none of that name. */
bool store_replaced(struct store *s);

/* Are these one and the same? */
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

/* Does it need hashes.bytes? Then the rule by which keys are made must say so (keys/batch.h). */
static inline bool store_wants_bytes(const struct store *s)
{
    return s->wants_bytes;
}

/* Sets bit i of present when key i is in, after clearing bits 0..n-1. n is at most LAYER_BATCH. Any
 * number of threads may ask at once. Fails when what it would answer from is damaged. */
static inline bool store_query(struct store *s, struct hashes keys, size_t n, uint64_t *present,
                               struct err *err)
{
    return s->ops->query(s, keys, n, present, err);
}

/* Does the filter count its keys? If not, says so. */
bool store_check_counts(const struct store *s, struct err *err);

/* The same with a count for each key, 0 if it is not in. Only if store_check_counts. */
static inline bool store_query_counts(struct store *s, struct hashes keys, size_t n,
                                      uint64_t *count, struct err *err)
{
    return s->ops->query_counts(s, keys, n, count, err);
}

/* What all bits say: *all, and unless `layer` is NULL, layer[i] of each layer i. */
static inline bool store_census(struct store *s, unsigned threads, struct census *layer,
                                struct census *all, struct err *err)
{
    struct census each[FORMAT_MAX_LAYERS];
    return s->ops->census(s, threads, layer != NULL ? layer : each, all, err);
}

/* Has another process changed more than bits? Costs next to nothing. */
static inline bool store_changed(const struct store *s)
{
    return s->ops->changed != NULL && s->ops->changed(s);
}

/* Takes notice of that. If it fails, the store can be used as before. Not beside queries. */
static inline bool store_refresh(struct store *s, struct err *err)
{
    return s->ops->refresh == NULL || s->ops->refresh(s, err);
}

/* Tells in words how many keys were asked or added in which way; false: there is but one. */
static inline bool store_tell_way(struct store *s, char *out, size_t room)
{
    if (s->ops->tell_way != NULL)
        s->ops->tell_way(s, out, room);
    return s->ops->tell_way != NULL;
}

/* Will many keys be asked for? At first many are expected. */
static inline void store_expect(struct store *s, bool many)
{
    if (s->ops->expect != NULL)
        s->ops->expect(s, many);
}

/* Begins to add; afterwards comes store_add_end, in any case. */
static inline bool store_add_begin(struct store *s, const struct add_options *options,
                                   struct err *err)
{
    s->state = (struct add_state){0};
    return s->ops->add_begin(s, options, err);
}

/* Asks the layers that take no more keys for n keys that are to be added. Sets out->layers and
 * out->file, and unless layers is 0, bits 0..n-1 of out->present. Any number of threads may do so,
 * beside store_add too. What cannot be asked is left to store_add, which tells why. */
static inline void store_peek(struct store *s, struct hashes keys, size_t n, struct peeked *out)
{
    out->layers = 0;
    if (s->ops->peek != NULL)
        s->ops->peek(s, keys, n, out);
}

/* Adds n keys in order, but not those whose bit is set in `known`; sets the bits of those that had
 * been reported present before they came. Each key is added as a whole or not at all. The first
 * *done have been dealt with: all n if it returns ADD_OK. `peeked` is what store_peek said of these
 * keys, or NULL. It changes no result. */
static inline enum add_result store_add(struct store *s, struct hashes keys, uint64_t *known,
                                        const struct peeked *peeked, size_t n, size_t *done,
                                        struct err *err)
{
    return s->ops->add(s, keys, known, peeked, n, done, err);
}

/* When all has been added: sets the warning to what is to be said of the final FPR if the filter is
 * fuller than it was made for; else, and unless `again` if an earlier warning told of that very
 * rate, empties it. */
static inline void store_conclude(struct store *s, bool again)
{
    s->ops->conclude(s, again);
}

/* Syncs what was added so far. */
static inline bool store_sync(struct store *s, struct err *err)
{
    return s->ops->sync == NULL || s->ops->sync(s, err);
}

/* Ends adding. `sync` false trades durability for speed (session.h). */
static inline bool store_add_end(struct store *s, bool sync, struct err *err)
{
    return s->ops->add_end == NULL || s->ops->add_end(s, sync, err);
}

#endif
