/* SPDX-License-Identifier: MIT
 * Writes a layer into a new file. Kinds write their layers through this module; so do commands that
 * copy a layer from one file to another.
 *
 *     struct target t = header_target(&header, i, fd, path, threads);      // file/header.h
 *     target_write(&t, data, len, at, &err);       // any part of the data, from any thread
 *     target_sums(&t, &err);                       // then its checksums
 *
 * The layer has its place in the file. `name` names the file in messages.
 *
 * Sparse layers. A layout may have a large layer that stays nearly empty for long (layout->sparse).
 * If such a layer is the only one, the file has holes. The disk must have room for the whole file
 * when it is made, but only the parts outside the layer's data are allocated. Zero pages are not
 * written; keys added later fill holes. If the disk is full by then, a write through a mapping ends
 * the process with a message and status 2 (sig_guard). The batch was not acknowledged, no bit of an
 * earlier batch is lost, and the file is left as after any crash. On tmpfs, even reading a hole
 * through a mapping allocates memory.
 */
#ifndef KIND_TARGET_H
#define KIND_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"

struct header;

struct target {
    struct layer *layer;                  /* with its place in the file */
    uint64_t seed;                        /* of the checksums of its pages */
    struct header *header;                /* of the file */
    void (*place)(struct header *header); /* places all its layers */
    int fd;
    const char *name;
    unsigned threads;
    /* For kind->building->build. */
    uint64_t n;    /* distinct keys */
    bool presumed; /* n presumes that no key is repeated; if one is, the build fails */
};

/* Writes len bytes at offset `at` of the layer's data. */
bool target_write(const struct target *t, const void *data, uint64_t len, uint64_t at,
                  struct err *err);

/* Hints that these bytes are final, so that writing can begin and the final sync waits less. The
 * hints of a layer come roughly in ascending order. */
void target_write_back(const struct target *t, uint64_t len, uint64_t at);

/* Changes the length of the last layer and places it again. */
void target_resize(const struct target *t, uint64_t data_len);

/* The same for whole pages, or all up to the end of the layer; also writes their checksums. */
bool target_write_pages(const struct target *t, const uint8_t *pages, uint64_t len, uint64_t at,
                        struct err *err);

/* Writes the checksums of a layer that is all zero. */
bool target_zero_sums(const struct target *t, struct err *err);

/* Writes the checksums of a layer whose data is written, by reading it back. */
bool target_sums(const struct target *t, struct err *err);

/* Writes a layer's data and its checksums. Nobody may change `data` meanwhile. */
bool target_write_all(const struct target *t, const uint8_t *data, struct err *err);

/* The same for data that others may be changing: the checksums are taken from the written file. */
bool target_copy(const struct target *t, const uint8_t *data, struct err *err);

#endif
