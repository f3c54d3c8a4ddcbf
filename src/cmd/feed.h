/* SPDX-License-Identifier: MIT
 * Feeds keys to a command: reads chunks of records from key files, standard input or -k, and calls
 * the command's functions for each: `work` on any thread, which splits and hashes the records, a
 * batch at a time; then `commit` and `finish` in input order.
 *
 *     struct result {
 *         struct feed_part part;                 // first; the rest is the command's
 *         ...
 *     };
 *
 *     static bool work(void *ctx, void *slot, struct err *err)
 *     {
 *         struct result *r = slot;
 *         struct batch *b = r->part.batch;
 *         while (batch_next(b))
 *             ... b->n records with b->hash ...
 *         return true;
 *     }
 *
 *     struct feed feed = {.keyopt = &keyopt, .title = "adding", .ctx = c, .work = work,
 *                         .slot_size = sizeof(struct result)};
 *     if (!feed_run(&feed)) return EXIT_ERROR;   // and has said why
 *
 * The header of a file (--header) is a chunk of its own, without batches. A command that prints
 * records also prints the first header (feed_header), which part.chunk->first_header marks.
 *
 * A slot belongs to one chunk of the input from work to finish. Slots are reused, so that buffers
 * live as long as the run. Keys given with -k are one chunk.
 */
#ifndef CMD_FEED_H
#define CMD_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/output.h"
#include "cmd/advice.h"
#include "cmd/keyopt.h"
#include "keys/batch.h"
#include "keys/input.h"
#include "keys/profile.h"

/* ---- What is counted of the records of the input, for messages and summaries. */

/* The records of one chunk. */
struct chunk_tally {
    uint64_t records, bad;
    uint64_t comments; /* counted in `records`, too */
    uint64_t empty;    /* keys; counted by `work`, if they are reported */
    uint64_t header;   /* records of a header, not counted in `records` */
    uint64_t newlines; /* between quotes of CSV */
    size_t hex_len;    /* of all keys (batch_join_len) */
    bool bad_record;   /* stopped before record `records` of the chunk, which has no key */
    struct err reason;
};

/* The records of all chunks committed so far. */
struct tally {
    struct input *input;
    size_t file;
    uint64_t in_file;      /* records before the next one in that file, or in the keys given */
    uint64_t newlines;     /* between quotes of these: a bad record of CSV is named by its line */
    uint64_t records, bad; /* without comments */
    uint64_t empty;
    size_t hex_len;
};

/* The name of the file that the records come from; not for keys given with -k. */
const char *tally_where(const struct tally *t);

/* Records that have a key. */
uint64_t tally_keys(const struct tally *t);

/* ---- Feeding keys. */

/* What feed.c keeps for a chunk. */
struct feed_part {
    const struct chunk *chunk;
    unsigned worker;     /* the thread of `work`, below keyopt->threads */
    struct batch *batch; /* for `work`: the thread's, at the chunk's beginning */
    struct chunk_tally tally;
    bool failed; /* work failed, for the reason in err: the chunk is neither committed nor finished
                  */
    struct err err;
};

struct feed {
    const struct keyopt *keyopt;
    const char *title;         /* of the progress line: "adding" */
    const struct stat *filter; /* a file that must not be read; NULL: none */
    bool prompt, questions;    /* as in input.h */
    bool keep_going;  /* a file that cannot be read is reported, and the next one read ... */
    bool no_messages; /* ... and is not even reported */
    bool keeps_bad;   /* records without a key are printed */
    bool *unread;     /* of each such file, true is noted here; NULL: not noted */

    void *ctx;
    size_t slot_size; /* bytes of a slot; zeroed before first use */

    /* Takes the batches of a chunk. On any thread, in any order. False fails the run; *err says
     * why. */
    bool (*work)(void *ctx, void *slot, struct err *err);
    /* In input order, one at a time. Not called if work failed. False stops the run; to fail the
     * run, the callback prints why and sets `failed`. NULL: nothing to do. */
    bool (*commit)(void *ctx, void *slot);
    /* For work that takes long after a commit, such as printing (finish in pump.h). False stops.
     * NULL: nothing to do. */
    bool (*finish)(void *ctx, void *slot);
    /* Frees what the command attached to a slot. NULL: nothing to free. */
    void (*slot_free)(void *slot);

    struct advice advice;
    bool samples;           /* the keys, for their ... */
    struct profile profile; /* ... profile, after feed_run */
    struct tally tally;     /* of the chunks committed so far */
    atomic_bool failed;     /* a message was printed */
    bool unreadable;        /* with keep_going: a file could not be read */
    /* The rest is private. */
    struct batch **batch; /* one a thread; NULL: not needed yet */
};

/* Reads all input. If keys come from a terminal, prints a note first. Returns !failed; also true if
 * a signal or a callback stopped it. */
bool feed_run(struct feed *f);

/* In work: begins the chunk's batches again. */
void feed_start(struct feed_part *part);

/* Appends a header; with `questions`, each record after "#" and a tab. False: out of memory. */
bool feed_header(const struct feed *f, const struct chunk *chunk, struct output *out);

/* In commit: fails the run because of record `n` of the chunk, from 0, or of its key. Returns
 * false. */
__attribute__((format(printf, 3, 4))) bool feed_fail(struct feed *f, uint64_t n, const char *fmt,
                                                     ...);

/* In commit: skips the rest of this file. False: it is the last file, so the run shall stop; the
 * tally has this chunk. */
bool feed_skip_file(struct feed *f, const struct feed_part *part);

/* In commit: if this chunk is of standard input, and that is a regular file, the next program that
 * reads it continues behind the first n records of the chunk. */
void feed_resume(struct feed *f, const struct chunk *chunk, uint64_t n);

/* Reports at the end how many records were skipped because they had no key, and how many keys were
 * empty. */
void feed_report(const struct feed *f);

#endif
