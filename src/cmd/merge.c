/* SPDX-License-Identifier: MIT */
/* seen merge: the union, intersection or difference of filters. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/say.h"
#include "base/visible.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/opt.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "kind/foreign.h"
#include "kind/overlap.h"
#include "write/combine.h"
#include "file/layers.h"
#include "write/unite.h"

struct merge {
    enum counts_op op; /* of other filters, COUNTS_ADD or COUNTS_INTERSECT */
    bool verbose;
    double max_fpr; /* of the result; 0: the sum of the inputs' design rates; with --force, any */
    struct borrow borrow;
    struct assembly assembly;
};

static const struct opt merge_opts[] = {
    {0, "intersect", NULL, "keep only keys that are in every FILTER",
     CHOICE(struct merge, op, COUNTS_INTERSECT), .not_with = " max distinct subtract except"},
    {0, "max", NULL, "counted sets: give each key its largest count (default: the sum)",
     CHOICE(struct merge, op, COUNTS_MAX), .not_with = " distinct subtract except"},
    {0, "distinct", NULL, "counted sets: give each key the count 1",
     CHOICE(struct merge, op, COUNTS_DISTINCT), .not_with = " subtract except"},
    {0, "subtract", NULL,
     "counted sets: keep what the first holds more often than all others together",
     CHOICE(struct merge, op, COUNTS_SUBTRACT), .not_with = " except"},
    {0, "except", NULL, "counted sets: keep the keys of the first that no other has",
     CHOICE(struct merge, op, COUNTS_EXCEPT)},
    BORROW(struct merge, borrow),
    {0},
};

static const struct opt result_opts[] = {
    {'o', "output", "OUT", "the file to make", TEXT(struct merge, assembly.out)},
    {0, "max-fpr", "P",
     "accept a current false-positive rate of up to P (default: the sum of the inputs' design "
     "rates)",
     FPR(struct merge, max_fpr)},
    {0, "force", NULL, "replace an existing OUT, and accept any false-positive rate",
     FLAG(struct merge, assembly.replace)},
    {0, "reproducible", NULL, "leave out times and the random file id",
     FLAG(struct merge, assembly.reproducible), .env = "SOURCE_DATE_EPOCH"},
    {0, "verbose", NULL, "report on stderr what was made, and its false-positive rate",
     FLAG(struct merge, verbose)},
    {0, "json", NULL, "print a summary as JSON", FLAG(struct merge, assembly.prints)},
    THREADS(struct merge, assembly.threads),
    {0},
};

static const struct opt_group groups[] = {{"Filters and their keys", merge_opts, 0, NULL},
                                          {"The file that is made", result_opts, 0, NULL},
                                          {0}};

#define DIFFERENCE                                                                                 \
    "--except keeps the keys of the first that no other has, for sets made with 'seen create "     \
    "--counted'"

static const struct opt_hint hints[] = {
    {"--diff", DIFFERENCE},
    {"--difference", DIFFERENCE},
    {"--intersection", "--intersect keeps the keys that every FILTER has"},
    {"--union", "it is what merge makes without an option"},
    {0},
};

/* As stats shows it. The bounds of a `rough` estimate are worth nothing. */
static const char *show_made_keys(char text[REPORT_TEXT], const struct census *c, bool rough)
{
    struct report_row row;
    struct report r = {.row = &row, .room = 1};
    report_range(&r, NULL, NULL, NULL, FORM_KEYS, ESTIMATED, c->n, rough ? NAN : c->n_low,
                 rough ? NAN : c->n_high);
    return report_shown(&r, text);
}

static void add_bounds(struct report *r, const struct census *c, enum report_source source)
{
    if (isnan(c->n) || c->n_at_least) {
        report_number(r, NULL, "n_low", FORM_KEYS, source, c->n_low);
        report_number(r, NULL, "n_high", FORM_KEYS, source, c->n_high);
    }
}

/* ---- Counted sets: they are combined to one (write/combine.h). */

static unsigned input_bits(const struct assembly *made, unsigned i)
{
    return layer_fingerprint(&made->in[i].header.layers[0]);
}

static unsigned result_bits(const struct assembly *made)
{
    return layer_fingerprint(&made->header.layers[0]);
}

/* The highest rate that the result may have, unless --force is given. */
static double highest_fpr(const struct merge *m)
{
    double sum = 0;
    for (unsigned i = 0; i < m->assembly.n_in; i++)
        sum += m->assembly.in[i].header.fpr_design;
    return m->max_fpr > 0 ? m->max_fpr : UNITE_FPR_SLACK * sum;
}

/* May the result be made, with its current rate `fpr`? Reports if not, and how to get a lower one.
 * "": none is possible. */
static bool accept_fpr(const struct merge *m, double fpr, const char *lower)
{
    char now[NUM_TEXT], text[NUM_TEXT];
    double limit = highest_fpr(m);
    if (fpr <= limit || (m->max_fpr == 0 && (m->assembly.replace || lower[0] == '\0')))
        return true;
    return say_error("the result would have a current false-positive rate of %s, above %s%s%s",
                     num_show_fpr(now, fpr), num_show_fpr(text, limit), lower,
                     m->max_fpr > 0 ? "" : "; --max-fpr or --force accept it");
}

static void note_bits(const struct assembly *made)
{
    unsigned widest = 0;
    for (unsigned i = 1; i < made->n_in; i++)
        if (input_bits(made, i) > input_bits(made, widest))
            widest = i;
    unsigned most = input_bits(made, widest);
    if (most > result_bits(made))
        say_note("'%s' has fingerprints of %u bits, but others have fewer, so '%s' has %u",
                 made->in[widest].path, most, made->out, result_bits(made));
}

static bool takes_away(const struct merge *m)
{
    return m->op == COUNTS_SUBTRACT || m->op == COUNTS_EXCEPT;
}

/* Estimates the keys of the first input that were removed only because another input has a key with
 * the same fingerprint. The others have a part q of all fingerprints. So of the first input's keys
 * that no other has, the part 1 - q is left by --except, and tells how many there were. It is an
 * upper bound where others share keys, and with --subtract: keys whose count is higher stay. */
static double lost(const struct merge *m)
{
    const struct assembly *made = &m->assembly;
    double q = combine_taken(made), cells = ldexp(1, (int)result_bits(made));
    if (!takes_away(m) || result_bits(made) == 64)
        return 0;
    return q < 1 ? overlap_keys(cells * (1 - q), 1, (double)made->seen.made) * q / (1 - q) : NAN;
}

static bool lost_at_most(const struct merge *m)
{
    return m->op == COUNTS_SUBTRACT || m->assembly.n_in > 2;
}

/* Fewer lost keys are not reported. */
static const double FEWEST_LOST = 0.01;

static void report_counted(const struct merge *m)
{
    char n[REPORT_TEXT], fpr[NUM_TEXT];
    struct census census, layer;
    const struct assembly *made = &m->assembly;
    double gone = lost(m);
    made->header.layers[0].kind->census(&made->header.layers[0], NULL, 1, &layer);
    layers_census_whole(&made->header, &layer, &census);
    note_bits(made);
    if (gone >= FEWEST_LOST)
        say_warning("%s %s keys were taken from '%s' although no other filter has them, because "
                    "of equal fingerprints",
                    lost_at_most(m) ? "up to" : "about", num_show_count(n, gone),
                    m->assembly.in[0].path);
    if (m->verbose)
        say_note("'%s': current false-positive rate %s, keys: %s, sum of counts: %s%llu", made->out,
                 num_show_fpr(fpr, census.fpr), show_made_keys(n, &census, false),
                 isnan(census.n) ? "at most " : "", (unsigned long long)made->seen.total_made);
    if (!m->assembly.prints)
        return;
    struct report r = REPORT_DEFAULT;
    report_made(&r, m->assembly.out, &made->header, census.fpr, census.n);
    add_bounds(&r, &census, ESTIMATED);
    report_uint(&r, NULL, "counts_total", FORM_COUNT, EXACT, made->seen.total_made);
    report_uint(&r, NULL, "fingerprint_bits", FORM_COUNT, EXACT, result_bits(made));
    if (takes_away(m)) {
        report_number(&r, NULL, "lost_estimate", FORM_KEYS, ESTIMATED, gone);
        report_flag(&r, NULL, "lost_at_most", EXACT, lost_at_most(m));
    }
    report_json(&r, stdout);
}

static bool make_counted(struct merge *m, const struct layer **layer, const uint8_t **data)
{
    struct err err;
    struct assembly *a = &m->assembly;
    for (unsigned i = 0; i < a->n_in; i++) {
        layer[i] = &a->in[i].header.layers[0];
        data[i] = a->in[i].data[0];
    }
    const struct union_of parts = {.n = a->n_in, .layer = layer, .data = data};
    combine_plan(a, m->op, &parts, 0);
    if (!combine_write(a, &err))
        return say_failure(&err);
    if (!accept_fpr(m, combine_fpr(a),
                    result_bits(a) == 64 ? ""
                                         : "; make the sets with a --capacity for the keys of all"))
        return false;
    if (!assembly_commit(a, &err))
        return say_failure(&err);
    report_counted(m);
    return true;
}

static bool merge_counted(struct merge *m)
{
    const struct layer **layer = calloc(m->assembly.n_in, sizeof *layer);
    const uint8_t **data = calloc(m->assembly.n_in, sizeof *data);
    bool ok =
        layer != NULL && data != NULL ? make_counted(m, layer, data) : say_error("out of memory");
    free(layer);
    free(data);
    return ok;
}

/* ---- Other filters. */

static void report_merge(const struct merge *m)
{
    const struct assembly *made = &m->assembly;
    const struct kind *kind = made->header.layers[0].kind;
    char text[NUM_TEXT], n[REPORT_TEXT];
    unsigned layers = made->header.n_layers;
    bool fits = layers == 1 || !kind_unites(kind), rough = layout_caveat(kind) != NULL;
    if (m->verbose)
        say_note("'%s': current false-positive rate %s, keys: %s, %u layer%s%s", made->out,
                 num_show_fpr(text, made->census.fpr), show_made_keys(n, &made->census, rough),
                 layers, layers == 1 ? "" : "s",
                 fits ? "" : " (filters made with --like one for all keys become one)");
    if (!made->prints)
        return;
    struct report r = REPORT_DEFAULT;
    report_made(&r, made->out, &made->header, made->census.fpr, made->census.n);
    add_bounds(&r, &made->census, rough ? UNKNOWN : ESTIMATED);
    report_json(&r, stdout);
}

static bool merge_layers(struct merge *m)
{
    struct err err;
    if (!unite_inputs(&m->assembly, m->op == COUNTS_INTERSECT, highest_fpr(m), &err))
        return say_failure(&err);
    if (!accept_fpr(m, m->assembly.census.fpr,
                    "; make the filters with --like one whose --capacity is for the keys of all, "
                    "or one filter with --generations"))
        return false;
    bool sampled = !(m->assembly.prints || m->verbose) || assembly_sample(&m->assembly, &err);
    if (!sampled || !assembly_commit(&m->assembly, &err))
        return say_failure(&err);
    report_merge(m);
    return true;
}

/* Keys are taken only from counted sets, and only by counted sets. */
static bool refuse_taking(const struct merge *m)
{
    unsigned i = 0;
    while (combine_counts(&m->assembly.in[i].header))
        i++;
    return say_error(
        "'%s' is of kind %s, from which keys cannot be removed; 'seen create --counted' "
        "makes a set from which they can",
        m->assembly.in[i].path, format_kind_name(&m->assembly.in[i].header));
}

static bool merge_inputs(struct merge *m)
{
    unsigned counted = 0;
    for (unsigned i = 0; i < m->assembly.n_in; i++)
        counted += combine_counts(&m->assembly.in[i].header);
    if (counted > 0 && counted == m->assembly.n_in)
        return merge_counted(m);
    if (takes_away(m))
        return refuse_taking(m);
    if (counted > 0)
        return say_error("counted sets cannot be merged with filters of other kinds, which have no "
                         "counts; 'seen create --from' makes such a filter from a counted set");
    if (m->op == COUNTS_MAX || m->op == COUNTS_DISTINCT)
        return say_error("%s is for counted sets; '%s' is of kind %s, which has no counts",
                         m->op == COUNTS_MAX ? "--max" : "--distinct", m->assembly.in[0].path,
                         format_kind_name(&m->assembly.in[0].header));
    return merge_layers(m);
}

static bool merge(struct merge *m, char **paths, unsigned n)
{
    struct err err;
    struct assembly *made = &m->assembly;
    const char *out = made->out, *done = takes_away(m) ? "subtracted" : "merged";
    bool opened = assembly_begin(made, &err) &&
                  assembly_inputs(made, (const char *const *)paths, n, done, &err);
    bool ok = warn_inputs(made, opened) && assembly_check_sound(made, &err);
    if (!ok && n == 1 && !made->replace && keyopt_is_filter(out) && keyopt_is_filter(paths[0]))
        fail_more(&err, "; to keep its keys: seen merge --force -o %s %s %s", SHELL_FILE(out),
                  SHELL_FILE(out), SHELL_FILE(paths[0]));
    if (!ok && made->in != NULL && made->n_in < n)
        keyopt_advise_list(paths[made->n_in], &err); /* the one that could not be opened */
    ok = ok ? merge_inputs(m) : say_failure(&err);
    warn_attached(&made->file, out);
    return ok;
}

static int run(struct opt_parser *p)
{
    struct merge m = {0};
    if (!opt_parse(p, &m))
        return p->status;
    if (takes_away(&m) && p->n_operands < 2)
        return opt_misuse(&cmd_merge, "nothing to take away: two filters are needed");
    m.assembly.borrow = &m.borrow;
    m.borrow.told = m.verbose ? warn_taken : NULL;
    bool ok = merge(&m, p->operand, (unsigned)p->n_operands);
    assembly_close(&m.assembly);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_merge = {
    .name = "merge",
    .synopsis = "[OPTION]... -o OUT FILTER...",
    .summary = "make the union, intersection or difference of filters",
    .examples = "  seen merge -o all.seen mon.seen tue.seen               the keys of both\n"
                "  seen merge --intersect -o both.seen mon.seen tue.seen  the keys in each\n"
                "  seen merge --force -o week.seen week.seen mon.seen     one more day\n",
    .details = "Makes OUT with every key of every FILTER. Filters of matching sizes (the same "
               "number of probes, and one size a multiple of the other) are combined exactly; "
               "others, and those that would make it too full, become layers of one file. The "
               "counts of counted sets are added. The FILTERs are only read.",
    .groups = groups,
    .everyday = " intersect max distinct subtract except layout output max-fpr force verbose json ",
    .hints = hints,
    .operand = "FILTER",
    .least = 1,
    .output = "OUT",
    .run = run,
};
