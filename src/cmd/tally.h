/*
 * Counts the records of the input, for messages and summaries, and reports problems with them.
 * feed.h keeps the tally of a run; commands read it.
 *
 *     struct chunk_tally of_chunk = {0};              // any thread
 *     while (batch_next(b))
 *         tally_batch(&of_chunk, b);
 *     tally_batches_end(&of_chunk, b);
 *
 *     tally_begin(&tally, &chunk);                    // one chunk at a time, in input order
 *     tally_end(&tally, &of_chunk);
 */
#ifndef CMD_TALLY_H
#define CMD_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "keys/input.h"

/* The records of one chunk. */
struct chunk_tally {
    uint64_t records, bad;
    uint64_t header; /* records of a header, not counted in `records` */
    unsigned signs;  /* enum sign */
    size_t hex_len;  /* of all keys (batch_join_len) */
    bool bad_record; /* stopped before record `records` of the chunk, which has no key */
    struct err reason;
};

/* Call the first for each batch, the second after the last. */
void tally_batch(struct chunk_tally *of_chunk, const struct batch *b);
void tally_batches_end(struct chunk_tally *of_chunk, const struct batch *b);

/* The records of all chunks committed so far. */
struct tally {
    const struct input *input; /* NULL: keys given with -k */
    size_t file;
    uint64_t in_file; /* records before the next one in that file, or in the keys given */
    uint64_t records, bad;
    size_t hex_len;
    unsigned signs;   /* about which a hint was printed */
    unsigned refused; /* signs that are errors; set by the caller */
};

/* The source of the records in messages: a file's name, or "--key". */
const char *tally_where(const struct tally *t);

/* Call first in commit: sets in_file to 0 if the chunk begins another file. */
void tally_begin(struct tally *t, const struct chunk *chunk);

/* Call last: adds the chunk, prints notes about what it saw, and shows progress. If
 * there is a record without a key, prints an error and returns false. */
bool tally_end(struct tally *t, const struct chunk_tally *of_chunk);

/* Only adds records to the counts: for keys given with -k. */
void tally_add(struct tally *t, const struct chunk_tally *of_chunk);

/* Records that have a key. */
uint64_t tally_keys(const struct tally *t);

/* Reports at the end how many records were skipped because they had no key. */
void tally_report(const struct tally *t);

#endif
