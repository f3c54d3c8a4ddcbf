#include "base/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Signals caught during a question, by number. */
static volatile sig_atomic_t caught[NSIG];

static void on_signal(int number)
{
    caught[number] = 1;
}

static bool any_caught(void)
{
    for (int i = 1; i < NSIG; i++)
        if (caught[i])
            return true;
    return false;
}

/* Does this signal do nothing by default? */
static bool does_nothing(int number)
{
    return number == SIGCHLD || number == SIGURG || number == SIGWINCH;
}

/* The actions of signals before the question. is_ours[i]: on_signal replaces that of signal i. */
struct dispositions {
    struct sigaction old[NSIG];
    bool is_ours[NSIG];
};

static void catch_signals(struct dispositions *d)
{
    struct sigaction action = {.sa_handler = on_signal}; /* blocking calls fail with EINTR */
    sigemptyset(&action.sa_mask);
    for (int i = 1; i < NSIG; i++) {
        caught[i] = 0;
        d->is_ours[i] = !does_nothing(i) && sigaction(i, NULL, &d->old[i]) == 0 &&
                        d->old[i].sa_handler != SIG_IGN && sigaction(i, &action, NULL) == 0;
    }
}

static void release_signals(const struct dispositions *d)
{
    for (int i = 1; i < NSIG; i++)
        if (d->is_ours[i])
            (void)sigaction(i, &d->old[i], NULL);
}

bool terminal_open(struct terminal *t, struct err *err)
{
    /* O_NONBLOCK: poll waits for the line; read must not block if another process takes it. */
    *t = (struct terminal){.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
    return t->fd >= 0 || fail_errno(err, "cannot ask without a terminal: cannot open '/dev/tty'");
}

void terminal_close(struct terminal *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

/* Waits for an event, without a time limit, or until a signal is caught. Signals are blocked from
 * the check to the wait, so that none is missed. */
static bool wait_for(const struct terminal *t, short events)
{
    sigset_t all, mask;
    struct pollfd p = {.fd = t->fd, .events = events};
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    int ready = any_caught() ? 0 : ppoll(&p, 1, NULL, &mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return ready > 0;
}

/* Returns early when a signal is caught during a question. */
static void put(const struct terminal *t, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(t->fd, text, left);
        if (n < 0 && errno == EAGAIN && wait_for(t, POLLOUT))
            continue;
        if (n <= 0)
            return;
        text += n;
        left -= (size_t)n;
    }
}

void terminal_say(const struct terminal *t, const char *text)
{
    for (int i = 1; i < NSIG; i++)
        caught[i] = 0;
    put(t, text);
}

/* Turns echo off. Fails with EINTR if a signal was caught, such as SIGTTOU in the background. */
static bool hide(struct terminal *t)
{
    struct termios now;
    if (tcgetattr(t->fd, &now) != 0)
        return false;
    /* After SIGSTOP and SIGCONT the echo may still be off. */
    if (!t->is_saved || (now.c_lflag & ECHO) != 0)
        t->saved = now;
    t->is_saved = true;
    now.c_lflag &= (tcflag_t) ~(ECHO | ECHONL);
    now.c_lflag |= ICANON | ISIG;
    now.c_iflag |= ICRNL;
    return tcsetattr(t->fd, TCSAFLUSH, &now) == 0;
}

/* Restores the terminal. SIGTTOU is blocked so that this works in the background, too. Unread input
 * is dropped: it may be part of a secret, which the shell must not get. */
static void show(const struct terminal *t)
{
    sigset_t set, mask;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &set, &mask);
    while (tcsetattr(t->fd, TCSAFLUSH, &t->saved) != 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* Reads up to a newline or the end of input. */
static bool read_line(const struct terminal *t, char *line, size_t *len, struct err *err)
{
    for (*len = 0; *len < TERMINAL_LINE && wait_for(t, POLLIN);) {
        ssize_t n = read(t->fd, line + *len, TERMINAL_LINE - *len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return fail_errno(err, "cannot read the terminal");
        if (n == 0)
            break;
        *len += (size_t)n;
        if (line[*len - 1] == '\n') {
            --*len;
            break;
        }
    }
    if (*len == 0)
        return fail(err, "nothing was entered");
    return *len < TERMINAL_LINE - 1 ||
           fail(err, "the line is longer than the %d bytes that a terminal passes on",
                TERMINAL_LINE - 2);
}

static bool ask_once(struct terminal *t, const char *prompt, char *line, size_t *len,
                     struct err *err)
{
    if (!hide(t))
        return fail_errno(err, "cannot turn off the terminal's echo");
    put(t, prompt);
    bool ok = read_line(t, line, len, err);
    put(t, "\n");
    show(t);
    return ok;
}

/* Raises the caught signals again, now with their previous actions. Returns true if there were any
 * and all of them only stop or continue a process. */
static bool deliver(void)
{
    bool only_stops = any_caught();
    for (int i = 1; i < NSIG; i++) {
        if (!caught[i])
            continue;
        raise(i);
        only_stops &= i == SIGTSTP || i == SIGTTIN || i == SIGTTOU || i == SIGCONT;
    }
    return only_stops;
}

bool terminal_ask(struct terminal *t, const char *prompt, char *line, size_t *len, struct err *err)
{
    struct dispositions before;
    for (;;) {
        catch_signals(&before);
        bool ok = ask_once(t, prompt, line, len, err);
        release_signals(&before);
        if (ok && !any_caught())
            return true;
        explicit_bzero(line, TERMINAL_LINE);
        if (any_caught())
            fail(err, "the question was interrupted by a signal");
        if (!deliver())
            return false;
    }
}
