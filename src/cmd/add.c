#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/num.h"
#include "base/say.h"
#include "cmd/adding.h"
#include "cmd/changing.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"

struct add {
    struct keyopt keyopt;
    bool verbose;
    struct adding adding;
    struct changing changing;
};

static const struct opt add_opts[] = {
    {0, "max-fpr", "P", "stop before the current false-positive rate exceeds P",
     FPR(struct add, adding.options.max_fpr)},
    {0, "rotate-at-capacity", NULL,
     "with --generations: rotate whenever the newest generation is full",
     FLAG(struct add, adding.options.rotate)},
    {0, "no-sync", NULL,
     "do not wait for the disk; faster, but keys may be lost if the machine crashes",
     FLAG(struct add, adding.no_sync)},
    {0, "verbose", NULL, "report on stderr how many keys were new", FLAG(struct add, verbose)},
    {0},
};

static const struct opt create_opts[] = {
    {0, "create", NULL, "make FILTER if it does not exist; a file grows when it is full",
     FLAG(struct add, adding.create)},
    {'n', "capacity", "N", "make FILTER for N distinct keys", AMOUNT(struct add, adding.design.n),
     .needs = " create", .why = "is for a filter that is made"},
    {0, "fixed", NULL, "make a FILTER of that --capacity that does not grow",
     FLAG(struct add, adding.design.fixed), .needs = " create", .not_with = " URI generations",
     .why = "is for a file that is made"},
    {'p', "fpr", "P",
     "make FILTER with this false-positive rate; default: 0.001, in Redis the layout's",
     FPR(struct add, adding.design.p), .needs = " create", .why = "is for a filter that is made"},
    {300, "generations", "G",
     "make a FILTER that forgets: 'seen rotate' drops the oldest of G generations", OWN,
     .needs = " create", .not_with = " URI", .why = "is for a file that is made"},
    {0},
};

static const struct opt_hint hints[] = {
    {"-v", "--verbose says how many keys were new"},
    {"--bulk", "keys are added live; for very many, see 'seen import' and 'seen export --merge'"},
    {"--live", "keys are always added live"},
    {0},
};

static bool take_add_generations(void *add, struct opt_parser *p, int id)
{
    (void)id;
    return adding_take_generations(&((struct add *)add)->adding.design, p);
}

static const struct opt_group groups[] = {
    {"Adding", add_opts, 0, NULL},
    {"Keys", keyopt_opts, offsetof(struct add, keyopt), keyopt_take},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts,
     offsetof(struct add, keyopt), keyopt_take},
    {"Counted sets", changing_opts, offsetof(struct add, changing), changing_take},
    {"Filters in Redis", redisopt_write, offsetof(struct add, adding.sources.open), redisopt_take},
    {"Making a filter", create_opts, 0, take_add_generations},
    {0},
};

static void report_added(const struct add *a)
{
    unsigned long long records = tally_keys(&a->adding.feed.tally);
    unsigned long long n_new = a->adding.store->state.n_new;
    say_note("%llu record%s, %llu new key%s", records, num_plural(records), n_new,
             num_plural(n_new));
}

static void conclude_add(const struct add *a)
{
    const struct add_state *state = &a->adding.store->state;
    if (state->too_full[0] != '\0' && !state->was_told)
        say_warning("%s", state->too_full);
    if (a->verbose)
        report_added(a);
}

static int run_adding(struct add *a)
{
    redisopt_hint_many(a->adding.store, &a->keyopt,
                       "seen import 'URI' -o F; seen add F; seen export --merge F -o 'URI'");
    if (adding_begin(&a->adding)) {
        adding_run(&a->adding);
        conclude_add(a);
    }
    return adding_status(&a->adding);
}

/* --once, --each and --batch-id are for counted sets, which FILTER is not. */
static bool check_counting_options(const struct add *a, const char *path, struct err *err)
{
    const struct change *c = &a->changing.change;
    const char *counts = c->once ? "--once" : a->changing.each ? "--each" : NULL;
    if (a->adding.there != STORE_THERE && (counts != NULL || c->batch_id != NULL))
        return fail(err, "%s is for counted sets, which 'seen create --counted' makes",
                    counts != NULL ? counts : "--batch-id");
    if (c->batch_id != NULL)
        return fail(err,
                    "'%s' remembers no batches and needs none: adding keys again changes nothing",
                    path);
    return counts == NULL || fail(err,
                                  "'%s' does not count its keys, so %s has no effect; 'seen create "
                                  "--counted' makes sets that do",
                                  path, counts);
}

/* A filter that is there could not be opened for writing, or something else could not: is it a
 * counted set? If not, *err stays. */
static bool is_counted_set(const char *path, struct err *err)
{
    bool suits = false;
    struct err why;
    bool missing = access(path, F_OK) != 0 && errno == ENOENT;
    if (!missing && !change_suits(path, &suits, &why))
        *err = why;
    return suits;
}

/* Changes a counted set by one batch of keys. */
static int change_set(struct add *a, const char *path)
{
    struct changing *c = &a->changing;
    c->change.path = path;
    c->change.op = COUNTS_ADD;
    c->change.max_fpr = a->adding.options.max_fpr;
    c->change.no_sync = a->adding.no_sync;
    c->verbose = a->verbose;
    c->made = a->adding.design;
    if (!a->adding.options.rotate)
        return changing_run(c, &a->keyopt);
    say_error("'%s' has no generations, so it cannot be rotated", path);
    return EXIT_ERROR;
}

/* Are the key files filters? */
static bool refuse_key_filters(const struct add *a, const char *path)
{
    char merge[2048];
    snprintf(merge, sizeof merge, "--force -o %s %s", path, path);
    return keyopt_refuse_filters(&a->keyopt, path, merge);
}

static int run_add(struct add *a, int argc, char **argv)
{
    struct opt_parser p;
    struct err err;
    if (!opt_parse(&p, &cmd_add, argc, argv, a))
        return p.status;
    if (!keyopt_files(&a->keyopt, &p, 1))
        return EXIT_ERROR;
    int status = adding_check_design(&a->adding);
    if (status != 0)
        return status;
    const char *path = argv[p.first];
    bool ok = adding_open(&a->adding, path, STORE_WRITE, &err);
    bool is_counted = !ok && is_counted_set(path, &err);
    if ((ok || is_counted) && store_is_file(path) && !refuse_key_filters(a, path))
        return EXIT_ERROR;
    if (is_counted)
        return change_set(a, path);
    if (!ok)
        keyopt_advise_order(&a->keyopt, path, &err);
    if (!ok || !check_counting_options(a, path, &err) || !adding_make(&a->adding, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    return run_adding(a);
}

static int run(int argc, char **argv)
{
    struct add a = {
        .keyopt = KEYOPT_DEFAULT,
        .adding = {.sources = SOURCES_DEFAULT, .feed = {.title = "adding", .prompt = true}},
        .changing = CHANGING_DEFAULT};
    a.adding.feed.keyopt = a.adding.sources.keyopt = &a.keyopt;
    int status = run_add(&a, argc, argv);
    adding_close(&a.adding);
    keyopt_free(&a.keyopt);
    return status;
}

const struct command cmd_add = {
    .name = "add",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "add keys to a filter",
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
