/*
 * Work sharing: threads that wait for work help a thread that has much of it.
 *
 *     crew_init(&crew);
 *
 *     pthread_mutex_lock(&crew.lock);           // a thread that waits
 *     while (!there_is_something_to_do)
 *         crew_wait(&crew);
 *     pthread_mutex_unlock(&crew.lock);
 *
 *     if (crew_is_idle(&crew))                  // a thread that has much work; only one thread
 *         crew_share(&crew, n, body, ctx);      // at a time, without the lock
 *
 * No thread is interrupted in other work, so crew_share waits at most for the calls of `body` that
 * helpers have begun.
 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct crew {
    pthread_mutex_t lock;
    /* Signal it (for one thread) or broadcast it (for all), with the lock held, when there is new
     * work. */
    pthread_cond_t more;
    unsigned n_jobs; /* jobs shared so far, for tests */
    /* The rest is private. */
    pthread_cond_t left;  /* the last helper has left the job */
    struct crew_job *job; /* NULL: none */
    atomic_uint n_waiting;
};

void crew_init(struct crew *crew);

/* Helps with the current job, if there is one; else waits until `more` is signalled. May return
 * spuriously. Call it with the lock held; it releases the lock meanwhile. */
void crew_wait(struct crew *crew);

/* Is a thread waiting? The answer may be outdated on return. */
bool crew_is_idle(const struct crew *crew);

/* Calls body(ctx, i) once for each i in [0, n), on this thread and on waiting threads. */
void crew_share(struct crew *crew, unsigned n, void (*body)(void *ctx, unsigned i), void *ctx);

#endif
