/*
 * The filters that a command reads to make another, or to compare them.
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
    unsigned n; /* open ones */
};

/* Opens n filters, whose keys must be prepared and hashed alike; "cannot be `done`" else. Reads all
 * of each once: damage must not go from one file into another. Of a file to be replaced, NULL if
 * there is none, writers are locked out if it is one of them. Says itself what is wrong. */
bool inputs_open(struct inputs *in, char **paths, unsigned n, struct newfile *file,
                 unsigned threads, const char *done);

void inputs_close(struct inputs *in);

#endif
