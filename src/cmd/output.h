/*
 * Records on their way to standard output: a buffer that a worker fills, and the writing of it.
 */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output {
    char *data;
    size_t len, room;
};

/* Each appends, or returns false when there is no memory. */
bool output_bytes(struct output *o, const char *data, size_t len);

/* The records i < n with bit i of `selected`: record i is [record[i], record[i+1]). `limit` is the
 * end of the memory that may be read. */
bool output_select(struct output *o, const char *const *record, size_t n, const uint64_t *selected,
                   const char *limit);

/* The last byte appended, if any, shall be `terminator`. */
bool output_terminate(struct output *o, char terminator);

void output_free(struct output *o);

/* Writes bytes to standard output; *written says how many, after a failure too. On failure says so,
 * unless the reader went away, which is no news: then errno is EPIPE. */
bool output_write_bytes(const char *data, size_t len, size_t *written);

/* Writes it to standard output and empties it. Fails as output_write_bytes does. */
bool output_write(struct output *o);

#endif
