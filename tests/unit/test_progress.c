/* SPDX-License-Identifier: MIT */
#include "base/progress.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MIB = 1 << 20, WIDTH = 20 };

static char said[4096];

/* What was written to stderr since then, through `from`, which does not wait: a terminal passes on
 * `len` bytes or more, in its time. */
static const char *get_said(int from, size_t len)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    size_t n = 0;
    for (ssize_t got = 1; got > 0 || (n < len && poll(&ready, 1, 10000) > 0);) {
        got = read(from, said + n, sizeof said - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    said[n] = '\0';
    return said;
}

/* Until the first line is due. */
static void wait_long(void)
{
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Makes `to` stderr. Returns the former one. */
static int redirect(int to)
{
    int was = dup(STDERR_FILENO);
    CHECK(was >= 0 && dup2(to, STDERR_FILENO) >= 0);
    return was;
}

TEST(a_log)
{
    int end[2];
    CHECK(pipe(end) == 0 && fcntl(end[0], F_SETFL, O_NONBLOCK) == 0);
    int was = redirect(end[1]);
    double begun = now();
    progress_begin("reading", true, false);
    progress_update(MIB, 4 * MIB, 900000);
    bool is_early = now() - begun < 1; /* unless the machine stood still */
    CHECK(get_said(end[0], 0)[0] == '\0' || !is_early);
    wait_long();
    progress_update(MIB, 4 * MIB, 900000);
    static const char begin[] = "seen: reading: 1.00 MiB of 4.00 MiB (25 %), 900k keys, ";
    CHECK(strncmp(get_said(end[0], 0), begin, sizeof begin - 1) == 0);
    /* After s seconds, 900 / s thousand a second, and 3 s for the three quarters. */
    double speed = -1, seconds = -1;
    const char *numbers = said + sizeof begin - 1;
    CHECK(sscanf(numbers, "%lfk keys/s, %lf s left\n", &speed, &seconds) == 2);
    CHECK(seconds > 3 && seconds * speed > 2600 && seconds * speed < 2800);
    /* The last line of a stage comes at its end. At the end nothing is left. */
    progress_update(4 * MIB, 4 * MIB, 0);
    progress_stage("making");
    CHECK_STR(get_said(end[0], 0), "seen: reading: 4.00 MiB of 4.00 MiB (100 %)\n");
    progress_part(5, 4);
    progress_stage("reading");
    CHECK_STR(get_said(end[0], 0), "seen: making: 100 %\n");
    /* A file that has grown meanwhile. */
    progress_update(5 * MIB, 4 * MIB, 0);
    progress_end();
    CHECK_STR(get_said(end[0], 0), "seen: reading: 5.00 MiB\n");
    dup2(was, STDERR_FILENO);
    close(was);
    close(end[0]);
    close(end[1]);
}

TEST(a_narrow_terminal)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize size = {.ws_row = 2, .ws_col = WIDTH};
    CHECK(terminal >= 0 && ioctl(terminal, TIOCSWINSZ, &size) == 0);
    int was = redirect(terminal);
    progress_begin("reading", false, false);
    wait_long();
    /* The line fits, and is erased by blanks. */
    progress_update(MIB, 4 * MIB, 0);
    CHECK_STR(get_said(master, WIDTH), "\rreading: 1.00 MiB o");
    progress_hide();
    CHECK_STR(get_said(master, WIDTH + 1), "\r                   \r");
    /* One of unknown width takes 79. */
    size.ws_col = 0;
    CHECK(ioctl(terminal, TIOCSWINSZ, &size) == 0);
    progress_end();
    progress_begin("a stage with a name so long that it takes more than half a line", false, false);
    wait_long();
    progress_update(MIB, 4 * MIB, 0);
    CHECK(strlen(get_said(master, 80)) == 80);
    progress_end();
    dup2(was, STDERR_FILENO);
    close(was);
    close(terminal);
    close(master);
}

int main(void)
{
    RUN(a_log);
    RUN(a_narrow_terminal);
    return check_done();
}
