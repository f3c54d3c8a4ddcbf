/*
 * A source: one open file of the input, as those who read it see it (regular.h, mapped_input.h,
 * stream.h, gzip.h), and what they share: waiting for bytes, counting them, messages.
 */
#ifndef KEYS_SOURCE_H
#define KEYS_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct source {
    int fd;
    const char *name; /* for messages */
    char terminator;  /* of records */
    bool prompt;      /* deliver what has come as soon as nothing more is ready */
    bool secret;      /* what was read is overwritten after use */
    size_t chunk_len; /* bytes in which the records of a chunk begin */
    /* Of the whole input. */
    const atomic_bool *stopped;
    _Atomic uint64_t *done; /* bytes taken from the files */
};

/* What comes behind the bytes that have been read. */
enum source_end {
    SOURCE_GOES_ON, /* or that is not known yet */
    SOURCE_ENDED,
    SOURCE_STOPPED, /* by a signal or input_stop */
    SOURCE_BROKEN,  /* an error says how */
};

/* Reads what is there, at most `capacity` bytes; with `wait`, waits until there is something. 0
 * with *end as it was: nothing is there yet. *why is set with SOURCE_BROKEN. */
size_t source_read(const struct source *src, void *to, size_t capacity, bool wait,
                   enum source_end *end, struct err *why);

void source_count(const struct source *src, size_t n);

/* These set *err and return false. */
bool source_fail_memory(const struct source *src, struct err *err);
bool source_fail_read(const struct source *src, struct err *err); /* for errno */

#endif
