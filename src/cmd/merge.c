/* seen merge: the union, intersection or difference of filters. */
#include <math.h>

#include "base/num.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/combining.h"
#include "cmd/summary.h"
#include "cmd/warn.h"
#include "store/make.h"

struct merge {
    bool intersect, max, distinct, subtract, except;
    struct result_options result;
    struct make make;
};

static const struct opt merge_opts[] = {
    {0, "intersect", NULL, "keep only keys that are in every FILTER", FLAG(struct merge, intersect),
     .not_with = " max distinct subtract except"},
    {0, "max", NULL, "of counted sets, give a key its largest count (default: the sum)",
     FLAG(struct merge, max), .not_with = " distinct subtract except"},
    {0, "distinct", NULL, "of counted sets, give every key the count 1",
     FLAG(struct merge, distinct), .not_with = " subtract except"},
    {0, "subtract", NULL,
     "of counted sets, keep what the first holds more often than all others together",
     FLAG(struct merge, subtract), .not_with = " except"},
    {0, "except", NULL, "of counted sets, keep the keys of the first that no other has",
     FLAG(struct merge, except)},
    {0},
};

static const struct opt_group groups[] = {
    {"Keys", merge_opts, 0, NULL},
    {"The file that is made", result_opts, offsetof(struct merge, result), NULL},
    {0}};

/* Why filters were joined as layers. */
enum joined { NOT_JOINED, JOINED_KIND, JOINED_SIZES, JOINED_FPR };

static enum joined why_joined(const struct make *made)
{
    if (made->header.n_layers == 1)
        return NOT_JOINED;
    if (made->fpr_united > 0)
        return JOINED_FPR;
    return made->header.layers[0].kind->unite == NULL ? JOINED_KIND : JOINED_SIZES;
}

enum { KEYS_TEXT = 2 * NUM_TEXT + 16 }; /* for "X to Y" */

static const char *show_keys(char text[KEYS_TEXT], const struct make *made)
{
    char low[NUM_TEXT], high[NUM_TEXT];
    num_show_count(high, make_estimates(made) ? made->n : made->n_high);
    if (make_estimates(made))
        snprintf(text, KEYS_TEXT, "about %s", high);
    else if (made->n_low > 0)
        snprintf(text, KEYS_TEXT, "%s to %s", num_show_count(low, made->n_low), high);
    else
        snprintf(text, KEYS_TEXT, "at most %s", high);
    return text;
}

static void note_made(const struct make *made)
{
    char text[NUM_TEXT], n[KEYS_TEXT], united[NUM_TEXT], why[128];
    enum joined joined = why_joined(made);
    const char *reason =
        joined == JOINED_KIND ? ", since layers of their kind are joined as they are"
        : joined == JOINED_SIZES
            ? ", since the filters' sizes do not fit each other (--like makes them fit)"
            : "";
    snprintf(why, sizeof why, "%s", reason);
    if (joined == JOINED_FPR)
        snprintf(why, sizeof why, ", since united they would have a rate of %s",
                 num_show_fpr(united, made->fpr_united));
    say_note("'%s': current false-positive rate %s, %s keys, %u layer%s%s", made->out,
             num_show_fpr(text, made->fpr), show_keys(n, made), made->header.n_layers,
             joined == NOT_JOINED ? "" : "s", why);
}

static void report(const struct merge *m)
{
    static const char *const names[] = {
        [JOINED_KIND] = "kind", [JOINED_SIZES] = "sizes", [JOINED_FPR] = "fpr"};
    const struct make *made = &m->make;
    const char *joined = names[why_joined(made)];
    if (m->result.verbose)
        note_made(made);
    if (!m->result.json)
        return;
    struct json j = {.out = stdout};
    summary_begin(&j, made->out, &made->header, made->fpr, make_estimates(made) ? made->n : NAN);
    if (!make_estimates(made)) {
        json_key(&j, "n_low");
        json_double(&j, made->n_low);
        json_key(&j, "n_high");
        json_double(&j, made->n_high);
    }
    json_key(&j, "joined_for");
    if (joined != NULL)
        json_string(&j, joined);
    else
        json_null(&j);
    json_key(&j, "fpr_united");
    json_double(&j, made->fpr_united > 0 ? made->fpr_united : NAN);
    summary_end(&j);
}

static bool merge_layers(struct merge *m)
{
    struct err err;
    if (!make_union(&m->make, m->intersect, combining_limit(&m->make, &m->result), &err))
        return say_failure(&err);
    if (!combining_accepts(&m->make, &m->result, m->make.fpr, false))
        return false;
    if (!make_commit(&m->make, &err))
        return say_failure(&err);
    report(m);
    return true;
}

static bool merge_counted(struct merge *m)
{
    struct combining c = {.op = m->intersect  ? COUNTS_INTERSECT
                                : m->max      ? COUNTS_MAX
                                : m->distinct ? COUNTS_DISTINCT
                                : m->subtract ? COUNTS_SUBTRACT
                                : m->except   ? COUNTS_EXCEPT
                                              : COUNTS_ADD,
                          .make = &m->make,
                          .result = &m->result};
    return combining_run(&c);
}

static bool takes_away(const struct merge *m)
{
    return m->subtract || m->except;
}

/* Keys are taken only from counted sets, and only by counted sets. */
static bool refuse_taking(const struct merge *m)
{
    unsigned i = 0;
    while (combine_counts(&m->make.in[i].header))
        i++;
    say_error("'%s' is of kind %s, from which no keys can be taken; make it anew from its keys, or "
              "keep them in a counted set: 'seen create --counted'",
              m->make.in[i].path, format_kind_name(&m->make.in[i].header));
    return false;
}

static bool merge_inputs(struct merge *m)
{
    if (combining_all(&m->make))
        return merge_counted(m);
    if (takes_away(m))
        return refuse_taking(m);
    if (combining_any(&m->make)) {
        say_error("counted sets cannot be merged with filters of other kinds, which have no "
                  "counts; 'seen create --from' makes such a filter from a counted set");
        return false;
    }
    if (m->max || m->distinct) {
        say_error("%s is for counted sets; '%s' is of kind %s, which has no counts",
                  m->max ? "--max" : "--distinct", m->make.in[0].path,
                  format_kind_name(&m->make.in[0].header));
        return false;
    }
    return merge_layers(m);
}

static bool merge(struct merge *m, char **paths, unsigned n)
{
    struct err err;
    const struct result_options *o = &m->result;
    struct make *made = &m->make;
    made->out = o->out;
    made->replace = o->force;
    made->prints = o->json;
    made->reproducible = o->reproducible;
    made->threads = o->threads;
    const char *done = takes_away(m) ? "subtracted" : "merged";
    bool ok =
        warn_inputs(made, make_open(made, paths, n, done, &err)) && make_check_sound(made, &err);
    ok = ok ? merge_inputs(m) : say_failure(&err);
    warn_attached(&made->file, made->out);
    return ok;
}

static int run(int argc, char **argv)
{
    struct merge m = {.result = RESULT_DEFAULT};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_merge, argc, argv, &m))
        return p.status;
    if (takes_away(&m) && argc - p.first < 2)
        return opt_misuse(&cmd_merge, "nothing to take away: two filters are needed");
    bool ok = merge(&m, argv + p.first, (unsigned)(argc - p.first));
    make_close(&m.make);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_merge = {
    .name = "merge",
    .synopsis = "[OPTION]... -o OUT FILTER...",
    .summary = "make the union, intersection or difference of filters",
    .details =
        "Makes OUT, which has every key of every FILTER. Filters whose sizes fit each other (the "
        "same number of probes, and one a multiple of the other) become one, exactly; others, and "
        "those that would make it too full, become layers of one file. Of counted sets, the counts "
        "are added. The filters are only "
        "read.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .output = "OUT",
    .run = run,
};
