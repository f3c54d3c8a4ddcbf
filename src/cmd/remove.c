/* SPDX-License-Identifier: MIT */
/* seen remove: takes keys out of a filter that counts them. */
#include "base/say.h"
#include "cmd/changing.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"

struct remove {
    struct keyopt keyopt;
    bool all;
    struct changing changing;
};

static const struct opt remove_opts[] = {
    {0, "all", NULL, "remove each key entirely, however often it was added",
     FLAG(struct remove, all), .not_with = " once each", .why = "removes all counts of a key"},
    {0, "skip-absent", NULL,
     "skip keys that are not in FILTER, and report on stderr how many; without it, the first of "
     "them is an error, and nothing is removed",
     FLAG(struct remove, changing.change.skip_absent)},
    {0, "no-sync", NULL,
     "do not wait for the disk; if the machine crashes, FILTER may be as before",
     FLAG(struct remove, changing.change.no_sync)},
    {0, "verbose", NULL, "report on stderr how many keys were removed entirely",
     FLAG(struct remove, changing.verbose)},
    {0},
};

static const struct opt_group groups[] = {
    {"Removing", remove_opts, 0, NULL},
    {"Batches", changing_opts, offsetof(struct remove, changing), NULL},
    {"Keys", keyopt_opts, offsetof(struct remove, keyopt), keyopt_take},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts,
     offsetof(struct remove, keyopt), keyopt_take},
    {0},
};

static int run_remove(struct remove *r, struct opt_parser *p)
{
    struct err err;
    if (!opt_parse(p, r))
        return p->status;
    if (!keyopt_files(&r->keyopt, p, 1))
        return EXIT_ERROR;
    if (!change_check(p->operand[0], &err)) {
        keyopt_advise(&r->keyopt, p->operand[0], &err);
        say_failure(&err);
        return EXIT_ERROR;
    }
    r->changing.change.path = p->operand[0];
    r->changing.change.op = r->all ? COUNTS_EXCEPT : COUNTS_SUBTRACT;
    r->changing.change.once |= r->all; /* its count does not matter */
    return changing_run(&r->changing, &r->keyopt);
}

static int run(struct opt_parser *p)
{
    struct remove r = {.keyopt = KEYOPT_DEFAULT};
    int status = run_remove(&r, p);
    keyopt_free(&r.keyopt);
    return status;
}

const struct command cmd_remove = {
    .name = "remove",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "take keys out of a counted set",
    .examples = "  seen remove counts.seen old.txt                take the lines of a file out\n"
                "  seen remove counts.seen -k pear                take one key out\n"
                "  seen remove --skip-absent counts.seen new.txt  ignore what is not there\n",
    .details = "Reads keys, one a line, from the KEYFILEs or standard input, and removes them from "
               "FILTER, a set made with 'seen create --counted', as often as they are given. If "
               "one of them is not in FILTER, none is removed. A new file replaces FILTER.",
    .groups = groups,
    .everyday = " all skip-absent verbose key null delimiter field input-digests skip-bad secret ",
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
