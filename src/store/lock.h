/*
 * The two locks of a filter file: bytes far beyond any file's end, locked by open file description.
 * Such a lock vanishes with the process that holds it. session.h says who holds which when.
 */
#ifndef STORE_LOCK_H
#define STORE_LOCK_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>

/* An off_t with room behind it: 2^62, or 2^30 where off_t is small. */
#define LOCK_BATCH   ((off_t)1 << (sizeof(off_t) * 8 - 2)) /* held by the writer of a batch */
#define LOCK_SESSION (LOCK_BATCH + 1) /* held shared by every writer, for its life */

/* Takes a lock (F_RDLCK: shared, F_WRLCK: exclusive) or releases it (F_UNLCK). Waits; a caught
 * signal ends the wait only if `give_up`. False: see errno. */
bool lock_wait(int fd, short type, off_t byte, bool give_up);

/* The same without waiting: EAGAIN or EACCES if another process holds it. */
bool lock_try(int fd, short type, off_t byte);

/* Does another process hold the session byte? False: this cannot be determined. */
bool lock_others(int fd, bool *others);

/* Is any process in a session with this file? Needs no write permission. */
bool lock_alive(int fd);

/* Locks the batch byte of an open file: for a process that is about to rename over it. */
bool lock_batch(int fd);

#endif
