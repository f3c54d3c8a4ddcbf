/*
 * Threads of which those that wait for something to do help one that has much.
 *
 *     crew_init(&crew);
 *
 *     pthread_mutex_lock(&crew.lock);           // a thread that waits
 *     while (!there_is_something_to_do)
 *         crew_wait(&crew);
 *     pthread_mutex_unlock(&crew.lock);
 *
 *     if (crew_is_idle(&crew))                  // one that has much to do; one at a time, without
 *         crew_share(&crew, n, body, ctx);      // the lock
 *
 * Nobody is called away from other work, so a job never waits for more than what helpers have begun
 * of it.
 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct crew {
    pthread_mutex_t lock;
    /* Signalled, by whoever holds the lock, when there is something to do; then one thread or all
     * look for it. */
    pthread_cond_t more;
    unsigned n_jobs; /* that were shared so far, for tests */
    /* The rest is private. */
    pthread_cond_t left; /* the last helper has left the job */
    struct crew_job *job; /* NULL: none */
    atomic_uint n_waiting;
};

void crew_init(struct crew *crew);

/* Waits until `more` is signalled, or for no reason. Called with the lock held, which it gives up
 * meanwhile. Helps with jobs instead, if there are any. */
void crew_wait(struct crew *crew);

/* Was a thread waiting just now? */
bool crew_is_idle(const struct crew *crew);

/* Calls body(ctx, i) once for each i in [0, n), on this thread and on those that wait. */
void crew_share(struct crew *crew, unsigned n, void (*body)(void *ctx, unsigned i), void *ctx);

#endif
