/*
 * Makes a file of counted sets from others (store/combine.h), and says what came of it: what merge
 * and subtract share.
 *
 *     struct combining c = {.out = out, .op = COUNTS_ADD, .in = &inputs, .file = &file, ...};
 *     ok = combining_run(&c);       // reports a failure itself
 */
#ifndef CMD_COMBINING_H
#define CMD_COMBINING_H

#include <stdbool.h>

#include "cmd/inputs.h"
#include "store/combine.h"

struct combining {
    const char *out;
    enum counts_op op;
    const struct inputs *in;
    struct newfile *file;
    bool force, json, reproducible, verbose;
    double max_fpr; /* of the result; 0: the sum of the inputs' design rates, or any with `force` */
    unsigned threads;
    /* The rest is private. */
    struct combine combine;
};

/* Do all inputs count? Does any? */
bool combining_all(const struct inputs *in);
bool combining_any(const struct inputs *in);

/* Writes and commits the file, and prints with `verbose` or `json` what it is. */
bool combining_run(struct combining *c);

#endif
