/* SPDX-License-Identifier: MIT
 * Repairs a filter file, for `seen verify --repair`.
 *
 *     struct repair r = {.path = path, .threads = threads};
 *     if (!repair_file(&r, &err)) ...
 *
 * A session whose writers are dead is ended, as by the next writer. A dirty file (session.h) is
 * replaced by a new file of its bits, as they are. A damaged copy of the header is written again.
 * Damaged pages of a file that is not dirty cannot be restored: then this fails. So does it if the
 * new file cannot be written; the old one stays. Immutable files have nothing to repair.
 */
#ifndef WRITE_REPAIR_H
#define WRITE_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct repair {
    const char *path;
    unsigned threads;
    /* What was repaired. */
    bool was_left, was_dirty, slot_was_damaged;
    uint64_t differing; /* pages of the dirty file that did not match their checksums */
};

bool repair_file(struct repair *r, struct err *err);

#endif
