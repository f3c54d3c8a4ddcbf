/* SPDX-License-Identifier: MIT
 * Messages to people: one line on stderr that begins with "seen: ", written in one piece, with
 * control characters made visible. Only commands print messages; everything below them uses err.h.
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include <stdbool.h>

#include "base/err.h"

enum { EXIT_SELECTED = 0, EXIT_NONE = 1, EXIT_ERROR = 2 };

/* Prints a message that begins with `prefix`, after "seen: ". Always returns false. */
bool say(const char *prefix, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define say_error(...)   say("", __VA_ARGS__)
#define say_warning(...) say("warning: ", __VA_ARGS__)
#define say_note(...)    say("note: ", __VA_ARGS__)

/* Prints why something failed; returns false. */
bool say_failure(const struct err *err);

/* Flushes stdio's standard output, so that messages come after it. say_finish reports an error. */
void say_flush(void);

/* From now on, a message about failed standard output also says that the file `path` was made. The
 * string must stay valid until the program ends. */
void say_made(const char *path);

/* Closes standard output. Returns false and prints a message if part of it could not be written. If
 * the reader has closed the pipe and SIGPIPE is ignored, prints nothing, as if SIGPIPE had ended
 * the process. */
bool say_finish(void);

#endif
