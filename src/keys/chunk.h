/*
 * A chunk of the input: whole records, in a buffer of its own or in a mapped file.
 *
 *     struct chunk chunk = {0};
 *     while (input_next(in, &chunk, &err) == INPUT_CHUNK_READ)
 *         ... chunk.data[0..chunk.len) ...
 *     chunk_free(&chunk);
 *
 * The functions at the end are for those who fill chunks: stream.c, regular.c and mapped_input.c.
 */
#ifndef KEYS_CHUNK_H
#define KEYS_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapped_input;

struct chunk {
    /* 0, 1, 2, ... in input order, failures counted: every call but the last has one. */
    uint64_t seq;
    size_t file; /* index of its file */
    const char *data;
    size_t len;      /* whole records; the last one of a file may lack its terminator */
    bool is_plain; /* its bytes are those of a file whose length input_progress counted */
    bool more_ready; /* not known to be the last bytes that are ready */
    uint64_t header; /* it holds so many records of the file's header and no others; 0: no header */
    bool first_header; /* the first of the input */
    /* Owned. Zero-initialise the struct. */
    char *buffer;
    size_t buffer_len;
    size_t filled; /* bytes of the buffer that were read from somewhere */
    bool secret;   /* they are overwritten after use (base/private.h) */
    struct mapped_input *mapped; /* or its records lie in a mapped file, in these bytes */
    size_t used_from, used_to;
};

void chunk_free(struct chunk *chunk);

/* Its records are used: overwrites them if they are secret. */
void chunk_wipe(struct chunk *chunk);

/* A chunk is read with this many bytes more. Its last record probably ends there. */
enum { CHUNK_OVERLAP = 1024 };

/* Gives the chunk a buffer of at least `len` bytes, with any contents, and not of very many more: a
 * long record must not leave large buffers in every slot that it passes through. False: out of
 * memory. */
bool chunk_fit(struct chunk *chunk, size_t len);

/* Doubles the buffer and keeps its contents. False: out of memory. */
bool chunk_grow(struct chunk *chunk);

/* Looks for the header's records in bytes [from, to) of the buffer, until chunk->header, which
 * counts them, is `most`. Returns where the last one ends; `end` if none ends there. */
size_t chunk_find_header(struct chunk *chunk, size_t from, size_t to, char terminator,
                         uint64_t most, size_t end);

/* The records are bytes [begin, end) of the buffer. */
void chunk_set(struct chunk *chunk, size_t begin, size_t end);

#endif
