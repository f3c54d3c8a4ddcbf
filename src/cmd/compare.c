/* seen compare: how many keys two filters share. */
#include <math.h>

#include "base/num.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/warn.h"
#include "cmd/report.h"
#include "kind/layout.h"
#include "store/compare.h"

struct compare {
    bool json;
    struct make make;
    struct compared result;
};

static const struct opt compare_opts[] = {
    {0, "json", NULL, "print one JSON object", FLAG(struct compare, json)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct compare, make.threads)},
    {0},
};

static const struct opt_group groups[] = {{"Options", compare_opts, 0, NULL}, {0}};

static const struct field field_file_a = {"A", "file_a", FORM_TEXT, NULL, NULL};
static const struct field field_file_b = {"B", "file_b", FORM_TEXT, NULL, NULL};
static const struct field field_kind = {"kind", "kind", FORM_TEXT, NULL, NULL};
static const struct field field_bits = {"fingerprint bits", "fingerprint_bits", FORM_COUNT, NULL,
                                        NULL};
static const struct field field_a = {"keys in A", "a", FORM_COUNT, "a_low", "a_high"};
static const struct field field_b = {"keys in B", "b", FORM_COUNT, "b_low", "b_high"};
static const struct field field_any = {"keys in A or B", "union", FORM_COUNT, "union_low",
                                       "union_high"};
static const struct field field_both = {"keys in A and B", "intersection", FORM_COUNT,
                                        "intersection_low", "intersection_high"};
static const struct field field_jaccard = {"Jaccard index", "jaccard", FORM_RATIO, "jaccard_low",
                                           "jaccard_high"};
static const struct field field_a_in_b = {"A's keys in B", "a_in_b", FORM_RATIO, "a_in_b_low",
                                          "a_in_b_high"};
static const struct field field_b_in_a = {"B's keys in A", "b_in_a", FORM_RATIO, "b_in_a_low",
                                          "b_in_a_high"};
static const struct field field_total_a = {"sum of A's counts", "counts_a", FORM_COUNT, NULL, NULL};
static const struct field field_total_b = {"sum of B's counts", "counts_b", FORM_COUNT, NULL, NULL};
static const struct field field_smaller = {"sum of smaller counts", "counts_smaller", FORM_COUNT,
                                           NULL, NULL};
static const struct field field_caveat = {"note", "caveat", FORM_TEXT, NULL, NULL};

static void print(const struct compare *c, const char *a, const char *b)
{
    struct report r;
    const struct compared *result = &c->result;
    const struct overlap *o = &result->overlap;
    const struct {
        const struct field *field;
        const struct figure *figure;
    } figures[] = {
        {&field_a, &o->a},
        {&field_b, &o->b},
        {&field_any, &o->any},
        {&field_both, &o->both},
        {&field_jaccard, &o->jaccard},
        {&field_a_in_b, &o->a_in_b},
        {&field_b_in_a, &o->b_in_a},
    };
    enum source source = result->exact ? EXACT : ESTIMATED;
    const char *caveat = layout_caveat(result->kind);
    report_begin(&r, c->json, stdout);
    report_string(&r, &field_file_a, EXACT, a);
    report_string(&r, &field_file_b, EXACT, b);
    report_string(&r, &field_kind, EXACT, result->kind->name);
    if (result->bits != 0)
        report_uint(&r, &field_bits, EXACT, result->bits);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        report_range(&r, figures[i].field, source, figures[i].figure->value,
                     caveat != NULL ? NAN : figures[i].figure->low,
                     caveat != NULL ? NAN : figures[i].figure->high);
    if (caveat != NULL)
        report_string(&r, &field_caveat, EXACT, caveat);
    if (result->bits != 0) {
        report_uint(&r, &field_total_a, EXACT, result->seen.total_a);
        report_uint(&r, &field_total_b, EXACT, result->seen.total_b);
        report_uint(&r, &field_smaller, source, result->seen.total_smaller);
    }
    report_end(&r);
}

static int run(int argc, char **argv)
{
    struct compare c = {.make.threads = parallel_cpus()};
    struct make *m = &c.make;
    struct err err;
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_compare, argc, argv, &c))
        return p.status;
    bool ok = warn_inputs(m, make_open(m, argv + p.first, 2, "compared", &err)) &&
              make_check_sound(m, &err) && compare_inputs(m, &c.result, &err);
    if (ok)
        print(&c, argv[p.first], argv[p.first + 1]);
    else
        say_failure(&err);
    make_close(m);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_compare = {
    .name = "compare",
    .synopsis = "[OPTION]... A B",
    .summary = "count the keys that two filters share",
    .details =
        "Prints how many keys are in A, in B, in A or B and in both, the Jaccard index (both / "
        "A or B), and which part of each is in the other, with 95 % intervals. The numbers are "
        "exact for counted sets that were made with --fpr 0. For other counted sets, and for Bloom "
        "filters whose sizes fit, they are estimates. The filters are only read.",
    .groups = groups,
    .operand = "FILTER",
    .least = 2,
    .most = 2,
    .run = run,
};
