/* SPDX-License-Identifier: MIT
 * A file that appears under its name complete, or not at all.
 *
 *     struct newfile nf;
 *     if (!newfile_open(&nf, path, replace, &err)) ...
 *     ... write to nf.fd ...
 *     if (!newfile_commit(&nf, &err)) ...
 *     newfile_close(&nf);             // always; before commit it leaves nothing behind
 *
 * Until the commit, the file has a temporary name beside the target. A signal removes that file; if
 * the process is killed, the next newfile_open or newfile_clean for the same target removes it. The
 * commit syncs the file, gives it its name, and syncs the directory. A symbolic link at `path` is
 * followed: its target is replaced.
 *
 * Without `replace`, an existing path is an error: at open, or at commit if it appeared meanwhile;
 * but an empty file gives its place to a filter. With `replace`, only an existing filter file or an
 * empty file is replaced. Its turn lock is held during the rename, so no writer can add a key to
 * the old file. The new file takes over its mode and, where permitted, its owner.
 *
 * A command that makes a filter from others may read the file that it replaces. Keys added to that
 * file between the read and the rename would be lost. So lock it before the inputs are opened:
 *
 *     newfile_open(&nf, out, true, &err) && newfile_hold(&nf, &err)
 *     ... open the inputs ...
 *     if (no input is the file that newfile_replaces) newfile_let_go(&nf);
 */
#ifndef FILE_NEWFILE_H
#define FILE_NEWFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct newfile {
    int fd;     /* open for reading and writing, empty at first */
    char *path; /* resolved target */
    char *temp; /* temporary name; NULL after the commit */
    int dir_fd;
    int old_fd; /* the old file, to be replaced; or -1 */
    bool replace;
    bool foreign;  /* not a seen filter, and must not replace one */
    bool hasty;    /* set by the caller: the commit syncs the file, but not its directory */
    bool held;     /* newfile_hold has locked old_fd; only that file may be replaced */
    bool attached; /* set by the commit: keys were being added to the file that was replaced */
};

bool newfile_open(struct newfile *nf, const char *path, bool replace, struct err *err);

/* The same for a file that is not a seen filter. With `replace`, any regular file may be replaced
 * except a filter file. */
bool newfile_open_foreign(struct newfile *nf, const char *path, bool replace, struct err *err);

/* From now on, locks writers out of the old file, if there is one. The commit fails if another
 * file has taken its name by then. */
bool newfile_hold(struct newfile *nf, struct err *err);

/* Returns true if fd is the file to be replaced. */
bool newfile_replaces(const struct newfile *nf, int fd);

/* Undoes newfile_hold: writers are then locked out only during the commit. */
void newfile_let_go(struct newfile *nf);

/* Gives the file `len` bytes, all zero. Fails early if the disk has less. Allocates only the first
 * `first` of them: a later write into the rest, a hole, fails if the disk is full by then. */
bool newfile_reserve(struct newfile *nf, uint64_t first, uint64_t len, struct err *err);

bool newfile_commit(struct newfile *nf, struct err *err);

/* Removes the temporary files of dead processes, for a target that is to be changed in place. */
void newfile_clean(const char *path);

/* Also after newfile_open has failed, and for a zeroed struct. */
void newfile_close(struct newfile *nf);

#endif
