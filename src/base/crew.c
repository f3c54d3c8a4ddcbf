#include "base/crew.h"

struct crew_job {
    void (*body)(void *ctx, unsigned i);
    void *ctx;
    unsigned n;
    atomic_uint next;
    unsigned helpers; /* threads now in the job, without the one that shares it */
};

void crew_init(struct crew *crew)
{
    *crew = (struct crew){.lock = PTHREAD_MUTEX_INITIALIZER,
                          .more = PTHREAD_COND_INITIALIZER,
                          .left = PTHREAD_COND_INITIALIZER};
}

static void take_part(struct crew_job *job)
{
    unsigned i;
    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->n)
        job->body(job->ctx, i);
}

static void help(struct crew *crew, struct crew_job *job)
{
    job->helpers++;
    pthread_mutex_unlock(&crew->lock);
    take_part(job);
    pthread_mutex_lock(&crew->lock);
    if (--job->helpers == 0)
        pthread_cond_signal(&crew->left);
}

void crew_wait(struct crew *crew)
{
    struct crew_job *job = crew->job;
    if (job != NULL && atomic_load_explicit(&job->next, memory_order_relaxed) < job->n) {
        help(crew, job);
        return;
    }
    crew->n_waiting++;
    pthread_cond_wait(&crew->more, &crew->lock);
    crew->n_waiting--;
}

bool crew_is_idle(const struct crew *crew)
{
    return atomic_load_explicit(&crew->n_waiting, memory_order_relaxed) > 0;
}

void crew_share(struct crew *crew, unsigned n, void (*body)(void *ctx, unsigned i), void *ctx)
{
    struct crew_job job = {.body = body, .ctx = ctx, .n = n};
    pthread_mutex_lock(&crew->lock);
    crew->job = &job;
    crew->n_jobs++;
    pthread_cond_broadcast(&crew->more);
    pthread_mutex_unlock(&crew->lock);
    take_part(&job);
    pthread_mutex_lock(&crew->lock);
    crew->job = NULL;
    while (job.helpers > 0)
        pthread_cond_wait(&crew->left, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}
