/*
 * Signals that end the program in an orderly way. After sig_catch(), SIGINT and SIGTERM (and
 * SIGHUP) only set a flag, which long work looks at between steps; another one of them, a second or
 * more later, ends the process. A system call that blocks in the thread that takes the signal fails
 * with EINTR. A signal that was ignored when the program started stays so.
 */
#ifndef BASE_SIG_H
#define BASE_SIG_H

#include <stdatomic.h>
#include <stdbool.h>

void sig_catch(void);

/* 0, or the number of the signal that came. */
int sig_caught(void);

/* What comes of a fault in [map, map + len), a mapped file that shrank or cannot be read (SIGBUS):
 * with sig_guard the process ends with "seen: cannot read 'name' ..." and status 2; with sig_bear
 * *lost is set, and from that page on there are zeroes. Until sig_unguard, which comes before the
 * mapping or `lost` is gone. `name` is a path by which the file was opened. fd is that of a file
 * that is written to, of which the message says if its disk is full; -1 for others. */
void sig_guard(const void *map, unsigned long long len, const char *name, int fd);
bool sig_bear(const void *map, unsigned long long len, atomic_bool *lost); /* false: no memory */
void sig_unguard(const void *map);

/* While set, a signal that ends the process (one of the above or SIGBUS) first removes `name` in
 * the directory open as dir_fd. One file at a time; NULL: none. */
void sig_remove(int dir_fd, const char *name);

#endif
