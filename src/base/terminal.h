/*
 * Asks a person at the controlling terminal for a line, without echo.
 *
 *     struct terminal t;
 *     if (!terminal_open(&t, &err)) ...
 *     ok = terminal_ask(&t, "Key: ", line, &len, &err);
 *     ...
 *     terminal_say(&t, "not known\n");
 *     terminal_close(&t);
 *
 * Echo is off only while the process waits for the line. The terminal is restored after an answer,
 * an error, or a signal that ends or stops the process. Only SIGKILL and SIGSTOP, which cannot be
 * caught, leave echo off. After a stop the question is asked again.
 */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/err.h"

struct terminal {
    int fd;
    /* The rest is private. */
    bool is_saved;
    struct termios saved; /* as it was before the first question */
};

enum {
    /* The kernel's line editor keeps 4096 bytes (N_TTY_BUF_SIZE), newline included, and drops the
     * rest. So a line of 4095 bytes may have been longer. */
    TERMINAL_LINE = 4096,
};

/* Fails if the process has no controlling terminal. */
bool terminal_open(struct terminal *t, struct err *err);

/* Prints the prompt and reads one line into line[TERMINAL_LINE], *len bytes without its newline.
 * Fails if nothing was entered, if the line is too long, or if a signal arrived whose handler
 * returns. After a failure, `line` is overwritten. One thread at a time. */
bool terminal_ask(struct terminal *t, const char *prompt, char *line, size_t *len, struct err *err);

/* Prints a text. Errors are ignored. */
void terminal_say(const struct terminal *t, const char *text);

void terminal_close(struct terminal *t);

#endif
