#include "base/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/progress.h"
#include "base/utf8.h"

/* Room for a message: a struct err and some words around it. Made visible, a byte takes four. */
enum { RAW = sizeof(struct err) + 2048, SHOWN = 4 * RAW };

static bool is_control(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0];
    if (n == 1)
        return c < 0x20 || c == 0x7f;
    return n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0; /* U+0080 to U+009F */
}

static size_t show_byte(char *out, unsigned char c)
{
    static const char named[] = "\a\b\t\n\v\f\r", letters[] = "abtnvfr";
    const char *at = c != 0 ? strchr(named, c) : NULL;
    if (at != NULL) {
        out[0] = '\\';
        out[1] = letters[at - named];
        return 2;
    }
    return (size_t)snprintf(out, 5, "\\x%02x", c);
}

/* Copies s to out (4 times as long, and one more), control characters and bytes that are not UTF-8
 * as escapes: names come from others, and a terminal obeys what it is sent. */
static size_t make_visible(char *out, const char *s)
{
    size_t n = 0;
    for (size_t left = strlen(s); left > 0;) {
        size_t len = utf8_len(s, left);
        size_t step = len == 0 ? 1 : len;
        if (len == 0 || is_control(s, len)) {
            for (size_t i = 0; i < step; i++)
                n += show_byte(out + n, (unsigned char)s[i]);
        } else {
            memcpy(out + n, s, len);
            n += len;
        }
        s += step;
        left -= step;
    }
    return n;
}

static void say(const char *prefix, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void say(const char *prefix, const char *fmt, va_list ap)
{
    char raw[RAW], line[64 + SHOWN + 1];
    if (vsnprintf(raw, sizeof raw, fmt, ap) < 0)
        return;
    size_t n = (size_t)snprintf(line, 64, "seen: %s", prefix);
    n += make_visible(line + n, raw);
    line[n++] = '\n';
    progress_hide();
    /* One write, so that lines of parallel processes stay whole; nobody is left to tell of an
     * error. */
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
}

void say_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void say_warning(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

void say_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

static int flush_errno; /* of the first flush that failed */

bool say_failure(const struct err *err)
{
    say_error("%s", err->text);
    return false;
}

void say_flush(void)
{
    if (fflush(stdout) != 0 && flush_errno == 0)
        flush_errno = errno;
}

static const char *made; /* by a command that then printed something */

void say_made(const char *path)
{
    made = path;
}

static void say_lost(const char *separator, const char *reason)
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
    if (fclose(stdout) != 0 && !failed) {
        failed = true;
        flush_errno = errno;
    }
    if (failed && flush_errno == 0)
        say_lost("", "");
    else if (failed && flush_errno != EPIPE)
        say_lost(": ", strerror(flush_errno));
    return !failed;
}
