/*
 * A file that appears under its name complete, or not at all.
 *
 *     struct newfile nf;
 *     if (!newfile_open(&nf, path, replace, &err)) ...
 *     ... write to nf.fd ...
 *     if (!newfile_commit(&nf, &err)) ...
 *     newfile_close(&nf);             // always; before commit it leaves nothing behind
 *
 * The file has no name until the commit where the file system can do that (O_TMPFILE); else it has
 * a temporary one beside the target, which is removed on a signal, and if the process is killed, by
 * the next newfile_open for the same target. The commit syncs the file, gives it its name, and
 * syncs the directory. A symbolic link at `path` is followed: what it points to is replaced.
 *
 * Without `replace` an existing path is an error, at open and, should it appear meanwhile, at
 * commit. With it, an existing filter file (and nothing else) is replaced: its batch lock is held
 * from before the rename until after (so no writer can add a key to the file that is going), its
 * mode is kept and, where permitted, its owner.
 *
 * A command that reads filters to make another may read the one that it replaces. Keys that are
 * added to that between reading and rename would be lost, so it is locked before it is opened:
 *
 *     newfile_open(&nf, out, true, &err) && newfile_hold(&nf, &err)
 *     ... open the inputs ...
 *     if (no input is the file that newfile_replaces) newfile_let_go(&nf);
 */
#ifndef STORE_NEWFILE_H
#define STORE_NEWFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct newfile {
    int fd;        /* open for reading and writing, empty at first */
    char *path;    /* resolved target */
    char *temp;    /* temporary name, or NULL */
    int dir_fd;
    int old_fd;    /* the file to be replaced, or -1 */
    bool replace;
    bool foreign;  /* not a filter file of ours, and replaces none */
    bool hasty;    /* to be set: the commit syncs the file, but does not wait for its name to be on
                      disk */
    bool held;     /* old_fd is locked already, and only that file may be replaced */
    bool done;
};

bool newfile_open(struct newfile *nf, const char *path, bool replace, struct err *err);

/* The same for another program's file. With `replace`, any regular file may be replaced that is not
 * a filter file. */
bool newfile_open_foreign(struct newfile *nf, const char *path, bool replace, struct err *err);

/* From now on, locks writers out of the file to be replaced, if there is one. The commit fails if
 * another file has taken its name by then. */
bool newfile_hold(struct newfile *nf, struct err *err);

/* Is the file open as fd the one to be replaced? */
bool newfile_replaces(const struct newfile *nf, int fd);

/* Undoes newfile_hold: writers are locked out for the commit only. */
void newfile_let_go(struct newfile *nf);

/* Allocates `len` bytes of disk space, all zero. Fails early if the disk has less. */
bool newfile_reserve(struct newfile *nf, uint64_t len, struct err *err);

/* The same, but only the first `first` of the `len` bytes are allocated, although the disk must
 * have room for all. The others are a hole, in which writing may fail when the disk is full by
 * then. */
bool newfile_reserve_first(struct newfile *nf, uint64_t first, uint64_t len, struct err *err);

bool newfile_commit(struct newfile *nf, struct err *err);
void newfile_close(struct newfile *nf);

/* For tests: behaves as on a file system without O_TMPFILE. */
extern bool newfile_always_named;

#endif
