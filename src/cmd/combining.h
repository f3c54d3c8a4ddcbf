/*
 * For merge: options; combining counted sets into a new file (store/combine.h); and the report on
 * that file.
 *
 *     struct result_options options = RESULT_DEFAULT;
 *     struct combining c = {.op = COUNTS_ADD, .in = &inputs, .file = &file, .result = &options};
 *     ok = combining_run(&c);       // reports a failure itself
 */
#ifndef CMD_COMBINING_H
#define CMD_COMBINING_H

#include <stdbool.h>

#include "base/parallel.h"
#include "cmd/inputs.h"
#include "cmd/opt.h"
#include "store/combine.h"

extern const struct opt result_opts[]; /* -o, --max-fpr, --force and so on */

struct result_options {
    const char *out; /* NULL: not given */
    bool force, json, reproducible, verbose;
    double max_fpr; /* of the result; 0: the sum of the inputs' design rates; with `force`, any */
    unsigned threads;
};

#define RESULT_DEFAULT                                                                             \
    {                                                                                              \
        .threads = parallel_cpus()                                                                 \
    }

struct combining {
    enum counts_op op;
    const struct inputs *in;
    struct newfile *file;
    const struct result_options *result;
    /* The rest is private. */
    struct combine combine;
};

/* Are all inputs counted sets? Is any? */
bool combining_all(const struct inputs *in);
bool combining_any(const struct inputs *in);

/* Writes and commits the file. With `verbose` or `json`, prints a summary of it. */
bool combining_run(struct combining *c);

#endif
