/* A job is done once, whoever helps; nobody who waits for something else misses it. */
#include <stdint.h>
#include <unistd.h>

#include "helpers.h"

enum { PARTS = 100 };

struct job {
    atomic_uint times[PARTS];
    pthread_t by[PARTS];
};

static void note(void *ctx, unsigned i)
{
    struct job *job = ctx;
    job->times[i]++;
    job->by[i] = pthread_self();
    usleep(100);
}

static bool is_done_once(const struct job *job)
{
    for (unsigned i = 0; i < PARTS; i++)
        if (job->times[i] != 1)
            return false;
    return true;
}

TEST(a_thread_that_is_alone_does_all_of_it)
{
    struct crew crew;
    struct job job = {{0}, {0}};
    crew_init(&crew);
    CHECK(!crew_is_idle(&crew));
    crew_share(&crew, PARTS, note, &job);
    CHECK(is_done_once(&job) && crew.n_jobs == 1);
    crew_share(&crew, 0, note, &job);
    CHECK(is_done_once(&job) && crew.n_jobs == 2);
}

TEST(those_who_wait_take_parts_of_it)
{
    struct helpers h;
    unsigned others = 0;
    helpers_begin(&h);
    for (unsigned i = 0; i < 20; i++) {
        struct job job = {{0}, {0}};
        helpers_await(&h.crew);
        crew_share(&h.crew, PARTS, note, &job);
        CHECK(is_done_once(&job));
        for (unsigned p = 0; p < PARTS; p++)
            others += !pthread_equal(job.by[p], pthread_self());
    }
    helpers_end(&h);
    /* A part takes 0.1 ms and more, a thread wakes up in less than all of them. */
    CHECK(others > 0);
}

/* Counts what there is to do. */
struct waiter {
    struct crew crew;
    pthread_t thread;
    unsigned given, taken, all;
};

static void *take_all(void *arg)
{
    struct waiter *w = arg;
    pthread_mutex_lock(&w->crew.lock);
    while (w->taken < w->all) {
        if (w->taken < w->given)
            w->taken++;
        else
            crew_wait(&w->crew);
    }
    pthread_mutex_unlock(&w->crew.lock);
    return NULL;
}

/* While the only one who waits helps, something comes up; nobody signals again. */
static void give_beside(void *ctx, unsigned i)
{
    struct waiter *w = ctx;
    if (i != 0)
        usleep(20000);
    if (!pthread_equal(pthread_self(), w->thread))
        return;
    pthread_mutex_lock(&w->crew.lock);
    w->given++;
    pthread_cond_signal(&w->crew.more);
    pthread_mutex_unlock(&w->crew.lock);
}

TEST(who_helps_looks_again)
{
    struct waiter w = {.all = 1};
    crew_init(&w.crew);
    CHECK(pthread_create(&w.thread, NULL, take_all, &w) == 0);
    alarm(60);
    while (!crew_is_idle(&w.crew))
        usleep(100);
    crew_share(&w.crew, 20, give_beside, &w);
    pthread_join(w.thread, NULL);
    alarm(0);
    CHECK(w.taken == 1 && !crew_is_idle(&w.crew));
}

int main(void)
{
    RUN(a_thread_that_is_alone_does_all_of_it);
    RUN(those_who_wait_take_parts_of_it);
    RUN(who_helps_looks_again);
    return check_done();
}
