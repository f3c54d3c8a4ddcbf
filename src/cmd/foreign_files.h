/*
 * The files of another program's filter, each mapped or read into memory as a whole.
 *
 *     struct foreign_files files;
 *     if (foreign_open(&files, "name", layout, &err)) ...     // name, or name.header and name.data
 *     ... files.in ...
 *     if (!foreign_whole(&files, &err)) ...                   // a file was cut while it was read
 *     foreign_close(&files);                                  // in any case
 */
#ifndef CMD_FOREIGN_FILES_H
#define CMD_FOREIGN_FILES_H

#include "base/err.h"
#include "base/mapped.h"
#include "kind/layout.h"

struct foreign_files {
    struct layout_foreign in;
    /* The rest is private. */
    uint64_t most;
    char *name[LAYOUT_FILES];
    struct mapped map[LAYOUT_FILES]; /* a regular file ... */
    uint8_t *read[LAYOUT_FILES];     /* ... or the bytes of a pipe or device */
};

/* Opens the files of a layout. `name` "-" is standard input, for layouts of one file. Of a pipe, at
 * most `most` bytes are read; a longer one is an error. */
bool foreign_open(struct foreign_files *f, const char *name, const struct layout *layout,
                  uint64_t most, struct err *err);
bool foreign_whole(const struct foreign_files *f, struct err *err);
void foreign_close(struct foreign_files *f);

#endif
