/*
 * Messages to people: one line on stderr, "seen: " in front, written in one piece, control
 * characters made visible. Only commands talk; see err.h for everything below them.
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include <stdbool.h>

#include "base/err.h"

enum { EXIT_SELECTED = 0, EXIT_NONE = 1, EXIT_ERROR = 2 };

void say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* "warning: " */
void say_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));    /* for hints */

/* Says why something failed; returns false. */
bool say_failure(const struct err *err);

/* Writes what stdio holds of standard output, so that messages come after it. An error is not told
 * here but kept for say_finish. */
void say_flush(void);

/* From now on a message that standard output could not be written says, too, that the file `path`
 * was made all the same. The string must live as long as the program. */
void say_made(const char *path);

/* Closes standard output; tells if any of it could not be written, and then returns false. A reader
 * that went away, with SIGPIPE ignored, is not told of: the signal would have been as quiet. */
bool say_finish(void);

#endif
