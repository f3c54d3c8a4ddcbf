/* SPDX-License-Identifier: MIT
 * Orderly shutdown on signals. After sig_catch(), SIGINT, SIGTERM and SIGHUP only set a flag; long
 * work checks it between steps. Another signal, a second or more later, ends the process. A system
 * call that blocks in the thread that gets the signal fails with EINTR. A signal that was ignored
 * at program start stays ignored.
 */
#ifndef BASE_SIG_H
#define BASE_SIG_H

#include <stdbool.h>

void sig_catch(void);

/* The number of the signal received, or 0. */
int sig_caught(void);

/* Handles SIGBUS in [map, map + len), a mapped file that was truncated or cannot be read: the
 * process prints "seen: cannot read 'name' ..." and exits with status 2. Call sig_unguard before
 * unmapping. `name` is the path of the file. fd is the file if it is being written, so that the
 * message can say that its disk is full; else -1. */
void sig_guard(const void *map, unsigned long long len, const char *name, int fd);
void sig_unguard(const void *map);

/* While set, a signal that ends the process (one of the above, SIGALRM, SIGBUS, SIGPIPE, SIGQUIT,
 * SIGUSR1, SIGUSR2 or SIGXCPU) first removes `name` in the directory open as dir_fd. One file at a
 * time; NULL: none. */
void sig_remove(int dir_fd, const char *name);

/* While set, a signal that ends the process first ends the line on stderr: a progress line is in
 * place there. False: such a signal has come, and no line may be begun. */
bool sig_end_line(bool open);

#endif
