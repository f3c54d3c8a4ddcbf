/* SPDX-License-Identifier: MIT */
/* tags: computing threads */
#include "base/sig.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "child.h"

static void *wait_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

struct victim {
    int ready[2], go[2];
};

/* Waits, in two threads that may take signals, until it is told to end. Tells when it is ready, and
 * when a signal has come. */
static int be_victim(void *ctx)
{
    const struct victim *v = ctx;
    struct pollfd go = {.fd = v->go[0], .events = POLLIN};
    pthread_t thread;
    close(v->go[1]);
    sig_catch();
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0 || write(v->ready[1], "", 1) != 1)
        return 0;
    for (bool told = false; poll(&go, 1, 1) <= 0;)
        if (sig_caught() && !told)
            told = write(v->ready[1], "", 1) == 1;
    /* The other thread may have been given the signal, and not have run yet. */
    for (int i = 0; sig_caught() == 0 && i < 10000; i++)
        poll(NULL, 0, 1);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    return sig_caught();
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)(seconds * 1e9) % 1000000000};
    nanosleep(&time, NULL);
}

/* Sends two signals, that many seconds apart; the second, if `handled`, so long after the first was
 * handled. What became of the process, as child_wait says, and how long it took. */
static int send_pair(int first, int second, double seconds, bool handled, double *took)
{
    struct victim v;
    char byte;
    CHECK(pipe(v.ready) == 0 && pipe(v.go) == 0);
    pid_t child = child_start(be_victim, &v);
    CHECK(read(v.ready[0], &byte, 1) == 1);
    double began = now();
    kill(child, first);
    if (handled)
        CHECK(read(v.ready[0], &byte, 1) == 1);
    if (seconds > 0)
        nap(seconds);
    kill(child, second);
    close(v.go[0]);
    close(v.go[1]);
    int status = child_wait(child);
    *took = now() - began;
    close(v.ready[0]);
    close(v.ready[1]);
    return status;
}

TEST(a_second_signal_soon_after_the_first_ends_nothing)
{
    double took;
    int step = getenv("SANITIZER") != NULL ? 5 : 1;
    for (int i = 0; i < 200; i += step) {
        int status = send_pair(SIGTERM, SIGINT, i * 1e-5, false, &took);
        /* Of two that wait, the kernel chooses which comes first. On a busy machine it may take
         * a second; then the process may end. */
        CHECK(status == SIGTERM || status == SIGINT || took >= 1);
        status = send_pair(SIGINT, SIGINT, i * 1e-5, false, &took);
        CHECK(status == SIGINT || took >= 1);
    }
}

TEST(a_second_signal_after_a_second_ends_the_process)
{
    double took;
    CHECK(send_pair(SIGTERM, SIGINT, 1.002, true, &took) == -SIGINT);
    CHECK(send_pair(SIGTERM, SIGTERM, 1.002, true, &took) == -SIGTERM);
}

int main(void)
{
    const char *sanitizer = getenv("SANITIZER");
    if (sanitizer != NULL && strcmp(sanitizer, "thread") == 0) {
        static const char why[] = "ThreadSanitizer holds signals back from a thread that waits";
        SKIP(a_second_signal_soon_after_the_first_ends_nothing, why);
        SKIP(a_second_signal_after_a_second_ends_the_process, why);
        return check_done();
    }
    RUN(a_second_signal_soon_after_the_first_ends_nothing);
    RUN(a_second_signal_after_a_second_ends_the_process);
    return check_done();
}
