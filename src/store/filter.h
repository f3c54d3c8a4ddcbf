/*
 * A filter file, open and mapped: find out what it is, ask it, look into it.
 *
 *     struct filter f;
 *     if (!filter_open(&f, path, FILTER_READ, &err)) ...
 *     filter_query(&f, keys, n, present, &err);
 *     filter_close(&f);
 *
 * Opening reads the header and nothing else. Pages are checked against their checksums when a query
 * first needs them, if the file was clean; a page that does not hold makes filter_query fail rather
 * than say "absent". A writer checks a page before it changes it (session.h). If the mapped file
 * shrinks or cannot be read while it is in use, the process ends with a message and status 2.
 */
#ifndef STORE_FILTER_H
#define STORE_FILTER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/format.h"
#include "store/layers.h"

enum filter_mode {
    FILTER_READ,
    FILTER_WRITE, /* for session.h; refuses what cannot be written to */
};

enum filter_health {
    FILTER_CLEAN,
    FILTER_WRITING, /* a live process is adding keys */
    FILTER_DIRTY,   /* a process died while adding keys, and nobody has repaired the file */
};

struct filter {
    const char *path; /* as given; must outlive the filter */
    int fd;
    bool writable;
    uint8_t *map; /* all of the file as its header has it, or more, shared; NULL: not open */
    uint64_t map_len;
    struct header header;
    uint8_t *data[FORMAT_MAX_LAYERS]; /* of each layer, in the mapping */
    bool slot_damaged; /* one of two header slots does not hold */
    atomic_bool few;   /* few keys are expected (filter_few.h) */
    /* Checking of pages on first touch: a bit for each page that held, and how many are left. */
    _Atomic bool verifying;
    _Atomic uint64_t *verified[FORMAT_MAX_LAYERS];
    _Atomic uint64_t unverified[FORMAT_MAX_LAYERS];
    /* Held for writing while header or mapping change, for threads that ask beside a writer and
     * hold it for reading; the caller's. NULL: there are none. */
    pthread_rwlock_t *gate;
    uint64_t number; /* so many files were under this name, and open here, before this one */
};

/* Around each change of header or mapping; they do not nest. */
static inline void filter_shut(const struct filter *f)
{
    if (f->gate != NULL)
        pthread_rwlock_wrlock(f->gate);
}

static inline void filter_unshut(const struct filter *f)
{
    if (f->gate != NULL)
        pthread_rwlock_unlock(f->gate);
}

/* Refuses a file that standard output or standard error goes to. */
bool filter_open(struct filter *f, const char *path, enum filter_mode mode, struct err *err);
void filter_close(struct filter *f);

/* What there is to ask and to read, wherever the file is mapped. */
static inline struct layers filter_layers(const struct filter *f)
{
    return (struct layers){&f->header, f->data};
}

/* Sets bit i of present when key i is in any layer, after clearing bits 0..n-1. n is at most
 * LAYER_BATCH. Any number of threads may ask at once. Fails when a page is damaged. */
bool filter_query(struct filter *f, struct hashes keys, size_t n, uint64_t *present,
                  struct err *err);

/* Sets count[i] to the count of key i, 0 if it is not in. Only of filters with kind->counts. n, and
 * failures, as above. */
bool filter_query_counts(struct filter *f, struct hashes keys, size_t n, uint64_t *count,
                         struct err *err);

/* Checks the pages of a layer that decide about these keys, each once while the file is open,
 * against their checksums: for those who go to the layer itself, before they do. A writer calls it
 * under its lock; pages that the session has touched, and those of a dirty file, have no checksums
 * and pass. n is at most LAYER_BATCH. Any number of threads may ask at once. */
bool filter_verify(struct filter *f, unsigned layer, struct hashes keys, size_t n,
                   struct err *err);

/* The same for one page. */
bool filter_verify_page(struct filter *f, unsigned layer, uint64_t page, struct err *err);

/* Hints the access pattern: many keys, with read-ahead (the default), or few, for which only the
 * pages that they need are read. */
void filter_expect(struct filter *f, bool many);

/* The file's state, told from its header and from who holds its locks. */
enum filter_health filter_health(const struct filter *f);

/* Was the header written since it was read? Finding that out costs next to nothing. */
bool filter_changed(const struct filter *f);

/* Reads the header again (another process may have written it): the valid slot with the higher
 * epoch; and maps the file anew if it has grown. If it fails, the filter can be used as before:
 * header and mapping are the old ones. Not beside queries of the same struct filter. */
bool filter_reload(struct filter *f, struct err *err);

/* Gets the memory that the file takes with the header `h`, which it is about to have: the mapping
 * and what is needed to verify pages. If it fails, the filter can be used as before. */
bool filter_prepare(struct filter *f, const struct header *h, struct err *err);

/* The same, if the header was written since it was read. */
bool filter_refresh(struct filter *f, struct err *err);

/* The bytes of a page of a layer, and how many they are. */
const uint8_t *filter_page(const struct filter *f, unsigned layer, uint64_t page, size_t *len);

/* Census of one layer, and of the whole (layers.h). */
void filter_census(const struct filter *f, unsigned layer, unsigned threads, struct census *out);
void filter_census_all(const struct filter *f, unsigned threads, struct census *out);

/* A damaged page, its offset in the file, and a predicate: "does not match its checksum". */
typedef void filter_damage(void *ctx, unsigned layer, uint64_t page, uint64_t offset,
                           const char *why);

/* Checks every page of every layer: its checksum, and if that holds its contents. Calls `damaged`,
 * unless NULL, for each that is damaged: one call at a time, in any order. In a file that
 * is being written, pages touched since cannot be checked, and in a dirty one those that differ
 * cannot be told from damaged ones; they are counted in *unchecked. Returns the number of damaged
 * pages. Progress is told, if the caller has begun any (progress.h). */
uint64_t filter_check_pages(const struct filter *f, unsigned threads, uint64_t *unchecked,
                            filter_damage *damaged, void *ctx);

/* Fails if a page of the file is damaged: for those who make another file of it. Reads the header
 * again if a writer has changed it meanwhile. */
bool filter_check_sound(struct filter *f, unsigned threads, struct err *err);

#endif
