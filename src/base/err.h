/* SPDX-License-Identifier: MIT
 * Reasons for failure. Modules below the commands never print. A function that can fail takes a
 * `struct err *`. On failure it returns false and stores one sentence without a full stop, fit to
 * follow "seen: ". The caller prints it (say.h), extends it, or drops it.
 *
 *     if (fd < 0)
 *         return fail_errno(err, "cannot open '%s'", path);
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

struct err {
    char text[4096 + 512]; /* a path of PATH_MAX bytes and what happened to it */
    bool helps;            /* the text names the command that is meant; no other is proposed */
};

/* Sets the text, which does not help; always returns false. A text that is too long is cut: a
 * command goes into a piece of its own, which can be left out (fail_more). */
bool fail(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same, followed by ": " and strerror(errno). */
bool fail_errno(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends to the text if there is room for all of it: half a command would be another one. Returns
 * false. */
bool fail_more(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An analyzer, which does not look into err.c, would take a failure for a success. */
#ifdef __clang_analyzer__
static inline bool not_done(bool done)
{
    return done && false;
}
#define fail(...)       not_done(fail(__VA_ARGS__))
#define fail_errno(...) not_done(fail_errno(__VA_ARGS__))
#define fail_more(...)  not_done(fail_more(__VA_ARGS__))
#endif

#endif
