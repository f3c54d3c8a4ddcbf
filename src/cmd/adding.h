/*
 * Reads keys and adds them to what is known, for add and dedup. add is the case that
 * prints nothing.
 *
 *     struct adding a = {.feed = {.keyopt = &keyopt, .title = "adding", .prompt = true}, ...};
 *     known_open(&a.known, name, &err)             // and so on: known.h
 *     if (adding_run(&a))
 *         ...                                      // what is to be said at the end
 *     status = adding_status(&a);
 *     known_close(&a.known);                       // in any case
 *
 * Workers cut and hash, and ask the filters that are only read, and the layers of the one that is
 * added to that take no more keys. Commits, one after another, add a chunk's keys under the
 * filter's lock, with the help of workers that wait for a chunk, and so learn which are new; what
 * is new is printed behind that, while the next chunk is being added.
 */
#ifndef CMD_ADDING_H
#define CMD_ADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/feed.h"
#include "cmd/known.h"
#include "keys/forecast.h"
#include "store/header.h"
#include "store/refit.h"
#include "store/writer_keys.h"

/* What came of one chunk. */
struct added {
    struct feed_part part;
    struct writer_keys keys; /* of the records */
    size_t done;            /* keys that were added or found */
    struct refit_keys kept; /* the same keys, on their way to refit */
    /* With `print` only: a place for each record. */
    const char **start; /* where it begins, and where the last one ends */
    uint64_t *bad;      /* a bit: it has no key */
    uint64_t *selected; /* a bit: for `print` to use */
    size_t capacity;    /* records */
};

/* The capacity of the first layer of a growing filter that is made for these keys; 0: the usual
 * one. `alone`: no other filter may have some of the keys, which would then not come into it. */
uint64_t adding_first(const struct keyopt *keyopt, bool alone);

/* Plans a filter file for n keys, or if n is 0 one that grows, at FPR p, or the usual one if p is
 * 0. `alone` as above. */
bool adding_plan_file(struct keyopt *keyopt, uint64_t n, double p, bool alone, struct header *h,
                      struct err *err);

struct adding {
    struct feed feed; /* keyopt, title and prompt are the caller's; the rest is set here */
    struct known known;
    struct add_options options;
    bool no_sync;
    bool counts; /* known_n_new is wanted */
    uint64_t sync_every; /* sync before more is printed, after so many new keys; 0: never */
    /* Prints what is to be printed of the first r->done records of a chunk. False stops, and sets
     * feed.failed if that is a failure. NULL: nothing is printed. */
    bool (*print)(void *ctx, const struct chunk *chunk, struct added *r);
    size_t slot_size; /* of what begins with a struct added; 0: of that alone */
    void *ctx;
    void (*slot_free)(void *ctx, void *slot); /* what is behind struct added; NULL: nothing */
    /* The rest is private. */
    struct header made; /* of the file that adding_make_file has made; n_layers 0: none */
    struct refit *refit; /* NULL: the size of the file remains */
    char *scratch_dir;   /* of refit */
    struct kept_keys kept;
    struct crew crew; /* workers that wait for a chunk */
    const struct refit_keys *now; /* those that are being added */
    bool stopped;        /* by `print` */
    uint64_t since_sync;
    struct forecast forecast;
    bool unforeseen; /* nothing can be foretold of this input */
};

/* Makes a planned file at `path`, unless something is there by then: that is no failure. Key
 * preparation is fixed by that, so all else that is needed should be there. If it grows, adding_run
 * gives it the right size for the keys of this run in the end. */
bool adding_make_file(struct adding *a, const char *path, const struct header *h, struct err *err);

/* Adds all keys, under signals caught, and reports records without a key. False: nothing was begun;
 * why has been said, if it was no signal. */
bool adding_run(struct adding *a);

/* The exit status by what failed, which has been said, and by signals. */
int adding_status(const struct adding *a);

#endif
