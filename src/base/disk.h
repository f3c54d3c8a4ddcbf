/* SPDX-License-Identifier: MIT
 * Files on disk: complete reads and writes, scratch files, free space; and files mapped for
 * reading. `name` names the file in messages.
 *
 * If another process truncates a mapped file or the disk fails meanwhile, the process ends with a
 * message (sig_guard). What was truncated within a page, or overwritten, mapped_whole reports.
 *
 *     if (!mapped_open(&m, fd, len, name)) ...    // errno says why
 *     ... m.data[0..m.len) ...
 *     if (!mapped_whole(&m)) ...                  // some bytes may have been others
 *     mapped_close(&m);
 */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/err.h"

/* Is it an address: does it begin with a scheme, such as redis://? A file with such a name can be
 * given as ./redis://... */
bool disk_is_address(const char *name);

/* Has no file the name, or can none have it: below a file that is no directory, or too long? Sets
 * errno if so. */
bool disk_lacks(const char *name);

/* Writes all of buf at offset `off`. */
bool disk_write(int fd, const void *buf, uint64_t len, uint64_t off, const char *name,
                struct err *err);

/* The same for n adjacent pieces, at most IOV_MAX. Modifies piece[]. */
bool disk_write_pieces(int fd, struct iovec *piece, size_t n, uint64_t off, const char *name,
                       struct err *err);

/* Waits until the file's data is on disk, with what was written through its mapping. `map` NULL:
 * also its owner and mode. */
bool disk_sync(int fd, void *map, uint64_t len, const char *name, struct err *err);

/* Waits until the names in an open directory are on disk. False: errno is set. */
bool disk_sync_dir(int dir_fd);

/* Follows symbolic links from `path`, as far as the kernel would, without a look at the directories
 * above. Returns the path of the file, which need not exist, allocated. NULL: see errno. */
char *disk_resolve(const char *path);

/* Waits until the name of an existing file is on disk. */
bool disk_sync_name(const char *path, struct err *err);

/* An unnamed scratch file in `dir`, gone when closed, however the process ends. -1: see err. */
int disk_scratch(const char *dir, struct err *err);

/* Free bytes for this user in the file system of dir. */
bool disk_space(const char *dir, uint64_t *bytes, struct err *err);

/* The directory part of path, allocated ("." for none). NULL: out of memory. */
char *disk_dir_of(const char *path);

/* Reads len bytes at offset `off` into buf. *got is less than len only at the end of the file. On
 * an error returns false, with errno set and *got bytes read. */
bool disk_read(int fd, void *buf, size_t len, uint64_t off, size_t *got);

/* Reads len bytes from the current position; fd may be a pipe. Returns the number of bytes read,
 * which is less than len only at the end of the input, or -1 with errno set. */
ssize_t disk_read_next(int fd, void *buf, size_t len);

bool disk_same_time(const struct timespec *a, const struct timespec *b);
bool disk_same_file(const struct stat *a, const struct stat *b);

/* ---- Mapped files. */

struct mapped {
    char *data; /* NULL: not open */
    size_t len;
    int fd;
    struct timespec modified; /* when it was opened */
};

/* Maps the first `len` bytes of a file, at least one; `fd` may be closed afterwards. On failure
 * returns false and sets errno: EFBIG if they do not fit into the address space. */
bool mapped_open(struct mapped *m, int fd, uint64_t len, const char *name);

/* True if the file still has all the bytes, and nobody has written to it since it was opened. */
bool mapped_whole(const struct mapped *m);

void mapped_close(struct mapped *m);

#endif
