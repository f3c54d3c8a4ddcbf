/*
 * Signals that end the program in an orderly way. After sig_catch(), SIGINT and SIGTERM (and
 * SIGHUP) only set a flag, which long work looks at between steps; a second one of them ends the
 * process. A system call that blocks in the thread that takes the signal fails with EINTR. A signal
 * that was ignored when the program started stays so.
 */
#ifndef SIG_H
#define SIG_H

void sig_catch(void);

/* 0, or the number of the signal that came. */
int sig_caught(void);

/* A name for messages when a mapped file shrinks or cannot be read (SIGBUS): while registered, a
 * fault in [map, map+len) ends the process with "seen: 'name': ..." and status 2. */
void sig_guard(const void *map, unsigned long long len, const char *name);
void sig_unguard(const void *map);

/* While set, a signal that ends the process (one of the above or SIGBUS) first removes `name` in
 * the directory open as dir_fd. One file at a time; NULL: none. */
void sig_remove(int dir_fd, const char *name);

#endif
