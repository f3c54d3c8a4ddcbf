/* SPDX-License-Identifier: MIT
 * What differs between systems, in words of our own. All else in src is POSIX and C11; the compiler
 * is told so, and these files alone ask for more: linux.c, darwin.c (macOS), and bsd.c for all
 * others, which makes do with POSIX where it does not know the system. locks.c has the locks.
 *
 * For tests, -DPORT_PLAIN takes bsd.c in place of linux.c, and with it POSIX locks;
 * -DPORT_POSIX_LOCKS takes those alone; -DPORT_APART makes mappings and writes incoherent.
 *
 * "Best effort": a hint, or a protection that a system may lack. False and errno ENOSYS: the system
 * has no such call, and the caller knows another way.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#if defined __linux__ && !defined PORT_PLAIN
#define PORT_LINUX
#elif !defined __APPLE__
#define PORT_POSIX_LOCKS
#endif

/* ---- Memory. */

/* Random bytes, for secrets too; at most 256. False: errno is set. */
bool port_random(void *to, size_t len);

/* Overwrites what will not be read any more, which the compiler must not leave out. */
void port_wipe(void *at, size_t len);

/* Zeroed memory, with that protection (PROT_NONE to PROT_WRITE). A page of it is taken when it is
 * first written; lazy: more may be asked for than the machine has. NULL: errno is set. To be given
 * back with munmap. */
void *port_zeroes(size_t len, int protection, bool lazy);

/* Best effort: these pages, not yet used, become huge ones. */
void port_huge(void *at, size_t len);

/* Best effort: all of these pages of a mapped file will be written to. Takes them at once, large
 * ones where they are not in memory yet: a page fault for each would take longer. */
void port_fill(void *at, size_t len);

/* Best effort: this process leaves no core dump, and others cannot read its memory. */
void port_hide_process(void);

/* ---- The machine. */

/* Its memory in bytes; UINT64_MAX: unknown. */
uint64_t port_ram(void);

/* The number of CPUs that this process may use. */
unsigned port_cpus(void);

/* A number that the machine has until it starts anew; 0: unknown. */
uint64_t port_boot(void);

/* ---- Files. */

/* Of a struct stat: when the file was modified (its contents), or changed (its status, too). */
#ifdef __APPLE__
#define port_modified st_mtimespec
#define port_changed  st_ctimespec
#else
#define port_modified st_mtim
#define port_changed  st_ctim
#endif

/* Writes pieces at an offset, as writev. */
ssize_t port_write_pieces(int fd, const struct iovec *piece, int n, off_t off);

/* Waits until the contents of a file are on the medium, with what was written through its mapping.
 * `map` NULL: also its owner and mode, or the names of a directory. False: errno is set. */
bool port_sync(int fd, void *map, size_t len);

/* Best effort: starts writing to disk what is in a file by now. */
void port_write_back(int fd);

/* Does a mapping of a file show writes to the file at once, and a read what was changed in it? */
#if defined __OpenBSD__ || defined PORT_APART
enum { PORT_COHERENT = false };
#else
enum { PORT_COHERENT = true };
#endif

/* Makes a file longer, if it ends before off + len, and takes blocks for these bytes. On failure
 * the file may be longer all the same. False: errno is set; ENOSYS: no blocks can be taken here. */
bool port_reserve(int fd, off_t off, off_t len);

/* Zeroes bytes of a file, and keeps their blocks. False: this system or file system cannot. */
bool port_clear(int fd, off_t off, off_t len);

/* Renames within a directory, unless the new name is taken. False: errno is set; ENOSYS: this
 * system or file system cannot. */
bool port_rename_new(int dir_fd, const char *from, const char *to);

/* Is a file a mount of its own? False also if that is unknown. */
bool port_is_mounted(int dir_fd, const char *name);

enum port_system { PORT_UNKNOWN, PORT_FUSE, PORT_OVERLAY };

/* What file system a file is in. */
enum port_system port_system(int fd);

/* ---- Input. */

/* Best effort: the file will be read from `start` on to its end. */
void port_read_ahead(int fd, off_t start);

/* Best effort: gives a pipe a buffer of `len` bytes. */
void port_widen_pipe(int fd, int len);

/* Waits for input, for at most that time. True: a read returns at once, with data, the end or an
 * error. False: the time is over, or a signal came. */
bool port_wait_input(int fd, int milliseconds);

/* ---- Memory. */

/* A file in memory, of this process alone and gone when closed. -1: this system has none. */
int port_memory_file(void);

/* ---- Locks of single bytes, which may lie beyond the end of a file. They belong to the open
 * file: another open file cannot take a conflicting lock, not even in this process. port_close
 * gives them up, as the end of the process does. */

/* Takes a lock (type F_RDLCK: shared; F_WRLCK: exclusive, fd must be open for writing) or gives it
 * up (F_UNLCK). False: errno is set. Another has it: EAGAIN or EACCES, without `wait`; EINTR: a
 * signal came while it waited. */
bool port_lock(int fd, short type, off_t byte, bool wait);

/* Does another open file, here or in another process, hold a lock of any of these bytes? False:
 * errno is set. */
bool port_locked(int fd, off_t byte, off_t n, bool *locked);

/* Closes a file that another descriptor of this process may have locked. Where locks belong to the
 * process, close(2) would give up that lock. */
void port_close(int fd);

/* ---- What only some systems have. */

#ifndef PORT_LINUX
#define port_huge(at, len)            ((void)(at), (void)(len))
#define port_fill(at, len)            ((void)(at), (void)(len))
#define port_hide_process()           ((void)0)
#define port_write_back(fd)           ((void)(fd))
#define port_clear(fd, off, len)      ((void)(off), (void)(len), false)
#define port_is_mounted(dir_fd, name) false
#define port_read_ahead(fd, start)    ((void)(fd), (void)(start))
#define port_boot()                   UINT64_C(0)
#define port_widen_pipe(fd, len)      ((void)(fd))
#define port_memory_file()            (-1)
#ifndef __APPLE__
#define port_rename_new(dir_fd, from, to) (errno = ENOSYS, false)
#endif
#endif

#endif
