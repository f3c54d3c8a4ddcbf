/* SPDX-License-Identifier: MIT */
#include "file/lock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "port/port.h"
#include "base/parallel.h"
#include "base/sig.h"

static bool lock(int fd, short type, off_t byte, bool wait, bool give_up)
{
    while (!port_lock(fd, type, byte, wait))
        if (errno != EINTR || (give_up && sig_caught()))
            return false;
    return true;
}

void lock_release(int fd, off_t byte)
{
    (void)lock(fd, F_UNLCK, byte, false, false);
}

bool lock_try(int fd, short type, off_t byte)
{
    return lock(fd, type, byte, false, false);
}

bool lock_alive(int fd)
{
    bool alive;
    return port_locked(fd, LOCK_SESSION, 1, &alive) && alive;
}

void (*lock_slow)(const char *name);

/* A wait for a lock has no time limit, so another thread reports that it takes long. */
struct teller {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool has_ended;
    const char *name;
};

enum { LONG_WAIT = 5 }; /* seconds */

static void *tell(void *ctx)
{
    struct teller *t = ctx;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONG_WAIT;
    int r = 0;
    pthread_mutex_lock(&t->mutex);
    while (!t->has_ended && r == 0)
        r = pthread_cond_timedwait(&t->ended, &t->mutex, &until);
    if (!t->has_ended)
        lock_slow(t->name);
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* Signals are for the thread that waits for the lock. */
static bool start_teller(struct teller *t, pthread_t *thread)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = parallel_start(thread, tell, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

static bool wait_for_turn(int fd, short type, const char *name, bool give_up)
{
    struct teller t = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, name};
    pthread_t thread;
    if (lock_try(fd, type, LOCK_TURN))
        return true;
    if (errno != EAGAIN && errno != EACCES)
        return false;
    bool tells = lock_slow != NULL && start_teller(&t, &thread);
    bool ok = lock(fd, type, LOCK_TURN, true, give_up);
    int why = errno;
    if (tells) {
        pthread_mutex_lock(&t.mutex);
        t.has_ended = true;
        pthread_cond_signal(&t.ended);
        pthread_mutex_unlock(&t.mutex);
        pthread_join(thread, NULL);
    }
    errno = why;
    return ok;
}

bool lock_turn(int fd, const char *name, bool give_up)
{
    if (wait_for_turn(fd, F_WRLCK, name, give_up))
        return true;
    /* fd is read-only: a shared lock keeps writers out as well. */
    return errno == EBADF && wait_for_turn(fd, F_RDLCK, name, give_up);
}
