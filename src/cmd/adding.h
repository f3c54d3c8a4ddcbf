/*
 * Reads keys and adds those that are not known yet, for add and dedup. add prints no records.
 *
 *     struct adding a = {.sources = SOURCES_DEFAULT,
 *                        .feed = {.keyopt = &keyopt, .title = "adding", .prompt = true}, ...};
 *     adding_open(&a, path, STORE_WRITE, &err)
 *     ... open other files ...
 *     adding_make(&a, &err)
 *     if (adding_begin(&a)) {
 *         adding_run(&a);
 *         ...                                      // final messages
 *     }
 *     status = adding_status(&a);
 *     adding_close(&a);                            // in any case
 *
 * Worker threads split records, hash keys and query the sources. Commits run one at a time: each
 * adds the keys of one chunk under the filter's lock, and finds out which keys are new. New records
 * are printed after the commit, while the next chunk is added.
 */
#ifndef CMD_ADDING_H
#define CMD_ADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "cmd/cmd.h"
#include "cmd/feed.h"
#include "cmd/sources.h"
#include "file/header.h"
#include "write/refit.h"
#include "store/store.h"
#include "write/writer.h"

/* The result of one chunk. */
struct added {
    struct feed_part part;
    struct writer_keys keys; /* of the records */
    size_t done;             /* keys that were added or found */
    /* With `print` only: an entry or a bit for each record. */
    const char **start; /* where each record begins, and where the last one ends */
    uint64_t *bad;      /* bit i: record i has no key */
    uint64_t *selected; /* bit i: record i is printed; set by `print` */
    size_t capacity;    /* records */
    struct output out;  /* for what `print` copies */
};

/* The capacity of the first layer of a growing filter that is made for these keys; 0: the usual
 * one. `alone`: no other filter is asked first, which may have some of the keys. */
uint64_t adding_first(const struct keyopt *keyopt, bool alone);

/* What a command that makes a missing filter is told of it. 0: not given. */
struct adding_design {
    uint64_t n; /* capacity, of a filter that grows that of its first layer */
    double p;
    unsigned generations;
    bool fixed; /* it does not grow */
};

/* Takes the argument of --generations. */
bool adding_take_generations(struct adding_design *d, struct opt_parser *p);

/* Warns if the filter `name` of seen's own, which is there, is another than --create would make. */
void adding_compare(const struct header *h, const char *name, const struct adding_design *d);

struct adding {
    struct feed feed; /* keyopt, title and prompt are the caller's; the rest is set here */
    struct adding_design design;
    struct sources sources; /* their keys are known */
    struct store *store;    /* the filter that takes the keys */
    bool in_memory;         /* it lives for this run only */
    enum store_there there; /* before adding_make */
    bool create;            /* make a missing filter */
    bool no_sync;
    struct add_options options;
    const char *advice; /* follows the message about a key that options.max_fpr refuses; or NULL */
    /* Selects and prints records among the first r->done of a chunk. Returns false to stop, and
     * sets feed.failed if the reason is a failure. NULL: nothing is printed. */
    bool (*print)(void *ctx, const struct chunk *chunk, struct added *r);
    void *ctx;
    /* The rest is private. */
    bool made;           /* the filter, by this process */
    bool stopped;        /* by `print` */
    struct refit *refit; /* NULL: the file keeps its size */
    char *scratch_dir;   /* of refit */
};

/* Can there be a filter of this design? Returns the exit status after a message, or 0. */
int adding_check_design(const struct adding *a);

/* Opens the filter, and adopts its key preparation. With `create`, it may be missing; then it is
 * planned. A file without a rate has the usual one. With STORE_READ, it is only looked at. */
bool adding_open(struct adding *a, const char *path, enum store_mode mode, struct err *err);

/* Makes the filter if it is missing; it is no failure if it exists by then. Call this after all
 * other files are open, because it fixes the key preparation. If another process made it from other
 * options, adopts its key preparation. At its end, adding_run resizes a growing file to fit the
 * keys of this run. */
bool adding_make(struct adding *a, struct err *err);

/* Catches signals (sig.h), and begins to add. False: adding_status says with which status to end;
 * the reason was printed, unless it was a signal. */
bool adding_begin(struct adding *a);

/* Adds all keys, and reports records without a key. */
void adding_run(struct adding *a);

/* The exit status after a failure, whose message was printed, after a signal, or after success. */
int adding_status(const struct adding *a);

void adding_close(struct adding *a);

#endif
