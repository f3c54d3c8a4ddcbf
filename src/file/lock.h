/* SPDX-License-Identifier: MIT
 * The locks of a file: bytes far beyond any file's end (port/port.h). The kernel releases them when
 * the process ends. session.h describes when the two of a filter are held.
 */
#ifndef FILE_LOCK_H
#define FILE_LOCK_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>

/* Offset with room after it in off_t: 2^62, or 2^30 where off_t has 32 bits. */
#define LOCK_TURN                                                                                  \
    ((off_t)1 << (sizeof(off_t) * 8 - 2)) /* held by the writer that changes something */
#define LOCK_SESSION (LOCK_TURN + 1)      /* held shared by every writer, for its whole session */
#define LOCK_TEMP    (LOCK_TURN + 2)      /* held while the file has a temporary name */

/* Takes a lock (F_RDLCK: shared, F_WRLCK: exclusive) without waiting. False: errno is set, to
 * EAGAIN or EACCES if another process holds it. */
bool lock_try(int fd, short type, off_t byte);
void lock_release(int fd, off_t byte); /* whether or not it is held */

/* Is any process in a session with this file, so that it may be writing? Needs no write permission.
 * False also if this cannot be determined. */
bool lock_alive(int fd);

/* Locks the turn byte of an open file: exclusively, or shared if fd is read-only, as it may be in a
 * process that is about to rename another file over it. Waits; with `give_up`, until a signal is
 * caught. After five seconds calls lock_slow, unless NULL, once, in another thread. */
bool lock_turn(int fd, const char *name, bool give_up);
extern void (*lock_slow)(const char *name);

#endif
