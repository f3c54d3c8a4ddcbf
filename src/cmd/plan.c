/* SPDX-License-Identifier: MIT */
/* seen plan: what a filter would cost. */
#include "cmd/plan.h"

#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "base/num.h"
#include "base/say.h"
#include "base/visible.h"
#include "keys/rule.h"
#include "cmd/cmd.h"
#include "cmd/report.h"
#include "foreign/layout.h"
#include "file/chain.h"
#include "file/design.h"

/* ---- Layouts. */

/* Layouts for n distinct keys (0: not given) at p (0: not given). */
struct plan_layouts {
    const struct layout_spec *spec; /* NULL: every layout, with default parameters */
    uint64_t n;
    double p;
};

static bool solve_layout(const struct plan_layouts *plan, const struct layout_spec *spec,
                         struct layout_filter *filter, struct err *err)
{
    struct layout_spec own = *spec;
    own.n = plan->n;
    own.p = plan->p;
    return spec->kind->layout->design(&own, plan->n, plan->p, filter, err);
}

/* Bytes of the reason why a layout cannot be made. */
enum { REASON = 256 };

/* If the layout cannot be made, `why` says why, until the report is printed. */
static void add_layout(struct report *r, const struct plan_layouts *plan,
                       const struct layout_spec *spec, char why[REASON])
{
    struct err err;
    struct layout_filter filter;
    struct header h = {0};
    report_item(r);
    report_string(r, "layout", "layout", EXACT, spec->kind->name);
    if (!solve_layout(plan, spec, &filter, &err)) {
        snprintf(why, REASON, "%.*s", REASON - 1, err.text);
        report_refusal(r, "refused", why);
        return;
    }
    header_take_layers(&h, &filter);
    const struct layer *layer = &filter.layer[0];
    const struct shape shape = layer->kind->shape(layer);
    const uint64_t n = plan->n != 0 ? plan->n : layer->n_design;
    const uint64_t len = spec->kind->layout->file_len(&filter);
    report_uint(r, NULL, "n_design", FORM_COUNT, EXACT, n);
    report_uint(r, "m", "m", FORM_COUNT, EXACT, shape.m);
    report_uint(r, "k", "k", FORM_COUNT, EXACT, shape.k);
    report_uint(r, "its file", "layout_bytes", FORM_BYTES, EXACT, len);
    report_uint(r, "seen file", "bytes", FORM_BYTES, EXACT, h.file_len);
    report_number(r, "bits/key", "bits_per_key", FORM_DECIMAL, EXACT, 8 * (double)len / (double)n);
    double fpr = layer->kind->fpr_at(layer, (double)n);
    report_number(r, "real FPR", "fpr", FORM_DIGITS, EXACT, fpr);
    /* If it is not that of independent positions, it contains an estimate. */
    double load = -expm1(shape.k * (double)n * log1p(-1 / (double)shape.m));
    bool is_formula = fabs(fpr / pow(load, shape.k) - 1) < 1e-3;
    report_number(r, NULL, "fpr_factor", FORM_DIGITS, ESTIMATED,
                  is_formula ? NAN : spec->kind->layout->factor);
}

static void add_layouts(struct report *r, const struct plan_layouts *plan,
                        char why[REPORT_ITEMS][REASON])
{
    struct layout_spec spec = {0};
    report_list(r, "layouts");
    if (plan->spec != NULL)
        add_layout(r, plan, plan->spec, why[0]);
    else
        for (unsigned i = 0; (spec.kind = layout_number_of(i)) != NULL; i++)
            add_layout(r, plan, &spec, why[i]);
}

/* ---- Kinds. */

/* Plans a filter of this kind for the keys and the rate of `plan`. False: there is none. */
static bool plan_kind(const struct plan *plan, const struct kind *kind, struct plan *own)
{
    struct err err;
    *own = *plan;
    if (kind == plan->kind)
        return true;
    *own = (struct plan){.kind = kind, .n = plan->n, .p = plan->p};
    return plan_solve(own, &err);
}

static void add_kind(struct report *r, const struct plan *plan, const struct kind *kind)
{
    struct plan own;
    struct cost cost;
    if (!plan_kind(plan, kind, &own))
        return;
    const double n = (double)plan->n;
    const uint64_t len = format_file_len(&own.layer);
    kind->sizing->cost(&own.layer, plan->n, len, &cost);
    report_item(r);
    report_string(r, "kind", "kind", EXACT, kind->name);
    report_uint(r, "file size", "bytes", FORM_BYTES, EXACT, len);
    report_number(r, "bits/key", "bits_per_key", FORM_DECIMAL, EXACT, 8 * (double)len / n);
    report_uint(r, NULL, "m", FORM_COUNT, EXACT, cost.bits);
    report_uint(r, "k", "k", FORM_COUNT, EXACT, cost.k);
    report_number(r, "cache lines", "lines_per_query", FORM_DIGITS, EXACT, cost.lines);
    report_uint(r, "build memory", "build_bytes", FORM_BYTES, EXACT, cost.build_memory);
    report_number(r, "CPU time", "build_seconds", FORM_SECONDS, ESTIMATED,
                  cost.build_time * 1e-9 * n);
    report_flag(r, "add", "mutable", EXACT, kind_takes_keys(kind) || kind_counts(kind));
}

static double bound(const struct plan *plan)
{
    return -exact_log(plan->p) / exact_log(2);
}

static void add_kinds(struct report *r, const struct plan *plan)
{
    const struct kind *kind;
    report_uint(r, NULL, "n_design", FORM_COUNT, EXACT, plan->n);
    report_number(r, NULL, "fpr_design", FORM_DIGITS, EXACT, plan->p);
    report_number(r, NULL, "bound_bits_per_key", FORM_DECIMAL, EXACT,
                  plan->kind != NULL ? bound(plan) : NAN);
    report_list(r, "kinds");
    for (unsigned i = 0; plan->kind != NULL && (kind = kind_number(i)) != NULL; i++)
        if (!kind_is_foreign(kind))
            add_kind(r, plan, kind);
}

/* How to make a filter of this kind, if there can be one. */
static void print_maker(const struct plan *plan, const struct kind *kind, const char *option,
                        const char *remark)
{
    struct plan own;
    if (plan_kind(plan, kind, &own))
        printf("\n'create%s' makes %s%s.", option, kind->name, remark);
}

static void print_kinds(const struct plan *plan, const struct report *r)
{
    char p[NUM_TEXT], n[NUM_TEXT];
    printf("%s keys at a design FPR of %s\n\n", num_show_count(n, (double)plan->n),
           num_show_fpr(p, plan->p));
    report_table(r, "kinds", stdout);
    printf("\nTheoretical minimum: %.2f bits/key. 'cache lines': the most that one query touches."
           "\n'k': the bits that it tests. 'CPU time': about what building took on one machine.",
           bound(plan));
    print_maker(plan, kind_usual(), "", plan->grows ? ", which grows when it is full" : "");
    print_maker(plan, kind_compact(), " --compact", ", to which no keys can be added");
    print_maker(plan, kind_counting(), " --counted", ", from which keys can be removed");
    putchar('\n');
}

/* Prints a solved plan, and the layouts unless NULL. */
static void print_plan(const struct plan *plan, const struct plan_layouts *layouts, bool json)
{
    struct report r = REPORT_DEFAULT;
    char why[REPORT_ITEMS][REASON];
    add_kinds(&r, plan);
    if (layouts != NULL)
        add_layouts(&r, layouts, why);
    if (json) {
        report_json(&r, stdout);
        return;
    }
    if (plan->kind != NULL)
        print_kinds(plan, &r);
    if (plan->kind != NULL && layouts != NULL)
        putchar('\n');
    if (layouts == NULL)
        return;
    report_table(&r, "layouts", stdout);
    printf("\nThe real FPR is that of the formula for %s. Of redisson, and of small filters of "
           "others, it is\nestimated, to within a factor of 4. Bits a key are those of the other "
           "program's file.\n",
           layouts->n != 0 ? "the capacity" : "a half-full filter");
}

/* Other programs may have filters that the kind of `wish` cannot have. Then only the layouts are
 * printed. */
static void print_with_layouts(const struct plan *wish, const struct plan_layouts *layouts,
                               bool json)
{
    struct plan plan = *wish;
    struct err ignored;
    if (!plan_solve(&plan, &ignored))
        plan = (struct plan){.n = wish->n, .p = wish->p};
    print_plan(&plan, layouts, json);
}

/* ---- Filters of several layers. */

static void print_layers(const struct header *h, bool json)
{
    struct report r = REPORT_DEFAULT;
    bool grows = format_grows(h);
    unsigned generations = chain_generations(h);
    double lines = 0; /* the most that a query touches */
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct cost cost;
        const struct layer *l = &h->layers[i];
        l->kind->sizing->cost(l, l->n_design, h->file_len, &cost);
        lines += cost.lines;
    }
    report_uint(&r, grows ? NULL : "design capacity", "n_design", FORM_COUNT,
                grows ? UNKNOWN : EXACT, h->n_design);
    report_number(&r, "design FPR", "fpr_design", FORM_DIGITS, EXACT, h->fpr_design);
    report_flag(&r, "grows", "grows", EXACT, grows);
    report_uint(&r, generations > 0 ? "generations" : NULL, "generations", FORM_COUNT, EXACT,
                generations);
    report_string(&r, "kind", "kind", EXACT, h->layers[0].kind->name);
    report_uint(&r, "layers", "layers", FORM_COUNT, EXACT, h->n_layers);
    report_uint(&r, "keys of a layer", "n_layer", FORM_COUNT, EXACT, h->layers[0].n_design);
    report_uint(&r, "file size", "bytes", FORM_BYTES, EXACT, h->file_len);
    report_number(&r, "cache lines", "lines_per_query", FORM_DIGITS, EXACT, lines);
    (json ? report_json : report_text)(&r, stdout);
}

/* ---- Designs. */

static bool show_layout(const struct design *d, uint64_t n, bool json, struct err *err)
{
    struct layout_filter filter;
    if (!design_layout(d, n, &filter, err))
        return false;
    const struct plan_layouts layouts = {d->layout, design_is_sized(d) ? d->n : n, d->p};
    const struct plan wish = {
        .kind = kind_usual(), .n = filter.layer[0].n_design, .p = filter.fpr_design};
    print_with_layouts(&wish, &layouts, json);
    return true;
}

bool plan_show(const struct design *d, uint64_t n, bool json, struct err *err)
{
    struct plan plan;
    if (d->layout != NULL)
        return show_layout(d, n, json, err);
    if (d->generations > 0 || (d->grow && d->n == 0 && d->empty)) {
        static const struct key_rule rule;
        struct header h;
        header_begin(&h, &rule, true);
        if (!header_design(&h, d, n, err))
            return false;
        print_layers(&h, json);
        return true;
    }
    if (!design_plan(d, n, &plan, err))
        return false;
    print_plan(&plan, NULL, json);
    return true;
}

/* ---- The command. */

struct wishes {
    struct design design;
    struct layout_spec spec;
    struct plan_layouts layouts;
    bool json, has_layouts, grow, fixed;
};

static const struct opt plan_opts[] = {
    {'n', "capacity", "N", "design for N distinct keys: 1000, 250k, 1M, 1e9",
     AMOUNT(struct wishes, design.n)},
    {'p', "fpr", "P",
     "false-positive rate: 1e-6 (default), 0.001, 1/1000, 0.1%; 0 is a counted set of whole hashes",
     OWN},
    {'s', "size", "BYTES",
     "file size: 512K, 64M, 2G (powers of 1024); determines the capacity or the rate, whichever is "
     "not given",
     BYTES(struct wishes, design.size)},
    {300, "layout", "SPEC",
     "show also what another program would make: NAME[:PARAM=VALUE,...], or 'all'; seen-layouts(7) "
     "has the names",
     OWN, .not_with = " size", .why = "takes a capacity"},
    {0, "fixed", NULL, "show a filter that does not grow (--size implies it)",
     FLAG(struct wishes, fixed), .not_with = " grow generations"},
    {0, "grow", NULL, "show a filter that grows (the default); without --capacity, its first layer",
     FLAG(struct wishes, grow), .not_with = " size layout"},
    {0, "generations", "G",
     "show a filter that forgets the oldest of G generations; --capacity is that of all together",
     GENERATIONS(struct wishes, design.generations), .needs = " capacity",
     .not_with = " grow size layout"},
    {0, "json", NULL, "print one JSON object instead of a table", FLAG(struct wishes, json)},
    {0},
};

static const struct opt_hint hints[] = {
    {"-k", "k, the number of hashes, follows from --fpr, and is in the table"},
    {0},
};

static bool take_wish(void *wishes, struct opt_parser *p, int id)
{
    struct wishes *w = wishes;
    struct err err;
    if (id == 'p') {
        w->design.exact = strcmp(p->value, "0") == 0;
        return w->design.exact || opt_fpr(p, &w->design.p);
    }
    w->has_layouts = true;
    bool all = strcmp(p->value, "all") == 0 && layout_number_of(0) != NULL;
    w->layouts.spec = all ? NULL : &w->spec;
    return w->layouts.spec == NULL || layout_parse(p->value, &w->spec, &err) || say_failure(&err);
}

static const struct opt_group plan_groups[] = {{"Options", plan_opts, 0, take_wish}, {0}};

static int check_wishes(const struct wishes *w)
{
    const struct design *d = &w->design;
    if (d->n == 0 && d->size == 0 && !w->grow)
        return opt_misuse(&cmd_plan, w->has_layouts ? "give a capacity (-n)"
                                                    : "give a capacity (-n) or a size (-s)");
    if (d->exact && (w->grow || d->generations > 0))
        return opt_misuse(&cmd_plan, "an FPR of 0 is for counted sets, which neither grow nor have "
                                     "generations");
    if (d->exact && (d->size != 0 || w->has_layouts))
        return opt_misuse(&cmd_plan, "an FPR of 0 needs a capacity (-n), and cannot go with --size "
                                     "or --layout");
    return 0;
}

/* The usual kind, or counted sets, which have the lowest rates. */
static void choose_kind(struct design *d)
{
    struct err ignored;
    double p = d->exact ? plan_least_fpr(d->n) : d->p;
    if (p == 0 || d->size != 0 || kind_check_fpr(kind_usual(), p, &ignored))
        return;
    d->kind = kind_counting();
    d->grow = false;
}

static int run(struct opt_parser *p)
{
    struct wishes w = {.design.empty = true};
    struct design *d = &w.design;
    struct err err;
    if (!opt_parse(p, &w))
        return p->status;
    uint64_t n;
    if (p->n_operands > 0 && num_count(p->operand[0], &n))
        return opt_misuse(&cmd_plan, "unexpected operand '%s'; did you mean -n %s%s%s?",
                          p->operand[0], SHELL_WORD(p->operand[0]), p->n_operands > 1 ? " -p " : "",
                          p->n_operands > 1 ? SHELL_WORD(p->operand[1]) : "");
    if (p->n_operands > 0)
        return opt_misuse(&cmd_plan, "unexpected operand '%s': plan reads no files", p->operand[0]);
    int status = check_wishes(&w);
    if (status != 0)
        return status;
    w.layouts.n = d->n;
    w.layouts.p = d->p;
    d->grow = !w.fixed && d->size == 0 && d->generations == 0;
    if (d->n != 0 && d->generations == 0)
        choose_kind(d);
    const struct plan wish = {.kind = design_kind(d), .n = d->n, .p = d->p, .grows = d->grow};
    struct layout_filter ignored;
    bool ok = !w.has_layouts ? plan_show(d, 0, w.json, &err)
                             : w.layouts.spec == NULL ||
                                   solve_layout(&w.layouts, w.layouts.spec, &ignored, &err);
    if (ok && w.has_layouts)
        print_with_layouts(&wish, &w.layouts, w.json);
    return ok || say_failure(&err) ? 0 : EXIT_ERROR;
}

const struct command cmd_plan = {
    .name = "plan",
    .synopsis = "[OPTION]...",
    .summary = "show sizes and costs without writing anything",
    .examples = "  seen plan -n 1e9           sizes for a billion keys\n"
                "  seen plan -n 10M -p 0.001  at another false-positive rate\n"
                "  seen plan -s 64M           how many keys fit\n",
    .details = "Prints what a filter for N distinct keys at false-positive rate P takes: the size "
               "of its file, bits per key, the number of probes k, the cache lines that a query "
               "touches and the memory to build it. Nothing is read or written.",
    .groups = plan_groups,
    .hints = hints,
    .operand = "",
    .run = run,
};
