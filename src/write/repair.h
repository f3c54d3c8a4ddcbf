/* SPDX-License-Identifier: MIT
 * Repairs a filter file, for `seen verify --repair`.
 *
 *     struct repair r = {.path = path, .threads = threads};
 *     if (!repair_file(&r, &err)) ...
 *
 * A session whose writers are dead is ended, as by the next writer. A damaged copy of the header is
 * written again. A dirty file (session.h), or one with damaged pages, is replaced by a new file of
 * its bits.
 *
 * What a damaged page held is unknown: in the new file all its bits are set, so that every key that
 * was acknowledged is present. The FPR rises by the fraction of such pages, or less. If that is
 * more than a tenth of a layer, or a page has other bytes than bits, this fails. So does it if the
 * new file cannot be written. The old one then stays. Immutable files have nothing to repair.
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
    uint64_t n_pages, n_filled; /* pages in all, and those whose bits were set */
    double fpr;                 /* that follows, if there are any */
};

bool repair_file(struct repair *r, struct err *err);

#endif
