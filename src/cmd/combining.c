#include "cmd/combining.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/say.h"
#include "cmd/summary.h"
#include "store/header.h"

const struct opt result_opts[] = {
    {'o', "output", "OUT", "the file to make", TEXT(struct result_options, out)},
    {0, "max-fpr", "P",
     "accept a current false-positive rate of up to P (default: the sum "
     "of the inputs' design rates)",
     FPR(struct result_options, max_fpr)},
    {0, "force", NULL, "replace an existing OUT, and accept any false-positive rate",
     FLAG(struct result_options, force)},
    {0, "reproducible", NULL, "omit the times and the random file id",
     FLAG(struct result_options, reproducible)},
    {0, "verbose", NULL, "say on stderr what was made, and its false-positive rate",
     FLAG(struct result_options, verbose)},
    {0, "json", NULL, "print a summary of what was made as JSON",
     FLAG(struct result_options, json)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct result_options, threads)},
    {0},
};

bool combining_all(const struct make *m)
{
    bool all = true;
    for (unsigned i = 0; i < m->n_in; i++)
        all &= combine_counts(&m->in[i].header);
    return all;
}

bool combining_any(const struct make *m)
{
    bool any = false;
    for (unsigned i = 0; i < m->n_in; i++)
        for (unsigned l = 0; l < m->in[i].header.n_layers; l++)
            any |= m->in[i].header.layers[l].kind->counts != NULL;
    return any;
}

static unsigned bits_of(const struct layer *layer)
{
    return layer->kind->counts->bits(layer);
}

static unsigned result_bits(const struct combining *c)
{
    return bits_of(&c->combine.header.layers[0]);
}

double combining_limit(const struct make *m, const struct result_options *result)
{
    double sum = 0;
    for (unsigned i = 0; i < m->n_in; i++)
        sum += m->in[i].header.fpr_design;
    return result->max_fpr > 0 ? result->max_fpr : MAKE_FPR_SLACK * sum;
}

bool combining_accepts(const struct make *m, const struct result_options *result, double fpr,
                       bool least)
{
    char now[NUM_TEXT], text[NUM_TEXT];
    double limit = combining_limit(m, result);
    if (fpr <= limit || (result->max_fpr == 0 && (result->force || least)))
        return true;
    say_error("the result would have a current false-positive rate of %s, above %s; make the "
              "filters with --like one whose --capacity is for the keys of all, or one filter with "
              "--generations; --max-fpr or --force accept it",
              num_show_fpr(now, fpr), num_show_fpr(text, limit));
    return false;
}

static void note_bits(const struct combining *c)
{
    const struct combine *made = &c->combine;
    unsigned widest = 0;
    for (unsigned i = 1; i < made->n; i++)
        if (bits_of(made->layer[i]) > bits_of(made->layer[widest]))
            widest = i;
    unsigned most = bits_of(made->layer[widest]);
    if (most > result_bits(c))
        say_note("'%s' has fingerprints of %u bits, but not all the others do: '%s' has %u",
                 c->make->in[widest].path, most, c->result->out, result_bits(c));
}

static bool subtracts(const struct combining *c)
{
    return c->op == COUNTS_SUBTRACT || c->op == COUNTS_EXCEPT;
}

/* Only counts: combines inputs `from` to n. */
static bool look(const struct combining *c, enum counts_op op, unsigned from,
                 struct counts_seen *seen)
{
    const struct combine *done = &c->combine;
    struct err ignored;
    return done->layer[0]->kind->counts->combine(op, done->layer + from, done->data + from,
                                                 done->n - from, NULL, done->threads, seen,
                                                 &ignored);
}

/* The number of keys that have `used` of `cells` fingerprints, and the reverse. */
static double keys_of(double used, double cells)
{
    return -cells * log1p(-used / cells);
}

static double used_by(double keys, double cells)
{
    return -cells * expm1(-keys / cells);
}

/* Estimates the keys of the first input that were removed only because another input has a key with
 * the same fingerprint. The others have a part q of all fingerprints. So of the first input's keys
 * that no other has, the part 1 - q is left by --except, and tells how many there were. --subtract
 * removes fewer of them: those whose count is higher stay. Needs two more passes over the inputs.
 */
static double lost(const struct combining *c)
{
    struct counts_seen others, kept;
    const struct combine *made = &c->combine;
    double cells = ldexp(1, (int)result_bits(c));
    if (!subtracts(c) || result_bits(c) == 64)
        return 0;
    if (!look(c, COUNTS_DISTINCT, 1, &others) || !look(c, COUNTS_EXCEPT, 0, &kept))
        return NAN;
    unsigned others_bits = combine_bits(made->layer + 1, made->n - 1);
    double q = used_by(keys_of((double)others.made, ldexp(1, (int)others_bits)), cells) / cells;
    return q < 1 ? keys_of((double)kept.made, cells * (1 - q)) * q / (1 - q) : NAN;
}

/* Fewer lost keys are not reported. */
static const double FEWEST_LOST = 0.01;

static bool bounds_only(const struct combining *c)
{
    return (c->combine.header.compat & COMPAT_INTERSECTED) != 0;
}

static void note_made(const struct combining *c, const struct census *census)
{
    char fpr[NUM_TEXT], n[NUM_TEXT];
    bool bound = bounds_only(c);
    const char *about = bound ? "at most " : census->n_exact ? "" : "about ";
    say_note("'%s': current false-positive rate %s, %s%s keys, sum of counts %s%llu",
             c->result->out, num_show_fpr(fpr, census->fpr), about,
             num_show_count(n, bound ? census->n_high : census->n), bound ? about : "",
             (unsigned long long)c->combine.seen.total_made);
}

static void report(const struct combining *c)
{
    char n[NUM_TEXT];
    struct census census;
    const struct counts_seen *seen = &c->combine.seen;
    double gone = lost(c);
    combine_census(&c->combine, &census);
    note_bits(c);
    if (gone >= FEWEST_LOST)
        say_warning("%s %s keys were taken from '%s' although no other filter has them, because "
                    "of equal fingerprints",
                    c->op == COUNTS_SUBTRACT ? "up to" : "about", num_show_count(n, gone),
                    c->make->in[0].path);
    if (c->result->verbose)
        note_made(c, &census);
    if (!c->result->json)
        return;
    struct json j = {.out = stdout};
    summary_begin(&j, c->result->out, &c->combine.header, census.fpr,
                  bounds_only(c) ? NAN : census.n);
    if (bounds_only(c)) {
        json_key(&j, "n_low");
        json_double(&j, 0);
        json_key(&j, "n_high");
        json_double(&j, census.n_high);
    }
    json_key(&j, "counts_total");
    json_uint(&j, seen->total_made);
    json_key(&j, "fingerprint_bits");
    json_uint(&j, result_bits(c));
    if (subtracts(c)) {
        json_key(&j, "lost_estimate");
        json_double(&j, gone);
        json_key(&j, "lost_at_most");
        json_bool(&j, c->op == COUNTS_SUBTRACT);
    }
    summary_end(&j);
}

static bool write_file(struct combining *c, const struct layer **layer, const uint8_t **data,
                       struct err *err)
{
    unsigned n = c->make->n_in;
    for (unsigned i = 0; i < n; i++) {
        layer[i] = &c->make->in[i].header.layers[0];
        data[i] = c->make->in[i].data[0];
    }
    c->combine = (struct combine){.op = c->op,
                                  .layer = layer,
                                  .data = data,
                                  .n = n,
                                  .keys = &c->make->in[0].header,
                                  .threads = c->result->threads,
                                  .reproducible = c->result->reproducible};
    combine_header(&c->combine);
    for (unsigned i = 1; i < n; i++)
        header_join_keys(&c->combine.header, &c->make->in[i].header);
    for (unsigned i = 0; i < n; i++)
        if (newfile_replaces(&c->make->file, c->make->in[i].fd))
            combine_keep_batches(&c->combine, &c->make->in[i].header);
    return combine_write(&c->combine, &c->make->file, c->result->out, err);
}

static bool commit(struct combining *c)
{
    struct err err;
    c->make->header = c->combine.header;
    return make_commit(c->make, &err) || say_failure(&err);
}

bool combining_run(struct combining *c)
{
    struct err err;
    const struct layer **layer = calloc(c->make->n_in, sizeof *layer);
    const uint8_t **data = calloc(c->make->n_in, sizeof *data);
    bool ok = false;
    if (layer == NULL || data == NULL)
        say_error("out of memory");
    else if (!write_file(c, layer, data, &err))
        say_failure(&err);
    else if (combining_accepts(c->make, c->result, combine_fpr(&c->combine), result_bits(c) == 64))
        ok = commit(c);
    if (ok)
        report(c);
    free(layer);
    free(data);
    return ok;
}
