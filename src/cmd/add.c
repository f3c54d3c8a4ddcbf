/* SPDX-License-Identifier: MIT */
#include "base/disk.h"
#include "base/num.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/adding.h"
#include "cmd/changing.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"

struct add {
    bool verbose;
    struct adding adding;
    struct changing changing;
};

static const struct opt add_opts[] = {
    {0, "verbose", NULL, "report on stderr how many keys were new", FLAG(struct add, verbose)},
    {0},
};

static const struct opt_hint hints[] = {
    {"-v", "--verbose says how many keys were new"},
    {"--bulk", "keys are added live; for very many, see 'seen import' and 'seen export --merge'"},
    {"--live", "keys are always added live"},
    {0},
};

static const struct opt_group groups[] = {
    {"Adding", adding_opts, offsetof(struct add, adding), NULL},
    {"Output", add_opts, 0, NULL},
    {"Keys", keyopt_opts, offsetof(struct add, adding.keyopt), keyopt_take},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts,
     offsetof(struct add, adding.keyopt), keyopt_take},
    {"Counted sets", changing_opts, offsetof(struct add, changing), NULL},
    {"Filters in Redis", redisopt_write, offsetof(struct add, adding.sources.open), NULL},
    {"Making a filter", adding_make_opts, offsetof(struct add, adding), NULL},
    {0},
};

/* --once, --each and --batch-id are for counted sets, which FILTER is not. */
static bool check_counting_options(const struct add *a, struct err *err)
{
    const struct changing *c = &a->changing;
    const char *option = c->change.once               ? "--once"
                         : c->each                    ? "--each"
                         : c->change.batch_id != NULL ? "--batch-id"
                                                      : NULL;
    return option == NULL ||
           fail(err, "%s is for counted sets, which 'seen create --counted' makes", option);
}

/* Could the filter not be opened for writing because it is a counted set? If it cannot be read,
 * *err says why. Of a missing file it says more already. */
static bool is_counted_set(const char *path, struct err *err)
{
    bool suits = false;
    struct err why;
    if (!disk_lacks(path) && !change_suits(path, &suits, &why))
        *err = why;
    return suits;
}

/* Changes a counted set by one batch of keys. */
static int change_set(struct add *a)
{
    struct changing *c = &a->changing;
    c->change.path = a->adding.path;
    c->change.op = COUNTS_ADD;
    c->change.max_fpr = a->adding.options.max_fpr;
    c->change.no_sync = a->adding.no_sync;
    c->verbose = a->verbose;
    c->made = a->adding.design;
    if (!a->adding.options.rotate)
        return changing_run(c, &a->adding.keyopt);
    say_error("'%s' has no generations, so it cannot be rotated", c->change.path);
    return EXIT_ERROR;
}

static int run_add(struct add *a, struct opt_parser *p)
{
    struct adding *adding = &a->adding;
    struct err err;
    if (!adding_parse(adding, p, a))
        return p->status;
    bool ok = adding_open(adding, &err);
    if (!ok && is_counted_set(adding->path, &err))
        return change_set(a);
    if (!ok)
        keyopt_advise(&adding->keyopt, adding->path, &err);
    if (!ok || !check_counting_options(a, &err) || !adding_make(adding, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    redisopt_hint_many(adding->store, &adding->keyopt,
                       "seen import 'URI' -o F; seen add F; seen export --merge F -o 'URI'");
    sig_catch();
    bool ran = adding_run(adding);
    unsigned long long records = tally_keys(&adding->feed.tally),
                       n_new = adding->store->state.n_new;
    if (ran && a->verbose)
        say_note("%llu record%s, %llu new key%s", records, num_plural(records), n_new,
                 num_plural(n_new));
    return adding_end(adding);
}

static int run(struct opt_parser *p)
{
    struct add a = {.adding = ADDING_DEFAULT};
    a.adding.feed.title = "adding";
    int status = run_add(&a, p);
    adding_close(&a.adding);
    return status;
}

const struct command cmd_add = {
    .name = "add",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "add keys to a filter",
    .examples = "  seen add urls.seen more.txt                    add the lines of a file\n"
                "  seen add urls.seen -k http://example.org/      add one key\n"
                "  seen add --create -d, -f 2 ids.seen table.csv  a field; made if missing\n",
    .details =
        "Reads keys, one a line, from the KEYFILEs or standard input, and adds them to FILTER in "
        "place, beside any number of other writers and readers. Exit status 0 means that they "
        "are on disk.",
    .groups = groups,
    .everyday = " create capacity fpr key null delimiter field input-digests skip-bad secret"
                " verbose ",
    .hints = hints,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
