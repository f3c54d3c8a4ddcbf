/*
 * A mapped key file. Its chunks are not copied: their records lie in the mapping. The mapping stays
 * until its opener has left it and all its chunks were let go.
 *
 *     struct mapped_input *m = mapped_input_open(&src, size);
 *     mapped_input_chunk(m, &src, from, range, &chunk)      // any thread
 *     ... the records of the chunk ...
 *     mapped_input_settle(&chunk, &err)
 *     mapped_input_let_go(&chunk);
 *     mapped_input_leave(m);
 *
 * Different threads may open, fill, let go and leave at the same time.
 */
#ifndef KEYS_MAPPED_INPUT_H
#define KEYS_MAPPED_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "keys/chunk.h"
#include "keys/source.h"

struct mapped_input;

/* NULL: the file cannot be mapped. */
struct mapped_input *mapped_input_open(const struct source *src, size_t size);
void mapped_input_leave(struct mapped_input *m);

/* Makes a chunk of the records that begin in bytes [from, from + range) of the file. The first
 * record of the chunk may begin at `from` only if `is_first` or the byte before it is a terminator.
 * False, and nothing done: the bytes cannot be mapped in. Read them from the file instead; if that
 * fails too, it tells the reason. */
bool mapped_input_chunk(struct mapped_input *m, const struct source *src, size_t from,
                        size_t range, bool is_first, struct chunk *chunk);

/* Were the records of a chunk those in the file, up to now? Always true for a chunk that is not
 * mapped. */
bool mapped_input_sound(const struct chunk *chunk);

/* Is this the first report of an error in the file? It is reported once. */
bool mapped_input_first_report(struct mapped_input *m);

/* For messages. */
const char *mapped_input_name(const struct mapped_input *m);

/* Releases the memory that a chunk uses of a mapped file. Does nothing if it is not mapped. */
void mapped_input_let_go(struct chunk *chunk);

#endif
