/*
 * A chunk of the input: whole records, in a buffer of its own or in a mapped file.
 *
 *     struct chunk chunk = {0};
 *     while (input_next(in, &chunk, &err) == INPUT_CHUNK_READ)
 *         ... chunk.data[0..chunk.len) ...
 *     chunk_free(&chunk);
 *
 * The functions at the end are for the modules that fill chunks: stream.c and regular.c.
 */
#ifndef KEYS_CHUNK_H
#define KEYS_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunk {
    /* 0, 1, 2, ... in input order, failures counted. Not set at INPUT_END. */
    uint64_t seq;
    size_t file; /* index of its file */
    const char *data;
    size_t len;        /* whole records; the last one of a file may lack its terminator */
    bool more_ready;   /* false: no more bytes are known to be ready */
    uint64_t header;   /* number of the file's header records, and there are no others; 0: none */
    bool first_header; /* the first header of the input */
    /* Owned. Zero-initialise the struct. */
    char *buffer;
    size_t buffer_len;
    size_t filled; /* bytes of the buffer that may hold input */
    bool secret;   /* these bytes are overwritten after use (base/private.h) */
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

/* Doubles the buffer and keeps its contents. False: out of memory. */
bool chunk_grow(struct chunk *chunk);

/* Counts the records that end in bytes [from, to) of the buffer in chunk->header, until it is
 * `most`. Returns the end of the last record counted; `end` if there is none. */
size_t chunk_find_header(struct chunk *chunk, size_t from, size_t to, char terminator,
                         uint64_t most, size_t end);

/* The records are bytes [begin, end) of the buffer. */
void chunk_set(struct chunk *chunk, size_t begin, size_t end);

#endif
