/*
 * For merge: options; combining counted sets into a new file (store/combine.h); and the report on
 * that file.
 *
 *     struct result_options options = RESULT_DEFAULT;
 *     struct combining c = {.op = COUNTS_ADD, .make = &make, .result = &options};
 *     ok = combining_run(&c);       // reports a failure itself
 */
#ifndef CMD_COMBINING_H
#define CMD_COMBINING_H

#include <stdbool.h>

#include "base/parallel.h"
#include "cmd/opt.h"
#include "store/combine.h"
#include "store/make.h"

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
    struct make *make; /* its inputs are combined */
    const struct result_options *result;
    /* The rest is private. */
    struct combine combine;
};

/* Are all inputs counted sets? Is any? */
bool combining_all(const struct make *m);
bool combining_any(const struct make *m);

/* The highest rate that the result may have, unless `force` is set. */
double combining_limit(const struct make *m, const struct result_options *result);

/* May the result be made, with its current rate `fpr`? Reports if not. `least`: no lower rate is
 * possible. */
bool combining_accepts(const struct make *m, const struct result_options *result, double fpr,
                       bool least);

/* Writes and commits the file. With `verbose` or `json`, prints a summary of it. */
bool combining_run(struct combining *c);

#endif
