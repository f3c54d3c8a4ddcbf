/*
 * What merge and subtract share: options; and making a file of counted sets from others
 * (store/combine.h), and saying what came of it.
 *
 *     struct result_options options = RESULT_DEFAULT;
 *     default: return result_take(&options, p, id);
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

enum { RESULT_FIRST = 500 }; /* their long options' ids are from here on */

struct result_options {
    const char *out; /* NULL: not given */
    bool force, json, reproducible, verbose;
    double max_fpr; /* of the result; 0: the sum of the inputs' design rates, or any with `force` */
    unsigned threads;
};

#define RESULT_DEFAULT {.threads = parallel_cpus()}

/* Takes one of these options. Reports a mistake itself; false, too, for another option's id. */
bool result_take(struct result_options *o, struct opt_parser *p, int id);

struct combining {
    enum counts_op op;
    const struct inputs *in;
    struct newfile *file;
    const struct result_options *result;
    /* The rest is private. */
    struct combine combine;
};

/* Do all inputs count? Does any? */
bool combining_all(const struct inputs *in);
bool combining_any(const struct inputs *in);

/* Writes and commits the file, and prints with `verbose` or `json` what it is. */
bool combining_run(struct combining *c);

#endif
