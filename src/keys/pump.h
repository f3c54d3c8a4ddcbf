/*
 * The engine: chunks of an input go through `work` on all threads at once, and their results
 * through `commit` one at a time in input order; and then, if there is such a thing, through
 * `finish`, one at a time in input order too, while the next one is being committed.
 *
 * A result slot belongs to one chunk from work to commit; slots are reused, so what a command hangs
 * on one (buffers) lives as long as the run.
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

    /* In input order too: this file could not be read, or not to its end. False stops. NULL: that
     * stops, and pump_run fails for that reason. */
    bool (*failed)(void *ctx, const struct chunk *chunk, const struct err *err);

    void (*slot_free)(void *ctx, void *slot);

    /* For what takes long after a commit and need not hold up the next: at most one chunk is behind
     * the commit that is going on. Called for every chunk that was committed, the one that stopped
     * it included. It may use the records of the chunk if the input keeps them. False stops. NULL:
     * nothing to do. */
    bool (*finish)(void *ctx, const struct chunk *chunk, void *slot);
};

/* Runs to the end of the input or until a callback says stop, or until sig_caught() (sig.h): then
 * chunks already begun are still committed. False if memory cannot be had, or as said at `failed`.
 */
bool pump_run(const struct pump *p, struct err *err);

#endif
