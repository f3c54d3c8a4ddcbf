/*
 * Records on their way to standard output: a buffer that a worker fills, and the writing of it. And
 * the check that they do not go into a file that is in use.
 */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct output {
    char *data;
    size_t len, room;
    bool secret; /* overwritten when it was written, or is freed */
};

/* Each appends, or returns false when there is no memory. */
bool output_bytes(struct output *o, const char *data, size_t len);

/* The records i < n with bit i of `selected`: record i is [record[i], record[i+1]). `limit` is the
 * end of the memory that may be read. */
bool output_select(struct output *o, const char *const *record, size_t n, const uint64_t *selected,
                   const char *limit);

/* The last byte appended, if any, shall be `terminator`. */
bool output_terminate(struct output *o, char terminator);

void output_empty(struct output *o);
void output_free(struct output *o);

/* Writes bytes to standard output; *written says how many, after a failure too. On failure says so,
 * unless the reader went away, which is no news: then errno is EPIPE. */
bool output_write_bytes(const char *data, size_t len, size_t *written);

/* Fails if standard output goes into the regular file that is open as fd (-1: none): what is
 * printed would change what is read. */
bool output_is_apart(int fd, const char *name, struct err *err);

/* The same for a file that a message would damage, too. If standard error goes there nothing more
 * is said. */
bool output_spares(int fd, const char *name, struct err *err);

/* Writes it to standard output and empties it. Fails as output_write_bytes does. */
bool output_write(struct output *o);

#endif
