/*
 * What create, add and query have in common: the options that say where keys come from and how they
 * are cut from records, and the bookkeeping of records for messages.
 *
 *     struct keyarg ka = KEYARG_DEFAULT;
 *     while ((id = opt_next(&p)) > 0)
 *         switch (id) { case OPT_OWN: ...; break; default: if (!keyarg_take(&ka, &p, id)) return
 *         EXIT_ERROR; }
 *     if (!keyarg_files(&ka, &command, argv + first, argc - first)) return EXIT_ERROR;
 *     if (!keyarg_adopt(&ka, &filter.header, &err)) ...     // preparation as stored in the filter
 */
#ifndef CMD_KEYARG_H
#define CMD_KEYARG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "keys/batch.h"
#include "keys/input.h"
#include "keys/pump.h"
#include "store/format.h"

struct keyarg {
    struct key_rule rule;
    unsigned threads;
    bool no_gzip, progress;
    const char **keys; /* -k, in order */
    size_t n_keys, room_keys;
    char *given;         /* the same as records ... */
    const char **record; /* ... where they begin, and the last one ends */
    char *const *files;
    size_t n_files;
    bool any; /* -k or a key file was given */
    bool prints; /* records are printed as they come, so no key file may be standard output */
};

#define KEYARG_DEFAULT {.rule = {.terminator = '\n', .delimiter = '\t'}}

extern const struct opt keyarg_opts[];      /* input and cutting */
extern const struct opt keyarg_prep_opts[]; /* preparation: -x, -i, --trim */

/* Takes one of these options, which it must be. Reports a mistake itself. */
bool keyarg_take(struct keyarg *ka, struct opt_parser *p, int id);

/* Takes the operands behind FILTER. Reports a mistake itself. */
bool keyarg_files(struct keyarg *ka, const struct command *command, char **files, int n);
void keyarg_free(struct keyarg *ka);

/* Takes over a filter's preparation and seed; fails if other preparation was asked for. `path`
 * names it in the message. */
bool keyarg_adopt(struct keyarg *ka, const struct header *header, const char *path,
                  struct err *err);

/* Puts the next keys given with -k into a new batch, as records with a terminator each. *next
 * counts those done and starts at 0. False when none is left, or with b->bad_record set. */
bool keyarg_batch(const struct keyarg *ka, size_t *next, struct batch *b);

/* Call it when that is done. Says so, and returns false, if it stopped at a key that is none. */
bool keyarg_batch_end(const struct keyarg *ka, size_t next, const struct batch *b);

/* A batch for each thread, or NULL, and said why. */
struct batch **keyarg_batches(const struct keyarg *ka);
void keyarg_batches_free(const struct keyarg *ka, struct batch **batches);

/* Warns of a file that was not left clean. */
struct filter;
void keyarg_warn(const struct filter *f);

/* Hints at --crlf when lines of a list that is read beside the records end in CR. */
void keyarg_hint_crlf(const struct keyarg *ka, bool saw_cr, const char *path);

/* What a worker found out about the records of one chunk. */
struct chunk_tally {
    uint64_t records, bad;
    bool saw_cr;
    bool bad_record; /* stopped before record `records` of the chunk: it has no key */
    struct err reason;
};

/* Call the first for each batch, the second after the last. */
void tally_batch(struct chunk_tally *tally, const struct batch *b);
void tally_batches_end(struct chunk_tally *tally, const struct batch *b);

/* The records of all chunks committed so far. */
struct tally {
    const struct input *input; /* NULL: keys given with -k */
    const struct keyarg *ka;
    size_t file;
    uint64_t in_file; /* records before the next one in that file */
    uint64_t records, bad, bytes;
    bool hinted, warned; /* of CRs, of compressed data */
};

/* Runs the records of the key files or of standard input (not for -k) through a pump, of which it
 * sets input and threads. `filter`, unless NULL, is refused as a key file; `prompt` is input.h's.
 * Says on stderr that keys are awaited if they come from a terminal. False, and said why, if they
 * cannot be read. */
bool keyarg_pump(struct pump *pump, struct tally *t, const struct stat *filter, bool prompt);

/* Call it first of all in commit: brings in_file up to the beginning of this chunk. */
void tally_begin(struct tally *t, const struct chunk *chunk);

/* Call it last: adds the chunk, gives the hint about CRs, warns of compressed data and shows
 * progress. False, and said why, if there is a record without a key. */
bool tally_end(struct tally *t, const struct chunk *chunk, const struct chunk_tally *of_chunk);

/* Says at the end how many records were left out for want of a key. */
void tally_report(const struct tally *t);

#endif
