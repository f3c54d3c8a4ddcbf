/* SPDX-License-Identifier: MIT
 * Reads a batch of keys and applies it to a counted set (write/change.h), for add and remove.
 *
 *     struct changing c = {0};
 *     {"Counted sets", changing_opts, offsetof(struct it, changing), NULL}
 *     c.change.path = path; c.change.op = COUNTS_ADD; ...
 *     status = changing_run(&c, &keyopt);
 */
#ifndef CMD_CHANGING_H
#define CMD_CHANGING_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/adding.h"
#include "cmd/feed.h"
#include "cmd/opt.h"
#include "write/change.h"

extern const struct opt changing_opts[]; /* --once, --batch-id, --tmpdir */

struct changing {
    struct change change; /* path, op, skip_absent, no_sync and max_fpr are the caller's */
    const char *tmpdir;   /* NULL: not given */
    bool each;            /* --each, the default */
    bool verbose;
    struct design made; /* what --create was asked for */
    /* The rest is private. */
    struct feed feed;
};

/* Reads and applies the batch; returns the exit status. */
int changing_run(struct changing *c, struct keyopt *keyopt);

#endif
