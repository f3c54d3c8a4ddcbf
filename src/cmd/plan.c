#include "cmd/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "base/json.h"
#include "base/num.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "store/chain.h"
#include "store/foreign.h"
#include "store/header.h"

/* ---- Layouts. */

struct layout_row {
    const struct kind *kind;
    bool ok;
    struct err why; /* unless ok: why it cannot be made */
    uint64_t n;     /* distinct keys */
    uint64_t bits;  /* m */
    unsigned k;
    uint64_t len;      /* bytes of the other program's files */
    uint64_t file_len; /* of our file */
    double fpr;        /* with n keys, by the other program's formula */
};

static void make_row(const struct plan_layouts *plan, const struct layout_spec *spec,
                     struct layout_row *row)
{
    struct layout_filter filter;
    struct layout_spec own = *spec;
    struct header h = {0};
    own.n = plan->n;
    own.p = plan->p;
    *row = (struct layout_row){.kind = spec->kind};
    row->ok = spec->kind->layout->design(&own, plan->n, plan->p, &filter, &row->why);
    if (!row->ok)
        return;
    foreign_layers(&filter, &h);
    const struct layer *layer = &filter.layer[0];
    const struct shape shape = layer->kind->shape(layer);
    row->n = plan->n != 0 ? plan->n : layer->n_design;
    row->bits = shape.m != 0 ? shape.m : 8 * layer->data_len;
    row->k = shape.k;
    row->len = spec->kind->layout->file_len(&filter);
    row->file_len = h.file_len;
    row->fpr = layer->kind->fpr_at(layer, (double)row->n);
}

/* Row number i; false after the last. */
static bool row_number(const struct plan_layouts *plan, unsigned i, struct layout_row *row)
{
    struct layout_spec spec = {.kind = layout_number_of(i)};
    if (plan->spec != NULL ? i > 0 : spec.kind == NULL)
        return false;
    make_row(plan, plan->spec != NULL ? plan->spec : &spec, row);
    return true;
}

/* Can the layout `spec` be made? True if `spec` is NULL. */
static bool check_layouts(const struct plan_layouts *plan, struct err *err)
{
    struct layout_row row;
    if (plan->spec == NULL || !row_number(plan, 0, &row) || row.ok)
        return true;
    *err = row.why;
    return false;
}

static double bits_per_key(const struct layout_row *row)
{
    return 8 * (double)row->len / (double)row->n;
}

static void print_layout(const struct layout_row *row, FILE *out)
{
    char len[NUM_TEXT], file_len[NUM_TEXT], fpr[NUM_TEXT];
    if (!row->ok) {
        fprintf(out, "%-10s %s\n", row->kind->name, row->why.text);
        return;
    }
    fprintf(out, "%-10s %15" PRIu64 "  %4u  %10s  %10s  %8.2f  %s\n", row->kind->name, row->bits,
            row->k, num_show_bytes(len, row->len), num_show_bytes(file_len, row->file_len),
            bits_per_key(row), num_show_fpr(fpr, row->fpr));
}

/* Prints a table with a row for each layout. If one cannot be made, its row gives the reason. */
static void print_layouts(const struct plan_layouts *plan, FILE *out)
{
    struct layout_row row;
    fprintf(out, "%-10s %15s  %4s  %10s  %10s  %8s  %s\n", "layout", "m", "k", "its file",
            "seen file", "bits/key", "real FPR");
    for (unsigned i = 0; row_number(plan, i, &row); i++)
        print_layout(&row, out);
    fprintf(out,
            "\nThe real FPR is that of the formula for %s. Bits a key are those of the other "
            "program's file.\n",
            plan->n != 0 ? "the capacity" : "a half-full filter");
}

static void json_layout(struct json *j, const struct layout_row *row)
{
    json_open(j, '{');
    json_key(j, "layout");
    json_string(j, row->kind->name);
    if (!row->ok) {
        json_key(j, "refused");
        json_string(j, row->why.text);
        json_close(j, '}');
        return;
    }
    json_key(j, "n_design");
    json_uint(j, row->n);
    json_key(j, "m");
    json_uint(j, row->bits);
    json_key(j, "k");
    json_uint(j, row->k);
    json_key(j, "layout_bytes");
    json_uint(j, row->len);
    json_key(j, "bytes");
    json_uint(j, row->file_len);
    json_key(j, "bits_per_key");
    json_double(j, bits_per_key(row));
    json_key(j, "fpr");
    json_double(j, row->fpr);
    json_close(j, '}');
}

/* Prints the same as a JSON array. */
static void json_layouts(const struct plan_layouts *plan, struct json *j)
{
    struct layout_row row;
    json_open(j, '[');
    for (unsigned i = 0; row_number(plan, i, &row); i++)
        json_layout(j, &row);
    json_close(j, ']');
}

/* ---- The table. */

/* seen plan: what a filter would cost. */

struct wishes {
    struct plan plan;
    struct layout_spec spec;
    struct plan_layouts layouts;
    bool json, has_n, has_layouts;
    bool exact; /* whole hashes: the lowest possible rate */
    bool grow;
    int generations; /* 0: none */
};

/* An option without a letter that `take` reads. */
enum { OPT_GENERATIONS = 301 };

static const struct opt plan_opts[] = {
    {'n', "capacity", "N", "distinct keys to design for: 1000, 250k, 1e9", OWN},
    {'p', "fpr", "P",
     "probability that an absent key is taken for present: 0.001 (default), 1e-6, "
     "1/1000, 0.1%; 0: whole hashes, in a counted set",
     OWN},
    {'s', "size", "BYTES",
     "file size, 512K, 64M, 2G (powers of 1024); determines the capacity or "
     "the rate, whichever is not given",
     BYTES(struct wishes, plan.size)},
    {300, "layout", "SPEC",
     "show also the filter that another program would make: NAME[:PARAM=VALUE,...], or 'all' of "
     "them; seen-layouts(7) has the names",
     OWN, .not_with = " size", .why = "takes a capacity"},
    {0, "grow", NULL, "show a filter that grows; --capacity sizes its first layer",
     FLAG(struct wishes, grow), .not_with = " size layout"},
    {OPT_GENERATIONS, "generations", "G",
     "show a filter that forgets the oldest of G generations; --capacity is that of all, or with "
     "--grow of the first",
     OWN, .needs = " capacity grow", .not_with = " size layout"},
    {0, "json", NULL, "print one JSON object instead of a table", FLAG(struct wishes, json)},
    {0},
};

static bool take(void *wishes, struct opt_parser *p, int id)
{
    struct wishes *w = wishes;
    struct err err;
    switch (id) {
    case OPT_GENERATIONS:
        return opt_int(p, 1, CHAIN_GENERATIONS, &w->generations);
    case 'n':
        w->has_n = true;
        return opt_count(p, &w->plan.n);
    case 'p':
        w->exact = strcmp(p->value, "0") == 0;
        return w->exact || opt_fpr(p, &w->plan.p);
    default:
        w->has_layouts = true;
        w->layouts.spec = strcmp(p->value, "all") == 0 ? NULL : &w->spec;
        return w->layouts.spec == NULL || layout_parse(p->value, &w->spec, &err) ||
               say_failure(&err);
    }
}

static const struct opt_group plan_groups[] = {{"Options", plan_opts, 0, take}, {0}};

/* A kind of filter for n keys at p. */
struct row {
    const char *kind;
    uint64_t file_len;
    struct cost cost;
    bool is_mutable;
};

/* False: the kind has no such filter. */
static bool own_row(const struct plan *plan, const struct kind *kind, struct row *row)
{
    struct err err;
    struct plan own = *plan;
    if (kind != plan->kind)
        own = (struct plan){.kind = kind, .n = plan->n, .p = plan->p};
    if (kind != plan->kind && !plan_solve(&own, &err))
        return false;
    *row = (struct row){.kind = kind->name,
                        .file_len = plan_file_len(&own),
                        .is_mutable = kind_takes_keys(kind) || kind_counts(kind)};
    kind->sizing->cost(&own.layer, plan->n, row->file_len, &row->cost);
    return true;
}

enum { ROWS = 16 };

/* Makes the rows of a table; returns their number. */
static unsigned make_rows(const struct plan *plan, struct row row[ROWS])
{
    const struct kind *kind;
    unsigned n = 0;
    if (plan->kind == NULL)
        return 0;
    for (unsigned i = 0; (kind = kind_number(i)) != NULL && n < ROWS; i++)
        n += kind->layout == NULL && own_row(plan, kind, &row[n]);
    return n;
}

static double bound(const struct plan *plan)
{
    return -exact_log(plan->p) / exact_log(2);
}

static double build_seconds(const struct plan *plan, const struct row *row)
{
    return row->cost.build_time * 1e-9 * (double)plan->n;
}

static void print_json_row(struct json *j, const struct plan *plan, const struct row *row)
{
    json_open(j, '{');
    json_key(j, "kind");
    json_string(j, row->kind);
    json_key(j, "bytes");
    json_uint(j, row->file_len);
    json_key(j, "bits_per_key");
    json_double(j, 8 * (double)row->file_len / (double)plan->n);
    json_key(j, "m");
    json_uint(j, row->cost.bits);
    json_key(j, "k");
    json_uint(j, row->cost.k);
    json_key(j, "lines_per_query");
    json_double(j, row->cost.lines);
    json_key(j, "build_bytes");
    json_uint(j, row->cost.build_memory);
    json_key(j, "build_seconds");
    json_double(j, build_seconds(plan, row));
    json_key(j, "mutable");
    json_bool(j, row->is_mutable);
    json_close(j, '}');
}

static void print_json(const struct plan *plan, const struct plan_layouts *layouts, FILE *out)
{
    struct json j = {.out = out};
    struct row row[ROWS];
    unsigned n = make_rows(plan, row);
    json_open(&j, '{');
    json_key(&j, "n_design");
    json_uint(&j, plan->n);
    json_key(&j, "fpr_design");
    json_double(&j, plan->p);
    json_key(&j, "bound_bits_per_key");
    json_double(&j, plan->kind != NULL ? bound(plan) : NAN);
    json_key(&j, "kinds");
    json_open(&j, '[');
    for (unsigned i = 0; i < n; i++)
        print_json_row(&j, plan, &row[i]);
    json_close(&j, ']');
    if (layouts != NULL) {
        json_key(&j, "layouts");
        json_layouts(layouts, &j);
    }
    json_close(&j, '}');
}

static void print_text_row(const struct plan *plan, const struct row *row, FILE *out)
{
    char file[NUM_TEXT], build[NUM_TEXT], seconds[NUM_TEXT];
    fprintf(out, "%-8s %10s  %8.2f  %2u  %11.3g  %12s  %12s  %s\n", row->kind,
            num_show_bytes(file, row->file_len), 8 * (double)row->file_len / (double)plan->n,
            row->cost.k, row->cost.lines, num_show_bytes(build, row->cost.build_memory),
            num_show_seconds(seconds, build_seconds(plan, row)), row->is_mutable ? "yes" : "no");
}

/* How to make a filter of this kind, if there can be one. */
static void print_maker(const struct plan *plan, const struct kind *kind, const char *option,
                        const char *remark, FILE *out)
{
    struct row row;
    if (own_row(plan, kind, &row))
        fprintf(out, "\n'create%s' makes %s%s.", option, row.kind, remark);
}

static void print_kinds(const struct plan *plan, FILE *out)
{
    char p[NUM_TEXT], n[NUM_TEXT];
    struct row row[ROWS];
    unsigned n_rows = make_rows(plan, row);
    fprintf(out, "%s keys at a design FPR of %s\n\n", num_show_count(n, (double)plan->n),
            num_show_fpr(p, plan->p));
    fprintf(out, "%-8s %10s  %8s  %2s  %11s  %12s  %12s  %s\n", "kind", "file size", "bits/key",
            "k", "cache lines", "build memory", "CPU time", "add");
    for (unsigned i = 0; i < n_rows; i++)
        print_text_row(plan, &row[i], out);
    fprintf(
        out,
        "\nThe least possible is %.2f bits/key. Cache lines are the most that one query touches,"
        "\nk the bits that it compares. CPU time to build is about what it took on one machine.",
        bound(plan));
    print_maker(plan, kind_usual(), "", "", out);
    print_maker(plan, kind_compact(), " --compact", ", to which no keys can be added", out);
    print_maker(plan, kind_counting(), " --counted", ", from which keys can be removed", out);
    fputc('\n', out);
}

static void print_text(const struct plan *plan, const struct plan_layouts *layouts, FILE *out)
{
    if (plan->kind != NULL)
        print_kinds(plan, out);
    if (plan->kind != NULL && layouts != NULL)
        fputc('\n', out);
    if (layouts != NULL)
        print_layouts(layouts, out);
}

void plan_show(const struct plan *plan, const struct plan_layouts *layouts, bool json, FILE *out)
{
    if (json)
        print_json(plan, layouts, out);
    else
        print_text(plan, layouts, out);
}

/* The most cache lines that a query touches. */
static double lines_of_query(const struct header *h)
{
    double lines = 0;
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct cost cost;
        const struct layer *l = &h->layers[i];
        l->kind->sizing->cost(l, l->n_design, h->file_len, &cost);
        lines += cost.lines;
    }
    return lines;
}

static void print_json_layers(const struct header *h, FILE *out)
{
    struct json j = {.out = out};
    json_open(&j, '{');
    json_key(&j, "n_design");
    if (format_grows(h))
        json_null(&j);
    else
        json_uint(&j, h->n_design);
    json_key(&j, "fpr_design");
    json_double(&j, h->fpr_design);
    json_key(&j, "grows");
    json_bool(&j, format_grows(h));
    json_key(&j, "generations");
    json_uint(&j, chain_generations(h));
    json_key(&j, "kind");
    json_string(&j, h->layers[0].kind->name);
    json_key(&j, "layers");
    json_uint(&j, h->n_layers);
    json_key(&j, "n_layer");
    json_uint(&j, h->layers[0].n_design);
    json_key(&j, "bytes");
    json_uint(&j, h->file_len);
    json_key(&j, "lines_per_query");
    json_double(&j, lines_of_query(h));
    json_close(&j, '}');
}

static void print_text_layers(const struct header *h, FILE *out)
{
    char p[NUM_TEXT], n[NUM_TEXT], len[NUM_TEXT];
    unsigned generations = chain_generations(h);
    if (!format_grows(h))
        fprintf(out, "%s keys at ", num_show_count(n, (double)h->n_design));
    else
        fputs("a growing filter at ", out);
    fprintf(out, "a design FPR of %s", num_show_fpr(p, h->fpr_design));
    if (generations > 0)
        fprintf(out, ", kept for %u rotation%s", generations, num_plural(generations));
    num_show_count(n, (double)h->layers[0].n_design);
    num_show_bytes(len, h->file_len);
    if (format_grows(h))
        fprintf(out, "\n\n%s for the first %s keys%s; layers are added as needed.\n", len, n,
                generations > 0 ? " of a generation" : "");
    else
        fprintf(out,
                "\n\n%s: %u layers for %s keys each; a query touches at most %g cache lines.\n",
                len, h->n_layers, n, lines_of_query(h));
}

void plan_show_layers(const struct header *h, bool json, FILE *out)
{
    (json ? print_json_layers : print_text_layers)(h, out);
}

void plan_with_layouts(struct plan *plan)
{
    struct err err;
    struct plan wish = *plan;
    if (!plan_solve(plan, &err))
        *plan = (struct plan){.n = wish.n, .p = wish.p};
}

static int check_options(const struct wishes *w)
{
    if (!w->has_n && w->plan.size == 0 && !w->grow)
        return opt_misuse(&cmd_plan, w->has_layouts ? "give a capacity (-n)"
                                                    : "give a capacity (-n) or a size (-s)");
    if (w->has_n && w->plan.n == 0)
        return opt_misuse(&cmd_plan, "a capacity of 0 keys makes no filter");
    if (w->exact && (w->grow || w->generations > 0))
        return opt_misuse(&cmd_plan, "an FPR of 0 is for counted sets, which neither grow nor have "
                                     "generations");
    if (w->exact && (w->plan.size != 0 || w->has_layouts))
        return opt_misuse(&cmd_plan, "an FPR of 0 takes a capacity (-n), and neither --size nor "
                                     "--layout");
    return 0;
}

static int run_layers(const struct wishes *w)
{
    static const struct key_rule rule;
    const struct design design = {
        .n = w->plan.n, .p = w->plan.p, .grow = w->grow, .generations = (unsigned)w->generations};
    struct header h;
    struct err err;
    header_begin(&h, &rule, true);
    if (!header_design(&h, &design, 0, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    plan_show_layers(&h, w->json, stdout);
    return 0;
}

static int run(int argc, char **argv)
{
    struct wishes w = {.plan.kind = kind_usual()};
    struct opt_parser p;
    struct err err;
    if (!opt_parse(&p, &cmd_plan, argc, argv, &w))
        return p.status;
    uint64_t n;
    if (p.first < argc && num_count(argv[p.first], &n))
        return opt_misuse(&cmd_plan, "'%s' is too much: did you mean -n %s?", argv[p.first],
                          argv[p.first]);
    if (p.first < argc)
        return opt_misuse(&cmd_plan, "'%s' is too much: plan reads no files", argv[p.first]);
    int status = check_options(&w);
    if (status != 0)
        return status;
    if (w.grow || w.generations > 0)
        return run_layers(&w);
    w.layouts.n = w.plan.n;
    w.layouts.p = w.plan.p;
    if (w.exact)
        w.plan.p = plan_least_fpr(w.plan.n);
    /* If the usual kind does not support the rate, plan for one that does. */
    if (w.plan.p > 0 && w.plan.size == 0 && !kind_usual()->sizing->check_fpr(w.plan.p, &err))
        w.plan.kind =
            kind_compact()->sizing->check_fpr(w.plan.p, &err) ? kind_compact() : kind_counting();
    if (w.has_layouts)
        plan_with_layouts(&w.plan);
    if (w.has_layouts ? !check_layouts(&w.layouts, &err) : !plan_solve(&w.plan, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    plan_show(&w.plan, w.has_layouts ? &w.layouts : NULL, w.json, stdout);
    return 0;
}

const struct command cmd_plan = {
    .name = "plan",
    .synopsis = "[OPTION]...",
    .summary = "show sizes and costs without writing anything",
    .details =
        "Prints what a filter for N distinct keys at false positive rate P takes: the size of "
        "its file, bits per key, the number of probes k, the cache lines that a query touches "
        "and the memory to build it. Nothing is read or written.",
    .groups = plan_groups,
    .operand = "",
    .run = run,
};
