/* SPDX-License-Identifier: MIT
 * Records for standard output: a buffer that a worker fills, and functions that write it. Also
 * checks that standard output does not go into a file that is in use.
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
    bool secret; /* overwrite the data after writing and before freeing */
};

/* These append to the buffer. They return false if memory runs out. */
bool output_bytes(struct output *o, const char *data, size_t len);

/* Appends each record i < n whose bit i is set in `selected`. Record i is the bytes [record[i],
 * record[i+1]). `limit` is the end of the memory that may be read. */
bool output_select(struct output *o, const char *const *record, size_t n, const uint64_t *selected,
                   const char *limit);

/* Appends `terminator`, unless the buffer is empty or ends with it. */
bool output_terminate(struct output *o, char terminator);

void output_empty(struct output *o);
void output_free(struct output *o);

/* Writes bytes to standard output. *written is the number of bytes written, also on failure. On
 * failure prints a message and sets errno; prints nothing for EPIPE: the reader closed the pipe. */
bool output_write_bytes(const char *data, size_t len, size_t *written);

/* Fails if standard output is the regular file open as fd (-1: none): printing would modify a file
 * in use. */
bool output_is_apart(int fd, const char *name, struct err *err);

/* The same of files that are opened one after the other: what is printed about the first would be
 * in the last. */
bool output_is_none_of(char *const *path, size_t n, struct err *err);

/* As output_is_apart, and fails also if standard error is that file: messages would damage it. Then
 * redirects standard error to /dev/null, so that no message is printed. */
bool output_spares(int fd, const char *name, struct err *err);

/* Writes the buffer to standard output and empties it. Fails as output_write_bytes does. */
bool output_write(struct output *o);

#endif
