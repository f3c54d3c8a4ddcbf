/* SPDX-License-Identifier: MIT */
/* seen compare: how many keys two filters share. */
#include <math.h>

#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/warn.h"
#include "cmd/report.h"
#include "kind/foreign.h"
#include "write/compare.h"

struct compare {
    bool json;
    struct borrow borrow;
    struct assembly assembly;
    struct compared result;
};

static const struct opt compare_opts[] = {
    {0, "json", NULL, "print one JSON object", FLAG(struct compare, json)},
    BORROW(struct compare, borrow),
    THREADS(struct compare, assembly.threads),
    {0},
};

static const struct opt_group groups[] = {{"Options", compare_opts, 0, NULL}, {0}};

/* Without an interval for a layout whose numbers are rough. */
static void add_keys(struct report *r, const char *label, const char *key,
                     const struct compared *result, const struct figure *keys)
{
    bool rough = layout_caveat(result->kind) != NULL;
    report_range(r, label, key, key, FORM_KEYS, result->exact ? EXACT : ESTIMATED, keys->value,
                 rough ? NAN : keys->low, rough ? NAN : keys->high);
}

/* The part of these keys that is in both. */
static void add_share(struct report *r, const char *label, const char *key,
                      const struct compared *result, const struct figure *of)
{
    double share = of->value > 0 ? fmin(result->overlap.both.value / of->value, 1) : NAN;
    report_number(r, label, key, FORM_RATIO, result->exact ? EXACT : ESTIMATED, share);
}

static void print_comparison(const struct compare *c, const char *a, const char *b)
{
    struct report r = REPORT_DEFAULT;
    const struct compared *result = &c->result;
    const struct overlap *o = &result->overlap;
    const struct counts_seen *seen = &result->seen;
    const char *caveat = layout_caveat(result->kind);
    bool counted = result->bits != 0;
    r.sources = true;
    report_string(&r, "A", "file_a", EXACT, a);
    report_string(&r, "B", "file_b", EXACT, b);
    report_string(&r, "kind", "kind", EXACT, result->kind->name);
    if (counted)
        report_uint(&r, "fingerprint bits", "fingerprint_bits", FORM_COUNT, EXACT, result->bits);
    add_keys(&r, "keys in A", "a", result, &o->a);
    add_keys(&r, "keys in B", "b", result, &o->b);
    add_keys(&r, "keys in A or B", "union", result, &o->any);
    add_keys(&r, "keys in A and B", "intersection", result, &o->both);
    add_share(&r, "Jaccard index", "jaccard", result, &o->any);
    add_share(&r, "A's keys in B", "a_in_b", result, &o->a);
    add_share(&r, "B's keys in A", "b_in_a", result, &o->b);
    if (caveat != NULL)
        report_string(&r, "note", "caveat", EXACT, caveat);
    if (counted) {
        report_uint(&r, "sum of A's counts", "counts_a", FORM_COUNT, EXACT, seen->total_a);
        report_uint(&r, "sum of B's counts", "counts_b", FORM_COUNT, EXACT, seen->total_b);
        report_uint(&r, "sum of smaller counts", "counts_smaller", FORM_COUNT,
                    result->exact ? EXACT : ESTIMATED, seen->total_smaller);
    }
    (c->json ? report_json : report_text)(&r, stdout);
}

static int run(struct opt_parser *p)
{
    struct compare c = {0};
    struct assembly *m = &c.assembly;
    struct err err;
    if (!opt_parse(p, &c))
        return p->status;
    m->borrow = &c.borrow;
    bool ok =
        warn_inputs(m, assembly_inputs(m, (const char *const *)p->operand, 2, "compared", &err)) &&
        assembly_check_sound(m, &err) && compare_inputs(m, &c.result, &err);
    if (ok)
        print_comparison(&c, p->operand[0], p->operand[1]);
    else
        say_failure(&err);
    assembly_close(m);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_compare = {
    .name = "compare",
    .synopsis = "[OPTION]... A B",
    .summary = "count the keys that two filters share",
    .examples = "  seen compare mon.seen tue.seen         how many keys they share\n"
                "  seen compare --json mon.seen tue.seen  the same for programs\n"
                "  seen compare urls.seen mon.seen        of different sizes, too\n",
    .details = "Prints how many keys are in A, in B, in A or B and in both, with 95 % intervals, "
               "the Jaccard index (both / A or B), and which part of each is in the other. The "
               "numbers are exact for counted sets made with --fpr 0, and estimated for other "
               "counted sets and for Bloom filters of matching sizes. A and B are only read.",
    .groups = groups,
    .operand = "FILTER",
    .least = 2,
    .most = 2,
    .run = run,
};
