/* SPDX-License-Identifier: MIT
 * Messages to people: one line on stderr that begins with "seen: ", written in one piece, with
 * control characters made visible. Only commands print messages; everything below them uses err.h.
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include <stdbool.h>

#include "base/err.h"

enum { EXIT_SELECTED = 0, EXIT_NONE = 1, EXIT_ERROR = 2 };

void say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* "warning: " */
void say_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));    /* "note: " */

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
