/* SPDX-License-Identifier: MIT
 * Runs an input through the caller's functions (for keys: feed.h). Chunks go through `work` on all
 * threads at once. Their results go through `commit` one at a time, in input order. Then they go
 * through `finish`, if set, also one at a time in input order, while the next chunk is committed.
 *
 * A result slot belongs to one chunk from work to finish. Slots are reused: buffers that a command
 * attaches to a slot live as long as the run.
 */
#ifndef KEYS_PUMP_H
#define KEYS_PUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "keys/input.h"

struct pump {
    struct input *input;
    unsigned threads;
    void *ctx;
    size_t slot_size; /* bytes of a slot; zeroed before first use */

    /* Any thread, any order. `worker` is below `threads`: for per-thread state. */
    void (*work)(void *ctx, unsigned worker, const struct chunk *chunk, void *slot);

    /* In input order. False stops: no further chunk is committed. */
    bool (*commit)(void *ctx, const struct chunk *chunk, void *slot);

    /* In input order: this file could not be read to its end; the next one is read. NULL: a failure
     * stops, and pump_run fails with its reason. */
    void (*failed)(void *ctx, const struct chunk *chunk, const struct err *err);

    /* Frees what was attached to a slot. NULL: nothing to free. */
    void (*slot_free)(void *slot);

    /* Long work after a commit that need not delay the next commit. During a commit, at most one
     * earlier chunk is unfinished. Called for every committed chunk, including one whose commit
     * stopped the run. May use the chunk's records if the input keeps them. False stops. NULL:
     * nothing to do. */
    bool (*finish)(void *ctx, const struct chunk *chunk, void *slot);
};

/* Runs to the end of the input, until a callback stops it, or until sig_caught() (sig.h). Chunks
 * already begun are still committed. False if out of memory, or on a failure without `failed`. */
bool pump_run(const struct pump *p, struct err *err);

#endif
