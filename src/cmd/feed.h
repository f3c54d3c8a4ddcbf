/*
 * Feeds keys to a command: reads records from key files, standard input or -k, splits and hashes
 * them on all threads, and delivers them in batches.
 *
 *     struct result {
 *         struct feed_part part;                 // first; the rest is the command's
 *         ...
 *     };
 *
 *     static bool work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot,
 *                      struct err *err)
 *     {
 *         struct result *r = slot;
 *         struct batch *b;
 *         while ((b = feed_next(&r->part)) != NULL)
 *             ... b->n records with b->hash ...
 *         return true;
 *     }
 *
 *     struct feed feed = {.keyopt = &keyopt, .title = "adding", .ctx = c, .work = work,
 *                         .slot_size = sizeof(struct result)};
 *     if (!feed_run(&feed)) return EXIT_ERROR;   // and has said why
 *
 * The header of a file (--header) is a chunk of its own, without batches. A command that prints
 * records also prints the data of the first header, which chunk->first_header marks.
 *
 * A slot belongs to one chunk of the input from work to finish. Slots are reused, so that buffers
 * live as long as the run. Keys given with -k come as chunks of one batch each.
 */
#ifndef CMD_FEED_H
#define CMD_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"
#include "cmd/keyopt.h"
#include "cmd/tally.h"
#include "keys/batch.h"
#include "keys/input.h"

/* What feed.c keeps for a chunk. */
struct feed_part {
    struct chunk_tally tally;
    bool failed; /* work failed; err says why */
    struct err err;
    /* The rest is private. */
    struct batch *batch;
    bool is_given, is_taken; /* the batch is of keys given with -k; it was delivered */
};

struct feed {
    const struct keyopt *keyopt;
    const char *title;         /* of the progress line: "adding" */
    const struct stat *refuse; /* a file that must not be read: the filter itself; NULL: none */
    bool prompt, questions;    /* as in input.h ... */
    size_t chunk_len;          /* ... and this too */
    bool only_files;           /* the command has no -k */
    bool keep_going;  /* a file that cannot be read is reported, and the next one read ... */
    bool no_messages; /* ... and is not even reported */
    void (*unread)(void *ctx, size_t file); /* it is reported to the command, too; may be NULL */

    void *ctx;
    size_t slot_size; /* bytes of a slot; zeroed before first use */

    /* Takes the batches of a chunk. On any thread, in any order; `worker` is below keyopt->threads.
     * False fails the run; *err says why. */
    bool (*work)(void *ctx, unsigned worker, const struct chunk *chunk, void *slot,
                 struct err *err);
    /* In input order, one at a time. Also called for a part that failed; its results before the
     * failure are valid. False stops the run; to fail the run, the callback prints why and sets
     * `failed`. NULL: nothing to do. */
    bool (*commit)(void *ctx, const struct chunk *chunk, void *slot);
    /* For work that takes long after a commit, such as printing (finish in pump.h). False stops.
     * NULL: nothing to do. */
    bool (*finish)(void *ctx, const struct chunk *chunk, void *slot);
    /* Frees what the command attached to a slot. NULL: nothing to free. */
    void (*slot_free)(void *ctx, void *slot);

    struct tally tally; /* of the chunks committed so far */
    atomic_bool failed; /* a message was printed */
    bool unreadable;    /* with keep_going: a file could not be read */
    /* The rest is private. */
    struct batch **batch; /* one a thread */
    struct input *input;
};

/* Reads all input. If keys come from a terminal, prints a note first. Returns !failed; also true if
 * a signal or a callback stopped it. */
bool feed_run(struct feed *f);

/* The next batch of the slot's chunk; NULL at its end. */
struct batch *feed_next(struct feed_part *part);

/* In commit: no more of this file is wanted. False: nor of the run, as it is the last file; the
 * tally then has the chunk. */
bool feed_skip_file(struct feed *f, const struct feed_part *part);

/* Begins the chunk once more, if the way that keys are hashed has changed. */
void feed_again(struct feed_part *part, const struct chunk *chunk);

#endif
