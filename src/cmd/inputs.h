/*
 * The filters that a command reads, to make another filter from them or to compare them.
 *
 *     struct inputs in = {0};
 *     if (!inputs_open(&in, paths, n, &file, threads, "merged")) ...
 *     inputs_close(&in);            // in any case
 */
#ifndef CMD_INPUTS_H
#define CMD_INPUTS_H

#include <stdbool.h>

#include "store/filter.h"
#include "store/newfile.h"

struct inputs {
    struct filter *filter;
    unsigned n; /* filters that are open */
};

/* Opens n filters. They must prepare and hash keys alike; otherwise the message says that they
 * "cannot be `done`". Reads each filter whole and fails on damage, which must not be copied into
 * another file. `file` is the output, or NULL. If it replaces one of the filters, writers stay
 * locked out of that one. Prints why it fails. */
bool inputs_open(struct inputs *in, char **paths, unsigned n, struct newfile *file,
                 unsigned threads, const char *done);

/* Call it after they were read, before the result is committed (filter_check_intact). */
bool inputs_check_intact(const struct inputs *in, struct err *err);

void inputs_close(struct inputs *in);

#endif
