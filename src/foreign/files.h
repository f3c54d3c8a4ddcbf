/* SPDX-License-Identifier: MIT
 * The files of another program's filter.
 *
 *     struct foreign_files files;
 *     if (!foreign_open(&files, "name", &spec, dir, &err)) ...  // name, or its two files
 *     ... layout->read(&spec, &files.in, ...)
 *     if (!foreign_whole(&files, &err)) ...  // a file was cut while it was read
 *     foreign_close(&files);                 // in any case
 *
 *     struct foreign_output to;
 *     if (!foreign_create(&to, "name", kind, false, &err)) ...
 *     ... layout->write(&filter, data, &to.sink, &err) ...
 *     if (!foreign_commit(&to, &err)) ...
 *     foreign_end(&to);                      // in any case
 */
#ifndef FOREIGN_FILES_H
#define FOREIGN_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/disk.h"
#include "base/err.h"
#include "file/newfile.h"
#include "foreign/layout.h"

/* Each file is mapped. A pipe is copied to a scratch file, and a compressed file inflated into one,
 * unless it is short. */
struct foreign_files {
    struct layout_foreign in;
    uint64_t size; /* bytes of the files, as they are on disk */
    /* The rest is private. */
    const struct layout_spec *spec;
    const char *dir;
    char *name[LAYOUT_FILES];
    struct mapped mapped[LAYOUT_FILES]; /* a regular file, or a scratch file */
    uint8_t *read[LAYOUT_FILES];        /* the first bytes of what goes into a scratch file */
};

/* Opens the files of a layout. `name` "-" is standard input, for layouts of one file. A pipe or a
 * compressed file is an error if it has more bytes than its layout or header claims, or more than
 * fit into `dir`, the directory of the scratch file. With `dir` NULL, only its first bytes are
 * read. */
bool foreign_open(struct foreign_files *f, const char *name, const struct layout_spec *spec,
                  const char *dir, struct err *err);

/* Fails if the first bytes show that the layout does not fit. A bitmap may begin with any bytes, so
 * one is taken if spec->forced; of a Parquet file, both ends are checked. */
bool foreign_check(const struct foreign_files *f, const char *name, struct err *err);

/* Finds the one layout that fits the contents of the files: the spec of its name. base64: as
 * spec->base64. */
bool foreign_recognize(const char *name, bool base64, struct layout_spec *out, struct err *err);

/* Opens the files of a filter, checks them and reads what they say: fills *filter and bits[i] for
 * each layer. `done` says in messages what cannot be done: "import". */
bool foreign_read(struct foreign_files *f, const char *name, const struct layout_spec *spec,
                  const char *dir, const char *done, struct layout_filter *filter,
                  struct layout_bits bits[LAYOUT_LAYERS], struct err *err);

/* Fails if others changed a file while it was read. */
bool foreign_whole(const struct foreign_files *f, struct err *err);
void foreign_close(struct foreign_files *f);

/* New files, which get their names when all are complete. */
struct foreign_output {
    struct layout_sink sink;
    /* Private. */
    bool force;
    unsigned n;
    struct newfile file[LAYOUT_FILES];
    char *name[LAYOUT_FILES];
    uint64_t len[LAYOUT_FILES];
};

/* `name` "-" is standard output. force: files that are there are replaced. */
bool foreign_create(struct foreign_output *o, const char *name, const struct kind *kind, bool force,
                    struct err *err);
bool foreign_commit(struct foreign_output *o, struct err *err);

/* Also of one of zeroes. Files that were not committed are gone. */
void foreign_end(struct foreign_output *o);

#endif
