/* SPDX-License-Identifier: MIT
 * What the readers of input (input.c, stream.h, gzip.h) share. A source is one open file: waiting
 * for bytes, counting them, messages. A chunk is what is read from it: whole records, in a buffer
 * of its own or in a mapped file.
 *
 *     struct chunk chunk = {0};
 *     while (input_next(in, &chunk, &err) == INPUT_CHUNK_READ)
 *         ... chunk.data[0..chunk.len) ...
 *     chunk_free(&chunk);
 */
#ifndef KEYS_SOURCE_H
#define KEYS_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/csv.h"

struct source {
    int fd;
    const char *name; /* for messages */
    char terminator;  /* of records */
    bool csv;         /* a terminator between quotes ends none */
    bool prompt;      /* deliver records as soon as no more bytes are ready */
    bool secret;      /* bytes read are overwritten after use */
    size_t chunk_len; /* bytes in which the records of a chunk begin */
    uint64_t most;    /* more bytes than these are an error; 0: no limit */
    size_t longest;   /* of its records, bytes without the terminator; for chunks */
    /* Of the whole input. */
    const atomic_bool *stopped;
    _Atomic uint64_t *done;           /* bytes taken from the files */
    const _Atomic uint64_t *finished; /* chunks whose records are no longer needed; for chunks */
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

/* ---- Chunks. All but the first two functions are for the readers that fill them. */

struct chunk {
    /* 0, 1, 2, ... in input order, failures counted. Not set at INPUT_END. */
    uint64_t seq;
    size_t file; /* index of its file */
    const char *data;
    size_t len;        /* whole records; the last one of a file may lack its terminator */
    int64_t offset;    /* of its data in a regular file; -1: unknown */
    uint64_t header;   /* number of the file's header records, and there are no others; 0: none */
    bool first_header; /* the first header of the input */
    bool first;        /* its data begins its file, without a header */
    struct csv_columns columns; /* of its file, if it is CSV */
    size_t too_long; /* bytes read of the record after these, which is longer than allowed: the
                        rest of its file is left out; 0: there is none */
    /* Owned. Zero-initialise the struct. */
    char *buffer;
    size_t buffer_len;
    size_t filled; /* bytes of the buffer that may hold input */
    bool secret;   /* these bytes are overwritten after use */
};

void chunk_free(struct chunk *chunk);

/* Call it when the records are no longer needed: overwrites them if they are secret, and frees a
 * buffer that was made for a very long one. */
void chunk_wipe(struct chunk *chunk);

/* A chunk is read with this many bytes after it. Its last record probably ends there. */
enum { CHUNK_OVERLAP = 1024 };

/* Gives the chunk a buffer of at least `len` bytes, contents undefined. A much larger buffer is
 * replaced: a long record must not leave large buffers in every slot that it passes through.
 * False: out of memory. */
bool chunk_fit(struct chunk *chunk, size_t len);

/* Enlarges the buffer for a long record, and keeps its contents. Beyond a certain length it waits
 * until all chunks before this one are finished, so that only one such record at a time is in
 * memory; or until the input is stopped. False: out of memory. */
bool chunk_grow(struct chunk *chunk, const struct source *src);

/* Where the last record begins, if it and those before it begin in bytes [begin, end). */
size_t chunk_last_start(const struct chunk *chunk, const struct source *src, size_t begin,
                        size_t end);

/* If [start, end) of the buffer is a record without its terminator, or the beginning of one: is it
 * longer than allowed? Then notes that. */
bool chunk_too_long(struct chunk *chunk, const struct source *src, size_t start, size_t end);

/* The records are bytes [begin, end) of the buffer. */
void chunk_set(struct chunk *chunk, size_t begin, size_t end);

#endif
