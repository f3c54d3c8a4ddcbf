/* SPDX-License-Identifier: MIT */
/* seen shrink: makes a smaller file without the keys. It folds Bloom layers that were made for more
 * keys than they got, and drops bits of the fingerprints of compact filters and counted sets. */

#include "base/num.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "write/shrink.h"

struct shrink {
    double p;
    bool force, verbose, json;
    struct assembly assembly;
};

static const struct opt shrink_opts[] = {
    {'o', "output", "OUT", "the file to make (default: replace FILTER itself)",
     TEXT(struct shrink, assembly.out)},
    {'p', "fpr", "P",
     "largest false-positive rate with the present keys (default: FILTER's design rate); a compact "
     "filter gets smaller only at a higher rate",
     FPR(struct shrink, p)},
    {0, "force", NULL, "replace an existing OUT", FLAG(struct shrink, force)},
    {0, "reproducible", NULL, "leave out times and the random file id",
     FLAG(struct shrink, assembly.reproducible), .env = "SOURCE_DATE_EPOCH"},
    {0, "verbose", NULL, "report on stderr the sizes and the new false-positive rate",
     FLAG(struct shrink, verbose)},
    {0, "json", NULL, "print a summary as JSON", FLAG(struct shrink, json)},
    THREADS(struct shrink, assembly.threads),
    {0},
};

static const struct opt_group groups[] = {{"Options", shrink_opts, 0, NULL}, {0}};

static void report_shrunk(const struct shrink *s)
{
    const struct assembly *m = &s->assembly;
    char from[NUM_TEXT], to[NUM_TEXT], fpr[NUM_TEXT];
    uint64_t before = m->in[0].header.file_len;
    if (s->verbose)
        say_note("'%s': %s instead of %s, current false-positive rate %s", m->out,
                 num_show_bytes(to, m->header.file_len), num_show_bytes(from, before),
                 num_show_fpr(fpr, m->census.fpr));
    if (!s->json)
        return;
    struct report r = REPORT_DEFAULT;
    report_made(&r, m->out, &m->header, m->census.fpr, m->census.n);
    report_uint(&r, NULL, "bytes_before", FORM_BYTES, EXACT, before);
    report_json(&r, stdout);
}

static bool shrink(struct shrink *s, char **path, struct err *err)
{
    struct assembly *m = &s->assembly;
    bool in_place = m->out == NULL;
    if (in_place)
        m->out = *path;
    m->replace = in_place || s->force;
    m->prints = s->json;
    m->borrow = &(const struct borrow){0};
    bool opened =
        assembly_begin(m, err) && assembly_inputs(m, (const char *const *)path, 1, "", err);
    if (!warn_inputs(m, opened))
        return false;
    return shrink_input(m, s->p, err) &&
           (!in_place || m->replaces_input || fail(err, "'%s' was replaced meanwhile", m->out)) &&
           assembly_commit(m, err);
}

static int run(struct opt_parser *p)
{
    struct shrink s = {0};
    struct err err;
    if (!opt_parse(p, &s))
        return p->status;
    bool ok = shrink(&s, p->operand, &err);
    warn_attached(&s.assembly.file, s.assembly.out);
    if (ok)
        report_shrunk(&s);
    else
        say_failure(&err);
    assembly_close(&s.assembly);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_shrink = {
    .name = "shrink",
    .synopsis = "[OPTION]... [-o OUT] FILTER",
    .summary = "make a filter smaller without the keys",
    .examples = "  seen shrink urls.seen                           the same keys, in less space\n"
                "  seen shrink urls.seen -o small.seen             as another file\n"
                "  seen shrink --fpr 0.01 urls.seen -o small.seen  smaller, at a higher rate\n",
    .details =
        "Folds a Bloom FILTER, or each Bloom layer of one that grew or was merged, to the smallest "
        "size that keeps the false-positive rate. The result equals a filter that was made at that "
        "size. A compact filter or a counted set gets shorter fingerprints, as far as --fpr P "
        "allows.",
    .groups = groups,
    .everyday = " output fpr force verbose json ",
    .operand = "FILTER",
    .least = 1,
    .most = 1,
    .run = run,
};
