/*
 * A source is one open file of the input, as its readers see it: input.c, stream.h and gzip.h. This
 * module has what they share: waiting for bytes, counting them, messages.
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
    bool prompt;      /* deliver records as soon as no more bytes are ready */
    bool secret;      /* bytes read are overwritten after use */
    size_t chunk_len; /* bytes in which the records of a chunk begin */
    uint64_t most;    /* more bytes than these are an error; 0: no limit */
    /* Of the whole input. */
    const atomic_bool *stopped;
    _Atomic uint64_t *done; /* bytes taken from the files */
};

/* What follows the bytes that have been read. */
enum source_end {
    SOURCE_GOES_ON, /* more bytes, or not known yet */
    SOURCE_ENDED,
    SOURCE_STOPPED, /* by a signal or input_stop */
    SOURCE_BROKEN,  /* by an error */
};

/* Reads the bytes that are ready, at most `capacity`; with `wait`, waits until there are some.
 * Returns 0 and leaves *end as it was if none are ready. Sets *why with SOURCE_BROKEN. */
size_t source_read(const struct source *src, void *to, size_t capacity, bool wait,
                   enum source_end *end, struct err *why);

void source_count(const struct source *src, size_t n);

/* These set *err and return false. */
bool source_fail_memory(const struct source *src, struct err *err);
bool source_fail_read(const struct source *src, struct err *err); /* for errno */

#endif
