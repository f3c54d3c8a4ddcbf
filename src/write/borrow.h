/* SPDX-License-Identifier: MIT
 * Filters of other programs, opened for reading as they are. What 'seen import' would make of one
 * is made in memory, and opened like a file of seen.
 */
#ifndef WRITE_BORROW_H
#define WRITE_BORROW_H

#include <stdbool.h>

#include "base/err.h"
#include "file/filter.h"

struct key_rule; /* keys/rule.h */

/* How files are read that are not of seen. */
struct borrow {
    const char *layout;          /* SPEC; NULL: known by the content */
    const struct key_rule *rule; /* the preparation of keys; NULL: none */
    /* Is told of each such file, and the spec that it was read with; NULL: nobody is. */
    void (*told)(const char *path, const char *spec);
};

/* Opens a filter for reading. A file that is not of seen is read as `how` says; NULL: only files of
 * seen are opened. */
bool borrow_open(struct filter *f, const char *path, const struct borrow *how, struct err *err);

/* Only the header. */
bool borrow_read_header(const char *path, const struct borrow *how, struct header *h,
                        struct err *err);

#endif
