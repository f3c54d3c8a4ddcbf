/* seen subtract: what one counted set has more of than others. */
#include "base/output.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/combining.h"
#include "cmd/inputs.h"
#include "store/newfile.h"

enum { OPT_EXCEPT = 400, OPT_FORCE, OPT_MAX_FPR, OPT_JSON, OPT_REPRODUCIBLE, OPT_VERBOSE };

static const struct opt subtract_opts[] = {
    {'o', "output", "OUT", "the file to make", false, 0},
    {OPT_EXCEPT, "except", NULL,
     "drop every key of A that a B has, whatever its counts (default: subtract the counts)", false,
     0},
    {OPT_MAX_FPR, "max-fpr", "P",
     "accept a current false-positive rate of up to P (default: the sum "
     "of the inputs' design rates)",
     false, 0},
    {OPT_FORCE, "force", NULL, "replace an existing OUT, and accept any false-positive rate", false,
     0},
    {OPT_REPRODUCIBLE, "reproducible", NULL, "omit the times and the random file id", false, 0},
    {OPT_VERBOSE, "verbose", NULL,
     "say on stderr what was made, and its false-positive rate", false, 0},
    {OPT_JSON, "json", NULL, "print a summary of what was made as JSON", false, 0},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)", false, 0},
    {0},
};

static const struct opt_group groups[] = {{"Options", subtract_opts}, {0}};

static bool parse_option(struct combining *c, struct opt_parser *p, int id)
{
    switch (id) {
    case 'o':
        c->out = p->value;
        return true;
    case OPT_EXCEPT:
        c->op = COUNTS_EXCEPT;
        return true;
    case OPT_MAX_FPR:
        return opt_fpr(p, &c->max_fpr);
    case OPT_FORCE:
        return c->force = true;
    case OPT_JSON:
        return c->json = true;
    case OPT_REPRODUCIBLE:
        return c->reproducible = true;
    case OPT_VERBOSE:
        return c->verbose = true;
    case 'j':
        return opt_threads(p, &c->threads);
    }
    return false;
}

static bool all_count(const struct inputs *in)
{
    for (unsigned i = 0; i < in->n; i++)
        if (!combine_counts(&in->filter[i].header)) {
            say_error("'%s' is of kind %s, from which no keys can be taken; make it anew from its "
                      "keys, or keep them in a counted set: 'seen create --counted'",
                      in->filter[i].path, format_kind_name(&in->filter[i].header));
            return false;
        }
    return true;
}

static bool subtract(struct combining c, char **paths, unsigned n)
{
    struct err err;
    struct inputs in = {0};
    struct newfile file;
    if (!newfile_open(&file, c.out, c.force, &err))
        return say_failure(&err);
    c.in = &in;
    c.file = &file;
    bool ok = (!c.json || output_is_apart(file.old_fd, c.out, &err) || say_failure(&err)) &&
              inputs_open(&in, paths, n, &file, c.threads, "subtracted") && all_count(&in) &&
              combining_run(&c);
    newfile_close(&file);
    inputs_close(&in);
    return ok;
}

static int run(int argc, char **argv)
{
    struct combining c = {.op = COUNTS_SUBTRACT, .threads = parallel_cpus()};
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_subtract, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(&c, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (c.out == NULL)
        return opt_misuse(&cmd_subtract, "no output file given (-o OUT)");
    if (argc - p.first < 2)
        return opt_misuse(&cmd_subtract, "two filters are needed: A and B");
    return subtract(c, argv + p.first, (unsigned)(argc - p.first)) ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_subtract = {
    .name = "subtract",
    .synopsis = "[OPTION]... -o OUT A B...",
    .summary = "make the difference of counted sets",
    .details =
        "Makes OUT, which has the keys that the counted set A holds more often than all B "
        "together, each with the difference of its counts. The filters are only read.",
    .groups = groups,
    .run = run,
};
