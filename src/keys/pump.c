/* SPDX-License-Identifier: MIT */
#include "keys/pump.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "base/sig.h"

/* A chunk between input and commit. */
struct slot {
    struct chunk chunk;
    enum input_got got;
    struct err err;
    void *data;
    bool committed; /* committed, to be finished */
    struct slot *next_free;
};

struct run {
    const struct pump *pump;
    pthread_mutex_t lock;
    pthread_cond_t more; /* a slot is free, or a commit is due, or this is the end */
    struct slot **slots; /* made on demand, n_made so far */
    size_t n_slots, n_made;
    struct slot *free;
    struct slot **done; /* worked on, waiting for commit: sequence s is at s mod n_slots */
    uint64_t next_commit,
        next_finish; /* from here to next_commit: committed, not finished; in `done` too */
    unsigned workers;
    bool committing, finishing, stop, ended;
    struct err *err;
    bool failed; /* a commit failed, for that reason */
};

/* The most chunks that are committed, or being committed, and not finished. */
enum { UNFINISHED = 2 };

static struct slot **slot_place(struct run *run, uint64_t seq)
{
    return &run->done[seq % run->n_slots];
}

static void release(struct run *run, struct slot *slot)
{
    chunk_wipe(&slot->chunk);
    slot->next_free = run->free;
    run->free = slot;
    pthread_cond_signal(&run->more);
}

/* The steps below run their callbacks without the lock. One thread at a time does each step. False:
 * there is nothing to do now. */

static bool commit_is_due(struct run *run)
{
    return !run->committing && *slot_place(run, run->next_commit) != NULL &&
           run->next_commit - run->next_finish < UNFINISHED;
}

static bool commit_next(struct run *run)
{
    const struct pump *pump = run->pump;
    if (!commit_is_due(run))
        return false;
    struct slot *slot = *slot_place(run, run->next_commit);
    run->committing = true;
    if (!run->stop) {
        bool go_on = true;
        slot->committed = slot->got == INPUT_CHUNK_READ;
        pthread_mutex_unlock(&run->lock);
        if (slot->committed) {
            go_on = pump->commit(pump->ctx, &slot->chunk, slot->data);
        } else if (pump->failed != NULL) {
            pump->failed(pump->ctx, &slot->chunk, &slot->err);
        } else {
            *run->err = slot->err;
            run->failed = true;
            go_on = false;
        }
        pthread_mutex_lock(&run->lock);
        run->stop |= !go_on;
    }
    run->next_commit++;
    run->committing = false;
    /* While this thread finishes its chunk, a waiting thread may commit the next one. */
    if (pump->finish != NULL && commit_is_due(run))
        pthread_cond_signal(&run->more);
    return true;
}

static bool finish_next(struct run *run)
{
    if (run->finishing || run->next_finish == run->next_commit)
        return false;
    struct slot **place = slot_place(run, run->next_finish), *slot = *place;
    run->finishing = true;
    if (slot->committed && run->pump->finish != NULL) {
        pthread_mutex_unlock(&run->lock);
        bool go_on = run->pump->finish(run->pump->ctx, &slot->chunk, slot->data);
        pthread_mutex_lock(&run->lock);
        run->stop |= !go_on;
    }
    slot->committed = false;
    *place = NULL;
    run->next_finish++;
    run->finishing = false;
    release(run, slot);
    input_finished(run->pump->input, run->next_finish);
    return true;
}

/* Commits and finishes as many chunks as possible. False: none. */
static bool advance_run(struct run *run)
{
    bool any = false;
    while (finish_next(run) || commit_next(run))
        any = true;
    if (run->stop) {
        input_stop(run->pump->input);
        pthread_cond_broadcast(&run->more);
    }
    return any;
}

static struct slot *make_slot(struct run *run)
{
    const struct pump *pump = run->pump;
    struct slot *slot = calloc(1, sizeof *slot);
    if (slot != NULL && (slot->data = calloc(1, pump->slot_size ? pump->slot_size : 1)) != NULL)
        return run->slots[run->n_made++] = slot;
    free(slot);
    run->failed = run->stop = true;
    fail(run->err, "out of memory");
    advance_run(run);
    return NULL;
}

/* NULL: there is nothing more to do. */
static struct slot *take_slot(struct run *run)
{
    while (run->free == NULL && run->n_made == run->n_slots && !run->stop)
        if (!advance_run(run))
            pthread_cond_wait(&run->more, &run->lock);
    if (run->stop || run->ended)
        return NULL;
    if (run->free == NULL)
        return make_slot(run);
    struct slot *slot = run->free;
    run->free = slot->next_free;
    return slot;
}

/* From this length on, a chunk keeps a thread busy for longer than it takes to start another. */
enum { LONG = 32 << 10 };

/* Each worker starts the next one, and waits for its end. */
static void *worker_main(void *arg)
{
    struct run *run = arg;
    const struct pump *pump = run->pump;
    pthread_t next;
    bool has_next = false;
    pthread_mutex_lock(&run->lock);
    unsigned worker = run->workers++;
    struct slot *slot;
    while ((slot = take_slot(run)) != NULL) {
        pthread_mutex_unlock(&run->lock);
        slot->got = sig_caught() ? INPUT_END : input_next(pump->input, &slot->chunk, &slot->err);
        bool ended = slot->got == INPUT_END;
        /* Is there work for another thread? A short first chunk may be the whole input. */
        bool more =
            slot->got == INPUT_CHUNK_READ && (slot->chunk.seq > 0 || slot->chunk.len >= LONG);
        if (!has_next && worker + 1 < pump->threads && more)
            has_next = parallel_start(&next, worker_main, run);
        if (slot->got == INPUT_CHUNK_READ)
            pump->work(pump->ctx, worker, &slot->chunk, slot->data);
        pthread_mutex_lock(&run->lock);
        if (ended) {
            run->ended = true;
            release(run, slot);
            break;
        }
        *slot_place(run, slot->chunk.seq) = slot;
        advance_run(run);
    }
    pthread_mutex_unlock(&run->lock);
    if (has_next)
        pthread_join(next, NULL);
    return NULL;
}

bool pump_run(const struct pump *pump, struct err *err)
{
    struct run run = {.pump = pump,
                      .err = err,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .more = PTHREAD_COND_INITIALIZER,
                      /* One in work for each thread, and as many again waiting for an earlier one.
                       */
                      .n_slots = 2 * (size_t)pump->threads};
    run.slots = calloc(run.n_slots, sizeof *run.slots);
    run.done = calloc(run.n_slots, sizeof *run.done);
    bool ok = run.slots != NULL && run.done != NULL;
    if (ok)
        worker_main(&run);
    else
        fail(err, "out of memory");
    for (size_t i = 0; i < run.n_made; i++) {
        struct slot *slot = run.slots[i];
        if (pump->slot_free != NULL)
            pump->slot_free(slot->data);
        free(slot->data);
        chunk_free(&slot->chunk);
        free(slot);
    }
    free(run.slots);
    free(run.done);
    return ok && !run.failed;
}
