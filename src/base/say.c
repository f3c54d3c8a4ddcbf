/* SPDX-License-Identifier: MIT */
#include "base/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/visible.h"

/* Capacity for a message: a struct err and some words around it. */
enum { RAW = sizeof(struct err) + 2048 };

/* Replaces the bytes of a password, if there are any. */
static void hide(char *password, const char *end)
{
    if (password == end)
        return;
    *password = '*';
    memmove(password + 1, end, strlen(end) + 1);
}

/* The colon of USER:PASSWORD@, or that of an escaped one, "%3A". */
static char *colon_in(char *user, const char *at)
{
    for (; user < at; user++)
        if (*user == ':' || strncasecmp(user, "%3A", 3) == 0)
            return *user == ':' ? user : user + 2;
    return NULL;
}

/* Hides passwords in URLs, SCHEME://USER:PASSWORD@HOST and PATH?password=PASSWORD: messages go to
 * logs. */
static void hide_passwords(char *text)
{
    static const char *const names[] = {"password=", "passwd=", "pass=", "auth="};
    for (char *p = text; (p = strstr(p, "://")) != NULL;) {
        p += strlen("://");
        char *at = bytes_last(p, '@', strcspn(p, "/?#' \n"));
        char *colon = at != NULL ? colon_in(p, at) : NULL;
        if (colon != NULL)
            hide(colon + 1, at);
        for (char *q = p + strcspn(p, "?' \n"); *q == '?' || *q == '&'; q += strcspn(q, "&' \n")) {
            q++;
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (strncasecmp(q, names[i], strlen(names[i])) == 0)
                    hide(q + strlen(names[i]), q + strcspn(q, "&' \n"));
        }
    }
}

bool say(const char *prefix, const char *fmt, ...)
{
    char raw[RAW], line[64 + VISIBLE_ROOM(RAW)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    hide_passwords(raw);
    size_t n = (size_t)snprintf(line, 64, "seen: %s", prefix);
    n += visible_copy(line + n, raw);
    line[n++] = '\n';
    progress_hide();
    /* One write, so that lines of parallel processes stay whole. A failure cannot be reported
     * anywhere. */
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
    return false;
}

static int flush_errno; /* of the last failed flush */

bool say_failure(const struct err *err)
{
    return say_error("%s", err->text);
}

void say_flush(void)
{
    if (fflush(stdout) != 0)
        flush_errno = errno;
}

static const char *made; /* a file made by a command that then prints */

void say_made(const char *path)
{
    made = path;
}

static void say_stream_lost(const char *separator, const char *reason)
{
    if (made != NULL)
        say_error("'%s' was made, but standard output could not be written%s%s", made, separator,
                  reason);
    else
        say_error("cannot write standard output%s%s", separator, reason);
}

bool say_finish(void)
{
    say_flush();
    bool failed = ferror(stdout) != 0;
    /* The output is lost, with a reason that musl forgets: another byte is refused for the same. */
    if (failed && flush_errno == 0 && write(STDOUT_FILENO, "\n", 1) < 0)
        flush_errno = errno;
    if (fclose(stdout) != 0 && !failed) {
        failed = true;
        flush_errno = errno;
    }
    if (failed && flush_errno == 0)
        say_stream_lost("", "");
    else if (failed && flush_errno != EPIPE)
        say_stream_lost(": ", strerror(flush_errno));
    return !failed;
}
