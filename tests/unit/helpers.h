/* Threads that wait to help another (base/crew.h). */
#ifndef HELPERS_H
#define HELPERS_H

#include <sched.h>

#include "base/crew.h"
#include "check.h"

enum { HELPERS = 3 };

struct helpers {
    struct crew crew;
    pthread_t thread[HELPERS];
    bool stop;
};

static void *helper_main(void *arg)
{
    struct helpers *h = arg;
    pthread_mutex_lock(&h->crew.lock);
    while (!h->stop)
        crew_wait(&h->crew);
    pthread_mutex_unlock(&h->crew.lock);
    return NULL;
}

static void helpers_begin(struct helpers *h)
{
    crew_init(&h->crew);
    h->stop = false;
    for (unsigned i = 0; i < HELPERS; i++)
        CHECK(pthread_create(&h->thread[i], NULL, helper_main, h) == 0);
}

/* Waits until one of them waits. */
static void helpers_await(const struct crew *crew)
{
    while (!crew_is_idle(crew))
        sched_yield();
}

static void helpers_end(struct helpers *h)
{
    pthread_mutex_lock(&h->crew.lock);
    h->stop = true;
    pthread_cond_broadcast(&h->crew.more);
    pthread_mutex_unlock(&h->crew.lock);
    for (unsigned i = 0; i < HELPERS; i++)
        pthread_join(h->thread[i], NULL);
}

#endif
