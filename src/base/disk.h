/*
 * What every module that writes files needs: reads and writes that are complete or have failed,
 * scratch files, and the space that is left. `name` is the file's in messages.
 */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"

/* Writes all of buf at that offset. */
bool disk_write(int fd, const void *buf, uint64_t len, uint64_t off, const char *name,
                struct err *err);

/* The same for n pieces, IOV_MAX at most, that come one behind the other; piece[] is used up. */
bool disk_write_pieces(int fd, struct iovec *piece, size_t n, uint64_t off, const char *name,
                       struct err *err);

/* Waits until the file's data is on disk; on Linux, what was written through mappings too. */
bool disk_sync(int fd, const char *name, struct err *err);

/* Has the kernel begin to write a finished part of a file to disk, where it can be told so: the
 * sync at the end then has less to wait for. len is more than 0. */
void disk_write_back(int fd, uint64_t len, uint64_t off);

/* An unnamed file in `dir` for scratch, gone when it is closed, whatever ends the process. -1 on
 * failure. */
int disk_scratch(const char *dir, struct err *err);

/* Bytes free for this user in the file system that holds dir. */
bool disk_space(const char *dir, uint64_t *bytes, struct err *err);

/* The directory part of path, allocated ("." for none); NULL without memory. */
char *disk_dir_of(const char *path);

/* Reads len bytes at that offset, fewer only at the end of the file: *got. On an error it returns
 * false, with errno set and *got bytes read. */
bool disk_read(int fd, void *buf, size_t len, uint64_t off, size_t *got);

#endif
