/* seen compare: how many keys two filters share. */
#include <math.h>

#include "base/num.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/warn.h"
#include "cmd/report.h"
#include "kind/overlap.h"
#include "store/combine.h"

struct compare {
    bool json;
    unsigned threads;
    const struct filter *a, *b;
    struct overlap overlap;
    enum source source;
    /* For counted sets only. */
    bool counts;
    unsigned bits;
    struct counts_seen seen;
};

static const struct opt compare_opts[] = {
    {0, "json", NULL, "print one JSON object", FLAG(struct compare, json)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct compare, threads)},
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

static bool too_full(const struct compare *c, struct err *err)
{
    return fail(err, "'%s' and '%s' are too full to be compared", c->a->path, c->b->path);
}

static bool compare_counted(struct compare *c, struct err *err)
{
    const struct layer *layer[2] = {&c->a->header.layers[0], &c->b->header.layers[0]};
    const uint8_t *data[2] = {c->a->data[0], c->b->data[0]};
    struct counts_seen *seen = &c->seen;
    c->counts = true;
    c->bits = combine_bits(layer, 2);
    if (!layer[0]->kind->counts->combine(COUNTS_INTERSECT, layer, data, 2, NULL, c->threads, seen,
                                         err))
        return false;
    if (c->bits < 64)
        return overlap_fingerprints(seen->a, seen->b, seen->both, c->bits, &c->overlap) ||
               too_full(c, err);
    c->source = EXACT;
    overlap_exact(seen->a, seen->b, seen->both, &c->overlap);
    return true;
}

static bool compare_layers(struct compare *c, struct err *err)
{
    const struct layer *layer[2] = {&c->a->header.layers[0], &c->b->header.layers[0]};
    const uint8_t *data[2] = {c->a->data[0], c->b->data[0]};
    struct pair_census pair;
    if (!layer[0]->kind->pair(layer, data, c->threads, &pair))
        return too_full(c, err);
    overlap_estimate(&pair, &c->overlap);
    return true;
}

/* Can this filter be compared with any other filter? */
static bool check_filter(const struct filter *f, struct err *err)
{
    const struct header *h = &f->header;
    if (h->n_layers != 1)
        return fail(err, "'%s' has %u layers; only filters of one layer can be compared", f->path,
                    h->n_layers);
    if ((h->compat & COMPAT_INTERSECTED) != 0)
        return fail(err,
                    "'%s' is an intersection, whose bits do not tell how many keys two filters "
                    "share; compare the filters that it was made of",
                    f->path);
    return h->layers[0].kind->counts != NULL || h->layers[0].kind->pair != NULL ||
           fail(err,
                "'%s' is of kind %s, whose bits do not tell how many keys two filters share; "
                "counted sets do: 'seen create --counted'",
                f->path, format_kind_name(h));
}

static bool check_both(const struct compare *c, struct err *err)
{
    const struct layer *a = &c->a->header.layers[0], *b = &c->b->header.layers[0];
    if (!check_filter(c->a, err) || !check_filter(c->b, err))
        return false;
    if (a->kind != b->kind)
        return fail(err,
                    "'%s' is of kind %s and '%s' of kind %s; filters of two kinds cannot be "
                    "compared",
                    c->a->path, a->kind->name, c->b->path, b->kind->name);
    return a->kind->counts != NULL || a->kind->alike(a, b) ||
           fail(err,
                "'%s' and '%s' differ in size or number of probes, so they cannot be "
                "compared; make them with --like one of them",
                c->a->path, c->b->path);
}

static void put_figure(struct report *r, const struct compare *c, const struct field *field,
                       const struct figure *f)
{
    report_range(r, field, c->source, f->value, f->low, f->high);
}

static void print(const struct compare *c)
{
    struct report r;
    const struct overlap *o = &c->overlap;
    report_begin(&r, c->json, stdout);
    report_string(&r, &field_file_a, EXACT, c->a->path);
    report_string(&r, &field_file_b, EXACT, c->b->path);
    report_string(&r, &field_kind, EXACT, format_kind_name(&c->a->header));
    if (c->counts)
        report_uint(&r, &field_bits, EXACT, c->bits);
    put_figure(&r, c, &field_a, &o->a);
    put_figure(&r, c, &field_b, &o->b);
    put_figure(&r, c, &field_any, &o->any);
    put_figure(&r, c, &field_both, &o->both);
    put_figure(&r, c, &field_jaccard, &o->jaccard);
    put_figure(&r, c, &field_a_in_b, &o->a_in_b);
    put_figure(&r, c, &field_b_in_a, &o->b_in_a);
    if (c->counts) {
        report_uint(&r, &field_total_a, EXACT, c->seen.total_a);
        report_uint(&r, &field_total_b, EXACT, c->seen.total_b);
        report_uint(&r, &field_smaller, c->source, c->seen.total_smaller);
    }
    report_end(&r);
}

static bool compare(struct compare *c)
{
    struct err err;
    bool ok = check_both(c, &err) &&
              (c->a->header.layers[0].kind->counts != NULL ? compare_counted(c, &err)
                                                           : compare_layers(c, &err)) &&
              filter_check_intact(c->a, &err) && filter_check_intact(c->b, &err);
    if (!ok)
        return say_failure(&err);
    print(c);
    return true;
}

static int run(int argc, char **argv)
{
    struct compare c = {.threads = parallel_cpus(), .source = ESTIMATED};
    struct make m = {0};
    struct err err;
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_compare, argc, argv, &c))
        return p.status;
    m.threads = c.threads;
    bool ok = warn_inputs(&m, make_open(&m, argv + p.first, 2, "compared", &err)) &&
              make_check_sound(&m, &err);
    if (ok) {
        c.a = &m.in[0];
        c.b = &m.in[1];
        ok = compare(&c);
    } else {
        say_failure(&err);
    }
    make_close(&m);
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
