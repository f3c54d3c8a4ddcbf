/*
 * The files of another program's filter, each mapped. A pipe is copied to a scratch file, and a
 * compressed file inflated into one, unless it is short.
 *
 *     struct foreign_files files;
 *     if (foreign_open(&files, "name", &spec, most, dir, &err)) ...  // name, or its two files
 *     ... files.in ...
 *     if (!foreign_whole(&files, &err)) ...  // a file was cut while it was read
 *     foreign_close(&files);                 // in any case
 */
#ifndef CMD_FOREIGN_FILES_H
#define CMD_FOREIGN_FILES_H

#include "base/disk.h"
#include "base/err.h"
#include "kind/layout.h"

struct foreign_files {
    struct layout_foreign in;
    /* The rest is private. */
    const struct layout_spec *spec;
    uint64_t most;
    const char *dir;
    char *name[LAYOUT_FILES];
    struct mapped mapped[LAYOUT_FILES]; /* a regular file, or a scratch file */
    uint8_t *read[LAYOUT_FILES];        /* the first bytes of what goes into a scratch file */
};

/* Opens the files of a layout. `name` "-" is standard input, for layouts of one file. Of a pipe or
 * a compressed file, at most `most` bytes are read, and no more than its header claims or `dir`,
 * the directory of the scratch file, has room for; a longer one is an error. With `dir` NULL, `in`
 * has the first bytes of such a file only. */
bool foreign_open(struct foreign_files *f, const char *name, const struct layout_spec *spec,
                  uint64_t most, const char *dir, struct err *err);
bool foreign_whole(const struct foreign_files *f, struct err *err);
void foreign_close(struct foreign_files *f);

#endif
