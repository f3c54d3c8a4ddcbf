/* SPDX-License-Identifier: MIT
 * The adder: opens or makes FILTER, reads keys and adds those that are not known yet. add prints no
 * records, dedup those of new keys.
 *
 *     struct it it = {.adding = ADDING_DEFAULT};
 *     {"Adding", adding_opts, offsetof(struct it, adding), NULL}, ...
 *     if (!adding_parse(&it.adding, p, &it))
 *         return p->status;
 *     adding_open(&it.adding, &err)
 *     ... open other files ...
 *     adding_make(&it.adding, &err)
 *     if (adding_run(&it.adding))
 *         ...                                      // final messages
 *     status = adding_end(&it.adding);
 *     adding_close(&it.adding);                    // in any case
 *
 * Worker threads split records, hash keys and query the filters of --also (sources.h). Commits run
 * one at a time: each adds the keys of one chunk under the filter's lock, and finds out which keys
 * are new. New records are printed after the commit, while the next chunk is added.
 */
#ifndef CMD_ADDING_H
#define CMD_ADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "cmd/feed.h"
#include "cmd/opt.h"
#include "cmd/sources.h"
#include "file/design.h"
#include "write/refit.h"
#include "store/store.h"
#include "write/writer.h"

extern const struct opt adding_opts[];      /* --max-fpr, --rotate-at-capacity, --no-sync */
extern const struct opt adding_make_opts[]; /* --create, and of what design */

/* The result of one chunk. */
struct added {
    struct feed_part part;
    struct writer_keys keys; /* of the records */
    size_t done;             /* keys that were added or found */
    /* With feed.finish only: an entry or a bit for each record. */
    const char **start; /* where each record begins, and where the last one ends */
    uint64_t *bad;      /* bit i: record i has no key */
    uint64_t *selected; /* bit i: record i is printed; set by finish */
    size_t capacity;    /* records */
    struct output out;  /* for what finish copies */
};

/* Warns if the filter `name` of seen's own, which is there, is another than --create would make. */
void adding_compare(const struct header *h, const char *name, const struct design *d);

struct adding {
    /* From the command line. */
    struct keyopt keyopt;
    bool lists;       /* without FILTER, key files may be given all the same */
    const char *path; /* FILTER; NULL: none */
    bool create;      /* make a missing filter */
    bool fixed, no_sync;
    struct design design; /* of a filter that is made: n, p, generations and grow */
    struct add_options options;
    struct sources sources; /* filters of --also: their keys are known, too */

    struct store *store; /* the filter that takes the keys */
    bool there;          /* before adding_make */
    struct feed feed;    /* title and finish are the caller's; its ctx is this struct, its slots are
                            struct added, of which finish prints records among the first `done` */
    bool stopped;        /* by feed.finish */
    /* The rest is private. */
    bool compared;            /* the first keys with the filter's (mismatch.h) */
    enum advance_clock clock; /* what was told of it */
    struct refit *refit;      /* NULL: the file keeps its size */
    char *scratch_dir;        /* of refit */
};

#define ADDING_DEFAULT                                                                             \
    {                                                                                              \
        .keyopt = KEYOPT_DEFAULT, .sources = SOURCES_DEFAULT                                       \
    }

/* Takes options, FILTER and key files from the command line into the command's struct `into`. False
 * as of opt_parse. */
bool adding_parse(struct adding *a, struct opt_parser *p, void *into);

/* Opens the filter, and adopts its key preparation. With `create`, it may be missing; then it is
 * planned. A file without a rate has the usual one. */
bool adding_open(struct adding *a, struct err *err);

/* Instead: makes a filter in memory, for this run. It grows; the rate is 1e-9 unless design.p gives
 * another. Call this after the sources are open. */
bool adding_open_memory(struct adding *a, struct err *err);

/* Makes the filter if it is missing; it is no failure if it exists by then. Call this after all
 * other files are open, because it fixes the key preparation. If another process made it from other
 * options, adopts its key preparation. */
bool adding_make(struct adding *a, struct err *err);

/* Adds all keys, up to a signal if those are caught (sig.h), and reports records without a key.
 * False: it could not begin to add; the reason was printed, unless it was a signal. */
bool adding_run(struct adding *a);

/* Resizes a growing file that was made, to fit the keys of this run. Returns the exit status: after
 * a failure, whose message was printed, after a signal, or after success. */
int adding_end(struct adding *a);

void adding_close(struct adding *a);

#endif
