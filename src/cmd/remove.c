/* seen remove: takes keys out of a filter that counts them. */
#include "base/say.h"
#include "cmd/changing.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "store/store.h"

enum { OPT_SKIP_ABSENT = 400, OPT_NO_SYNC, OPT_VERBOSE };

static const struct opt remove_opts[] = {
    {OPT_SKIP_ABSENT, "skip-absent", NULL,
     "skip keys that are not in FILTER, and say on stderr how many; by default the first of them "
     "is an error, and nothing is removed", false, 0},
    {OPT_NO_SYNC, "no-sync", NULL,
     "do not wait for the disk at the end: if the machine crashes, FILTER may be as before", false,
     0},
    {OPT_VERBOSE, "verbose", NULL, "say on stderr how many keys are gone", false, 0},
    {0},
};

static const struct opt_group groups[] = {
    {"Removing", remove_opts},
    {"Batches", changing_opts},
    {"Keys", keyopt_opts},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts},
    {0},
};

struct remove {
    struct keyopt keyopt;
    struct changing changing;
};

static bool parse_option(struct remove *r, struct opt_parser *p, int id)
{
    switch (id) {
    case OPT_SKIP_ABSENT:
        return r->changing.change.skip_absent = true;
    case OPT_NO_SYNC:
        return r->changing.change.no_sync = true;
    case OPT_VERBOSE:
        return r->changing.verbose = true;
    default:
        return changing_is(id) ? changing_take(&r->changing, p, id)
                               : keyopt_take(&r->keyopt, p, id);
    }
}

/* Says why nothing can be removed from a filter that does not count. */
static bool check_filter(const char *path)
{
    struct filter f;
    struct err err;
    if (!store_is_file(path)) {
        say_error("'%s' is in Redis: keys can be removed only from files that 'seen create "
                  "--counted' makes", path);
        return false;
    }
    if (!filter_open(&f, path, FILTER_READ, &err))
        return say_failure(&err);
    bool suits = change_suits(&f.header);
    filter_close(&f);
    if (!suits)
        say_error("'%s' does not keep its keys apart, so none can be removed without others; "
                  "'seen create --counted' makes filters from which keys can be removed",
                  path);
    return suits;
}

static int run_remove(struct remove *r, int argc, char **argv)
{
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_remove, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(r, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (p.first == argc)
        return opt_misuse(&cmd_remove, "no FILTER given");
    if (!keyopt_files(&r->keyopt, &cmd_remove, argv + p.first + 1, argc - p.first - 1) ||
        !check_filter(argv[p.first]))
        return EXIT_ERROR;
    r->changing.change.path = argv[p.first];
    r->changing.change.op = COUNTS_SUBTRACT;
    return changing_run(&r->changing, &r->keyopt, &cmd_remove);
}

static int run(int argc, char **argv)
{
    struct remove r = {.keyopt = KEYOPT_DEFAULT, .changing = CHANGING_DEFAULT};
    int status = run_remove(&r, argc, argv);
    keyopt_free(&r.keyopt);
    return status;
}

const struct command cmd_remove = {
    .name = "remove",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "take keys out of a counted set",
    .details =
        "Reads keys, one a line, from the KEYFILEs or standard input, and removes each of them "
        "once from FILTER, which 'seen create --counted' made. If one of them is not there, none "
        "is removed. A new file takes the place of FILTER.",
    .groups = groups,
    .run = run,
};
