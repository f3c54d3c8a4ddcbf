/* SPDX-License-Identifier: MIT */
#include "base/sig.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "port/port.h"
#include "base/visible.h"

/* Those that sig_catch catches, and others that end the process and can be handled. */
static const int catchable[] = {SIGINT, SIGTERM, SIGHUP};
static const int ending[] = {SIGALRM, SIGPIPE, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

/* Set in a handler, read by all threads. */
static atomic_int catching, caught;

/* The file to remove. Handlers read it, so `doomed_set` is false while the others change. */
static _Atomic bool doomed_set;
static int doomed_dir;
static char doomed_name[NAME_MAX + 1];

static void remove_doomed(void)
{
    if (atomic_exchange(&doomed_set, false))
        unlinkat(doomed_dir, doomed_name, 0);
}

static atomic_bool line_is_open, is_over;

static void end_line(void)
{
    is_over = true;
    if (atomic_exchange(&line_is_open, false) && write(STDERR_FILENO, "\n", 1) < 0)
        return; /* the terminal is gone */
}

/* A signal may arrive twice: timeout(1) sends one to the process and one to its group. A second
 * signal counts only after this time. */
enum { PATIENCE_MS = 1000 };

/* Handlers may run in several threads at once, so `first` may be later than `now`. A signed
 * difference handles that, and also a 32-bit `long` that wraps. */
static bool is_impatient(void)
{
    static atomic_ulong first; /* time of the first signal; 0: none yet */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long ms = (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
    unsigned long then = 0;
    ms += ms == 0;
    return !atomic_compare_exchange_strong(&first, &then, ms) && (long)(ms - then) >= PATIENCE_MS;
}

static void on_ending(int number)
{
    remove_doomed();
    end_line();
    /* The signal is blocked in its own handler; this one arrives when the handler returns. */
    signal(number, SIG_DFL);
    raise(number);
}

static void on_catchable(int number)
{
    if (!catching || is_impatient())
        on_ending(number);
    else if (!caught)
        caught = number;
}

static void handle(const int *numbers, size_t n, void (*handler)(int))
{
    for (size_t i = 0; i < n; i++) {
        struct sigaction action = {.sa_handler = handler}, old;
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
    }
}

static void install(void)
{
    static bool installed;
    if (installed)
        return;
    installed = true;
    handle(catchable, sizeof catchable / sizeof *catchable, on_catchable);
    handle(ending, sizeof ending / sizeof *ending, on_ending);
}

void sig_catch(void)
{
    catching = 1;
    install();
}

int sig_caught(void)
{
    return caught;
}

void sig_remove(int dir_fd, const char *name)
{
    atomic_store(&doomed_set, false);
    size_t len = name != NULL ? strlen(name) : 0;
    if (len == 0 || len >= sizeof doomed_name)
        return;
    install();
    doomed_dir = dir_fd;
    memcpy(doomed_name, name, len + 1);
    atomic_store(&doomed_set, true);
}

bool sig_end_line(bool open)
{
    if (open)
        install();
    line_is_open = open;
    return !is_over;
}

/* Guarded mappings. The handler walks the list without the lock. Entries are complete before they
 * are linked, and freed only when no handler is running. */
struct guard {
    struct guard *_Atomic next;
    uintptr_t start;
    unsigned long long len;
    int fd; /* a file being written; else -1 */
    char name[];
};

static struct guard *_Atomic guards;
static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int handlers;

static size_t put_decimal(char *out, unsigned long long n)
{
    char digits[3 * sizeof n];
    size_t len = 0, i = 0;
    do
        digits[len++] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    while (len > 0)
        out[i++] = digits[--len];
    return i;
}

static size_t put_text(char *out, const char *text)
{
    size_t len = strlen(text);
    memcpy(out, text, len);
    return len;
}

/* Is a page of a mapped file missing because the disk is full? Possible only for a file being
 * written: writing fills its holes. */
static bool lacks_space(const struct guard *g, unsigned long long offset)
{
    struct stat st;
    struct statvfs fs;
    return g->fd >= 0 && fstat(g->fd, &st) == 0 && offset < (unsigned long long)st.st_size &&
           fstatvfs(g->fd, &fs) == 0 && fs.f_bavail == 0;
}

static void say_page_lost(const struct guard *g, unsigned long long offset)
{
    char line[VISIBLE_ROOM(PATH_MAX) + 128];
    bool full = lacks_space(g, offset);
    size_t len = put_text(line, full ? "seen: cannot write '" : "seen: cannot read '");
    len += put_text(line + len, g->name);
    len += put_text(line + len, "' at offset ");
    len += put_decimal(line + len, offset);
    len += put_text(line + len, full ? ": No space left on device\n"
                                     : ": it was truncated, or its blocks cannot be "
                                       "had: no space, no quota, or the disk failed\n");
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nowhere to print; the exit status tells */
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    handlers++;
    const struct guard *g = guards;
    while (g != NULL && (at < g->start || at - g->start >= g->len))
        g = g->next;
    remove_doomed();
    if (g != NULL) {
        end_line();
        say_page_lost(g, at - g->start);
        _exit(2);
    }
    handlers--;
    /* On return the fault occurs again and ends the process. */
    signal(number, SIG_DFL);
}

void sig_guard(const void *map, unsigned long long len, const char *name, int fd)
{
    struct guard *g = malloc(sizeof *g + VISIBLE_ROOM(strlen(name)));
    if (g == NULL)
        return; /* only the message is lost */
    *g = (struct guard){.start = (uintptr_t)map, .len = len, .fd = fd};
    visible_copy(g->name, name);
    pthread_mutex_lock(&guards_lock);
    if (guards == NULL) {
        struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, NULL);
    }
    g->next = guards;
    guards = g;
    pthread_mutex_unlock(&guards_lock);
}

void sig_unguard(const void *map)
{
    pthread_mutex_lock(&guards_lock);
    for (struct guard *_Atomic *link = &guards; *link != NULL; link = &(*link)->next) {
        struct guard *g = *link;
        if (g->start == (uintptr_t)map) {
            *link = g->next;
            while (handlers > 0)
                sched_yield();
            free(g);
            break;
        }
    }
    pthread_mutex_unlock(&guards_lock);
}
