/* SPDX-License-Identifier: MIT */
#include "base/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "port/port.h"

/* musl's own is 128 KiB; frames of up to 75 KB lie on it. */
enum { STACK = 1 << 20 };

bool parallel_start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    bool ok = pthread_attr_setstacksize(&attr, STACK) == 0 &&
              pthread_create(thread, &attr, body, arg) == 0;
    pthread_attr_destroy(&attr);
    return ok;
}

struct parallel_job {
    void (*body)(void *ctx, unsigned worker, uint64_t i);
    void *ctx;
    uint64_t n;
    _Atomic uint64_t next;
};

struct parallel_worker {
    struct parallel_job *job;
    unsigned number;
    pthread_t thread;
};

static void work_on(struct parallel_job *job, unsigned number)
{
    uint64_t i;
    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->n)
        job->body(job->ctx, number, i);
}

static void *thread_main(void *arg)
{
    struct parallel_worker *w = arg;
    work_on(w->job, w->number);
    return NULL;
}

void parallel_for(unsigned threads, uint64_t n,
                  void (*body)(void *ctx, unsigned worker, uint64_t i), void *ctx)
{
    struct parallel_job job = {.body = body, .ctx = ctx, .n = n};
    if (threads > n)
        threads = (unsigned)n;
    /* The caller is worker 0. */
    struct parallel_worker *others = threads > 1 ? calloc(threads - 1, sizeof *others) : NULL;
    unsigned started = 0;
    for (; others != NULL && started < threads - 1; started++) {
        others[started] = (struct parallel_worker){.job = &job, .number = started + 1};
        if (!parallel_start(&others[started].thread, thread_main, &others[started]))
            break;
    }
    work_on(&job, 0);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i].thread, NULL);
    free(others);
}

struct attempt {
    bool (*body)(void *ctx, unsigned worker, uint64_t i, struct err *err);
    void *ctx;
    atomic_bool failed;
    struct err *err;
};

static void attempt_one(void *ctx, unsigned worker, uint64_t i)
{
    struct attempt *a = ctx;
    struct err err;
    if (!a->failed && !a->body(a->ctx, worker, i, &err) && !atomic_exchange(&a->failed, true))
        *a->err = err;
}

bool parallel_try(unsigned threads, uint64_t n,
                  bool (*body)(void *ctx, unsigned worker, uint64_t i, struct err *err), void *ctx,
                  struct err *err)
{
    struct attempt a = {.body = body, .ctx = ctx, .err = err};
    parallel_for(threads, n, attempt_one, &a);
    return !a.failed;
}

unsigned parallel_cpus(void)
{
    return port_cpus();
}
