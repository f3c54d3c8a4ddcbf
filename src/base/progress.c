/* SPDX-License-Identifier: MIT */
#include "base/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/sig.h"

/* Seconds. On a terminal the line is redrawn in place; a log gets a line at longer intervals. */
static const double first_after = 1, redraw_after = 0.25, log_after = 5;

static struct {
    bool on, terminal;
    char what[64];
    double began, next; /* seconds by the monotonic clock */
    uint64_t done, total, keys;
    bool in_parts;    /* done and total count parts, not bytes */
    bool fresh;       /* some numbers are not in the log yet */
    size_t on_screen; /* length of the line now shown */
} progress;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void put_out(const char *text, size_t len)
{
    ssize_t ignored = write(STDERR_FILENO, text, len);
    (void)ignored;
}

/* "indexing: 412 MiB of 629 MiB (65 %), 6.2M keys, 8.1M keys/s, 2.1 s left" */
static size_t compose(char *line, size_t size, double elapsed)
{
    char a[NUM_TEXT], b[NUM_TEXT];
    size_t n = (size_t)snprintf(line, size, "%s:", progress.what);
    const char *comma = "";
    double part = progress.total != 0 ? (double)progress.done / (double)progress.total : 0;
    int percent = part <= 1 ? (int)(100 * part) : 100;
    if (progress.in_parts) {
        n += (size_t)snprintf(line + n, size - n, " %d %%", percent);
    } else if (progress.total != 0 && progress.done <= progress.total) {
        n += (size_t)snprintf(line + n, size - n, " %s of %s (%d %%)",
                              num_show_bytes(a, progress.done), num_show_bytes(b, progress.total),
                              percent);
        comma = ",";
    } else if (progress.done != 0) {
        n += (size_t)snprintf(line + n, size - n, " %s", num_show_bytes(a, progress.done));
        comma = ",";
    }
    if (progress.keys != 0) {
        n += (size_t)snprintf(line + n, size - n, "%s %s keys", comma,
                              num_show_short(a, (double)progress.keys));
        if (elapsed > 0)
            n += (size_t)snprintf(line + n, size - n, ", %s keys/s",
                                  num_show_short(a, (double)progress.keys / elapsed));
    }
    if (progress.done != 0 && progress.done < progress.total) {
        double left = elapsed * (double)(progress.total - progress.done) / (double)progress.done;
        n += (size_t)snprintf(line + n, size - n, ", %s left", num_show_seconds(a, left));
    }
    return n;
}

/* While this process is in the background, its shell uses the screen for other things. There is no
 * such shell if the terminal is not the controlling one (tcgetpgrp fails). */
static bool in_background(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO);
    return group >= 0 && group != getpgrp();
}

static void redraw(const char *line, size_t len)
{
    if (in_background()) {
        progress.on_screen = 0;
        sig_end_line(false);
        return;
    }
    struct winsize size;
    bool has_width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 2;
    size_t limit = has_width ? (size_t)size.ws_col - 1 : 79; /* a full line would wrap */
    if (len > limit)
        len = limit;
    /* \r, the line, and blanks over the rest of the previous one. */
    char out[1024];
    size_t n = 0, blank_to = progress.on_screen < limit ? progress.on_screen : limit;
    out[n++] = '\r';
    for (size_t i = 0; (i < len || i < blank_to) && n < sizeof out; i++)
        out[n++] = i < len ? line[i] : ' ';
    /* Announced before it is written: a signal in between then ends an empty line, which does no
     * harm. */
    if (len > 0 && !sig_end_line(true))
        return;
    put_out(out, n);
    if (len == 0)
        sig_end_line(false);
    progress.on_screen = len;
}

static void show_line(double time)
{
    char line[512];
    size_t n = compose(line, sizeof line - 1, time - progress.began);
    if (progress.terminal) {
        redraw(line, n);
        progress.next = time + redraw_after;
    } else {
        line[n] = '\n';
        put_out("seen: ", 6);
        put_out(line, n + 1);
        progress.next = time + log_after;
    }
    progress.fresh = false;
}

void progress_begin(const char *what, bool force, bool busy)
{
    memset(&progress, 0, sizeof progress);
    progress.terminal = !busy && isatty(STDERR_FILENO);
    progress.on = force || progress.terminal;
    progress_stage(what);
}

/* A log gets the last numbers of a stage; the terminal line is erased. */
static void finish_stage(void)
{
    if (progress.terminal)
        progress_hide();
    else if (progress.fresh)
        show_line(now());
}

void progress_stage(const char *what)
{
    finish_stage();
    snprintf(progress.what, sizeof progress.what, "%s", what);
    progress.began = now();
    progress.next = progress.began + first_after;
    progress.done = progress.total = progress.keys = 0;
    progress.fresh = progress.in_parts = false;
}

static void update_line(uint64_t done, uint64_t total, uint64_t keys)
{
    progress.done = done;
    progress.total = total;
    progress.keys = keys;
    progress.fresh = true;
    double time = now();
    if (time >= progress.next)
        show_line(time);
}

void progress_update(uint64_t done_bytes, uint64_t total_bytes, uint64_t keys)
{
    if (progress.on)
        update_line(done_bytes, total_bytes, keys);
}

void progress_part(uint64_t done, uint64_t total)
{
    if (!progress.on)
        return;
    progress.in_parts = true;
    update_line(done, total, 0);
}

void progress_hide(void)
{
    if (progress.on_screen == 0)
        return;
    redraw("", 0);
    put_out("\r", 1);
}

void progress_end(void)
{
    finish_stage();
    progress.on = false;
}
