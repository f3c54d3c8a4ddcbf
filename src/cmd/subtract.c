/* seen subtract: what one counted set has more of than others. */
#include "base/output.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/combining.h"
#include "cmd/inputs.h"
#include "store/newfile.h"

enum { OPT_EXCEPT = 400 };

static const struct opt subtract_opts[] = {
    {OPT_EXCEPT, "except", NULL,
     "drop every key of A that a B has, whatever its counts (default: subtract the counts)", false,
     0},
    {0},
};

static const struct opt_group groups[] = {
    {"Keys", subtract_opts}, {"The file that is made", result_opts}, {0}};

struct subtract {
    enum counts_op op;
    struct result_options result;
};

static bool parse_option(struct subtract *s, struct opt_parser *p, int id)
{
    if (id != OPT_EXCEPT)
        return result_take(&s->result, p, id);
    s->op = COUNTS_EXCEPT;
    return true;
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

static bool subtract(const struct subtract *s, char **paths, unsigned n)
{
    struct err err;
    struct inputs in = {0};
    struct newfile file;
    const struct result_options *o = &s->result;
    if (!newfile_open(&file, o->out, o->force, &err))
        return say_failure(&err);
    struct combining c = {.op = s->op, .in = &in, .file = &file, .result = o};
    bool ok = (!o->json || output_is_apart(file.old_fd, o->out, &err) || say_failure(&err)) &&
              inputs_open(&in, paths, n, &file, o->threads, "subtracted") && all_count(&in) &&
              combining_run(&c);
    newfile_close(&file);
    inputs_close(&in);
    return ok;
}

static int run(int argc, char **argv)
{
    struct subtract s = {.op = COUNTS_SUBTRACT, .result = RESULT_DEFAULT};
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_subtract, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(&s, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (s.result.out == NULL)
        return opt_misuse(&cmd_subtract, "no output file given (-o OUT)");
    if (argc - p.first < 2)
        return opt_misuse(&cmd_subtract, "two filters are needed: A and B");
    return subtract(&s, argv + p.first, (unsigned)(argc - p.first)) ? EXIT_SELECTED : EXIT_ERROR;
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
