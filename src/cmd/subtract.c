/* seen subtract: what one counted set has more of than others. */
#include "base/output.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/combining.h"
#include "cmd/inputs.h"
#include "store/newfile.h"

struct subtract {
    bool except;
    struct result_options result;
};

static const struct opt subtract_opts[] = {
    {0, "except", NULL,
     "drop every key of A that a B has, whatever its counts (default: subtract the counts)",
     FLAG(struct subtract, except)},
    {0},
};

static const struct opt_group groups[] = {
    {"Keys", subtract_opts, 0, NULL},
    {"The file that is made", result_opts, offsetof(struct subtract, result), NULL},
    {0}};

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

static bool subtract(const struct subtract *s, char **paths, unsigned n)
{
    struct err err;
    struct inputs in = {0};
    struct newfile file;
    const struct result_options *o = &s->result;
    if (!newfile_open(&file, o->out, o->force, &err))
        return say_failure(&err);
    struct combining c = {
        .op = s->except ? COUNTS_EXCEPT : COUNTS_SUBTRACT, .in = &in, .file = &file, .result = o};
    bool ok = (!o->json || output_is_apart(file.old_fd, o->out, &err) || say_failure(&err)) &&
              inputs_open(&in, paths, n, &file, o->threads, "subtracted") && all_count(&in) &&
              combining_run(&c);
    newfile_close(&file);
    inputs_close(&in);
    return ok;
}

static int run(int argc, char **argv)
{
    struct subtract s = {.result = RESULT_DEFAULT};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_subtract, argc, argv, &s))
        return p.status;
    return subtract(&s, argv + p.first, (unsigned)(argc - p.first)) ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_subtract = {
    .name = "subtract",
    .synopsis = "[OPTION]... -o OUT A B...",
    .summary = "make the difference of counted sets",
    .details = "Makes OUT, which has the keys that the counted set A holds more often than all B "
               "together, each with the difference of its counts. The filters are only read.",
    .groups = groups,
    .operand = "FILTER",
    .least = 2,
    .output = "OUT",
    .run = run,
};
