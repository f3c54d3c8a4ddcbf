/* seen shrink: makes a smaller file without the keys. It folds Bloom layers that were made for more
 * keys than they got, and drops bits of the fingerprints of compact filters and counted sets. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/num.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/summary.h"
#include "cmd/warn.h"
#include "store/combine.h"
#include "store/filter.h"
#include "store/header.h"
#include "store/newfile.h"

struct shrink {
    const char *path, *out;
    double p;
    bool force, reproducible, verbose, json;
    unsigned threads;
    struct filter filter;
    struct newfile file;
    struct header header; /* of the new file */
    double fpr, n;        /* of the new file, by its bits */
    struct {
        double n;            /* distinct keys in FILTER's layer */
        struct layer folded; /* the layer that it becomes */
        double fpr;          /* of the new layer, by its bits */
    } layer[FORMAT_MAX_LAYERS];
};

static const struct opt shrink_opts[] = {
    {'o', "output", "OUT", "the file to make (default: FILTER itself is replaced)",
     TEXT(struct shrink, out)},
    {'p', "fpr", "P",
     "largest false-positive rate with the present keys (default: FILTER's design rate); a compact "
     "filter gets smaller only at a higher one",
     FPR(struct shrink, p)},
    {0, "force", NULL, "replace an existing OUT", FLAG(struct shrink, force)},
    {0, "reproducible", NULL, "omit the times and the random file id",
     FLAG(struct shrink, reproducible)},
    {0, "verbose", NULL, "say on stderr the sizes and the new false-positive rate",
     FLAG(struct shrink, verbose)},
    {0, "json", NULL, "print a summary of what was made as JSON", FLAG(struct shrink, json)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct shrink, threads)},
    {0},
};

static const struct opt_group groups[] = {{"Options", shrink_opts, 0, NULL}, {0}};

/* Layer i's share of the FPR. */
static double share(const struct shrink *s, unsigned i)
{
    const struct header *h = &s->filter.header;
    return format_rate(h->layers[i].fpr_design * s->p / h->fpr_design);
}

static bool folds(const struct shrink *s, unsigned i)
{
    return s->filter.header.layers[i].kind->fold != NULL;
}

/* Chooses the smallest layer of more than `above` bytes into which layer i folds and which may keep
 * its rate by the design's formula. The bits decide later. They differ from the formula by a few
 * per cent at most, hence the factor. */
static void choose_fold(struct shrink *s, unsigned i, uint64_t above)
{
    const struct layer *layer = &s->filter.header.layers[i];
    layer->kind->fold(layer, s->layer[i].n, 1.05 * share(s, i), above, &s->layer[i].folded);
}

/* Makes the header of the new file, with the layers folded as chosen. */
static void make_header(struct shrink *s)
{
    const struct header *from = &s->filter.header;
    struct header *h = &s->header;
    header_begin_like(h, from, s->reproducible);
    h->policy = from->policy;
    h->fpr_design = s->p;
    h->counters = from->counters;
    h->n_layers = from->n_layers;
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        *layer = folds(s, i) ? s->layer[i].folded : from->layers[i];
        if (s->reproducible)
            layer->since = 0;
        if (folds(s, i)) {
            layer->fpr_design = share(s, i);
            if (layer->data_len < from->layers[i].data_len || layer->n_design == 0)
                layer->n_design = (uint64_t)fmax(1, layer_n_at(layer, layer->fpr_design));
        }
        if (h->policy == POLICY_FIXED)
            h->n_design += layer->n_design;
    }
    format_place(h);
}

static bool write_layer(struct shrink *s, unsigned i, struct err *err)
{
    const struct layer *from = &s->filter.header.layers[i];
    const uint8_t *data = s->filter.map + from->data_off;
    struct census census;
    struct target target = header_target(&s->header, i, s->file.fd, s->out, s->threads);
    struct union_of parts = {1, &from, &data, false};
    if (folds(s, i)) {
        if (!from->kind->write_union(&target, &parts, &census, err))
            return false;
    } else {
        if (!target_copy(&target, data, err))
            return false;
        filter_census(&s->filter, i, s->threads, &census);
    }
    s->layer[i].fpr = census.fpr;
    s->n += census.n;
    s->fpr += census.fpr * (1 - s->fpr);
    return true;
}

static bool write_layers(struct shrink *s, struct err *err)
{
    make_header(s);
    s->fpr = s->n = 0;
    bool ok = newfile_reserve(&s->file, s->header.file_len, err);
    for (unsigned i = 0; ok && i < s->header.n_layers; i++)
        ok = write_layer(s, i, err);
    return ok;
}

/* Chooses a larger size for folded layers whose rate is too high. False: no size changed. */
static bool correct_folds(struct shrink *s)
{
    bool any = false;
    for (unsigned i = 0; i < s->header.n_layers; i++) {
        uint64_t len = s->layer[i].folded.data_len;
        if (!folds(s, i) || s->layer[i].fpr <= share(s, i))
            continue;
        if (len < s->filter.header.layers[i].data_len)
            choose_fold(s, i, len);
        any |= s->layer[i].folded.data_len > len;
    }
    return any;
}

/* Folds each layer into the fewest pages with which it keeps its share of the rate. A layer for
 * which there is no such size stays as it is. */
static bool fold(struct shrink *s, struct err *err)
{
    char fpr[NUM_TEXT], p[NUM_TEXT];
    struct header *h = &s->header;
    for (unsigned i = 0; i < s->filter.header.n_layers; i++)
        if (folds(s, i)) {
            struct census census;
            filter_census(&s->filter, i, s->threads, &census);
            s->layer[i].n = census.n;
            choose_fold(s, i, 0);
        }
    do
        if (!write_layers(s, err))
            return false;
    while (correct_folds(s));
    for (unsigned i = 0; i < h->n_layers; i++)
        if (h->layers[i].fpr_closed > 0 &&
            h->layers[i].data_len < s->filter.header.layers[i].data_len)
            h->layers[i].fpr_closed = s->layer[i].fpr;
    return s->fpr <= s->p || fail(err, "'%s' has a false-positive rate of %s already, more than %s",
                                  s->path, num_show_fpr(fpr, s->fpr), num_show_fpr(p, s->p));
}

/* The fewest bits, up to `bits`, for which n / 2^bits is at most p. */
static unsigned bits_for(const struct shrink *s, unsigned bits)
{
    while (bits > 1 && ldexp(fmax(1, s->n), 1 - (int)bits) <= s->p)
        bits--;
    return bits;
}

static bool narrow(struct shrink *s, struct err *err)
{
    char fpr[NUM_TEXT], p[NUM_TEXT];
    const struct header *from = &s->filter.header;
    const struct layer *layer = &from->layers[0];
    const uint8_t *data = s->filter.data[0];
    struct census census;
    filter_census(&s->filter, 0, s->threads, &census);
    s->n = census.n;
    unsigned bits = layer->kind->counts->bits(layer);
    if (census.fpr > s->p)
        return fail(err, "'%s' has a false-positive rate of %s already, more than %s", s->path,
                    num_show_fpr(fpr, census.fpr), num_show_fpr(p, s->p));
    struct combine c = {.op = COUNTS_ADD,
                        .layer = &layer,
                        .data = &data,
                        .n = 1,
                        .keys = from,
                        .bits = bits_for(s, bits),
                        .threads = s->threads,
                        .reproducible = s->reproducible};
    combine_header(&c);
    struct layer *made = &c.header.layers[0];
    c.header.fpr_design = made->fpr_design = s->p;
    if (c.bits < bits)
        c.header.n_design = made->n_design = (uint64_t)fmax(1, layer_n_at(made, s->p));
    /* Batches applied to FILTER must not be applied again to the file that replaces it. */
    if (newfile_replaces(&s->file, s->filter.fd))
        combine_keep_batches(&c, from);
    if (!combine_write(&c, &s->file, s->out, err))
        return false;
    s->header = c.header;
    s->fpr = combine_fpr(&c);
    return filter_check_intact(&s->filter, err) && newfile_commit(&s->file, err);
}

static bool drops(const struct header *h)
{
    bool all = true;
    for (unsigned i = 0; i < h->n_layers; i++)
        all &= h->layers[i].kind->drop != NULL;
    return all;
}

/* Divides the rate p among the layers in equal parts. A layer that was made for a higher rate than
 * its part keeps that rate, and the others get less. */
static void share_rate(const struct header *from, double p, double *share)
{
    unsigned n = from->n_layers;
    bool kept[FORMAT_MAX_LAYERS] = {false}, again = true;
    while (again && n > 0) {
        double equal = p / n;
        again = false;
        for (unsigned i = 0; i < from->n_layers; i++) {
            if (kept[i])
                continue;
            share[i] = equal;
            if (from->layers[i].fpr_design < equal)
                continue;
            kept[i] = again = true;
            p -= share[i] = from->layers[i].fpr_design;
            n--;
        }
    }
}

static void drop_header(struct shrink *s)
{
    const struct header *from = &s->filter.header;
    struct header *h = &s->header;
    double share[FORMAT_MAX_LAYERS] = {0};
    header_begin_like(h, from, s->reproducible);
    h->counters = from->counters;
    h->n_layers = from->n_layers;
    h->n_design = from->n_design;
    h->fpr_design = s->p;
    share_rate(from, s->p, share);
    for (unsigned i = 0; i < h->n_layers; i++) {
        from->layers[i].kind->drop(&from->layers[i], share[i], &h->layers[i]);
        h->layers[i].fpr_design = share[i];
    }
    format_place(h);
}

/* In order: a layer's offset depends on the lengths of those before it. */
static bool drop_columns(struct shrink *s, struct err *err)
{
    for (unsigned i = 0; i < s->header.n_layers; i++) {
        const struct target t = header_target(&s->header, i, s->file.fd, s->out, s->threads);
        const struct layer *from = &s->filter.header.layers[i];
        if (!from->kind->write_dropped(&t, from, s->filter.data[i], err))
            return false;
    }
    return true;
}

static bool census_made(struct shrink *s, struct err *err)
{
    struct filter made;
    struct census census;
    if (!filter_open(&made, s->out, FILTER_READ, err))
        return false;
    filter_census_all(&made, s->threads, &census);
    filter_close(&made);
    s->fpr = census.fpr;
    s->n = census.n;
    return true;
}

/* Makes the same compact filter at a higher rate. */
static bool drop(struct shrink *s, struct err *err)
{
    const struct header *h = &s->filter.header;
    char had[NUM_TEXT], wanted[NUM_TEXT];
    if (s->p < h->fpr_design)
        return fail(err, "'%s' was made for an FPR of %s; lowering it to %s needs the keys",
                    s->path, num_show_fpr(had, h->fpr_design), num_show_fpr(wanted, s->p));
    if (!h->layers[0].kind->check_fpr(s->p, err))
        return false;
    drop_header(s);
    /* The output is at most as long as the input; unused space is freed at the end. */
    return newfile_reserve(&s->file, h->file_len, err) && drop_columns(s, err) &&
           header_write(&s->header, s->file.fd, s->out, err) &&
           filter_check_intact(&s->filter, err) && newfile_commit(&s->file, err) &&
           census_made(s, err);
}

static bool check_filter(struct shrink *s, struct err *err)
{
    struct filter *f = &s->filter;
    bool any = false;
    for (unsigned i = 0; i < f->header.n_layers; i++)
        any |= f->header.layers[i].kind->fold != NULL;
    if (!any && !drops(&f->header) && !combine_counts(&f->header))
        return fail(err, "'%s' is of kind %s, which cannot be folded", s->path,
                    format_kind_name(&f->header));
    if (drops(&f->header) && s->p == 0)
        return fail(err,
                    "'%s' is a compact filter, which gets smaller only at a higher FPR: give it "
                    "with --fpr P",
                    s->path);
    if (f->header.policy == POLICY_RING)
        return fail(err, "'%s' has generations, which cannot be folded", s->path);
    return filter_check_sound(f, s->threads, err);
}

/* If FILTER is replaced, no key may be added to it between reading and rename. */
static bool open_both(struct shrink *s, bool in_place, struct err *err)
{
    if (!newfile_open(&s->file, s->out, in_place || s->force, err))
        return false;
    if ((s->json && !output_is_apart(s->file.old_fd, s->out, err)) ||
        !newfile_hold(&s->file, err) || !filter_open(&s->filter, s->path, FILTER_READ, err))
        return false;
    if (!newfile_replaces(&s->file, s->filter.fd)) {
        if (in_place)
            return fail(err, "'%s' was replaced meanwhile", s->path);
        newfile_let_go(&s->file);
    }
    warn_unclean_file(&s->filter);
    return true;
}

/* The counters match the bits that were read if the file was clean and no writer has come since. A
 * writer writes a header before it changes a bit. */
static bool counters_hold(const struct shrink *s)
{
    atomic_thread_fence(memory_order_acquire);
    return s->filter.header.state == STATE_CLEAN && !filter_changed(&s->filter);
}

static bool write_file(struct shrink *s, struct err *err)
{
    if (!counters_hold(s) || s->header.counters.unknown) {
        s->header.counters.unknown = true;
        s->header.counters.n_keys = s->n;
    }
    return header_write(&s->header, s->file.fd, s->out, err) &&
           filter_check_intact(&s->filter, err) && newfile_commit(&s->file, err);
}

static void report(const struct shrink *s)
{
    char from[NUM_TEXT], to[NUM_TEXT], fpr[NUM_TEXT];
    say_note("'%s': %s instead of %s, current false-positive rate %s", s->out,
             num_show_bytes(to, s->header.file_len),
             num_show_bytes(from, s->filter.header.file_len), num_show_fpr(fpr, s->fpr));
}

static void print_summary(const struct shrink *s)
{
    struct json j = {.out = stdout};
    summary_begin(&j, s->out, &s->header, s->fpr, s->n);
    json_key(&j, "bytes_before");
    json_uint(&j, s->filter.header.file_len);
    summary_end(&j);
}

static bool make(struct shrink *s, struct err *err)
{
    const struct header *h = &s->filter.header;
    if (!check_filter(s, err))
        return false;
    if (s->p == 0)
        s->p = h->fpr_design;
    return combine_counts(h) ? narrow(s, err)
           : drops(h)        ? drop(s, err)
                             : fold(s, err) && write_file(s, err);
}

static bool shrink(struct shrink *s, struct err *err)
{
    bool in_place = s->out == NULL;
    if (in_place)
        s->out = s->path;
    bool ok = open_both(s, in_place, err) && make(s, err);
    newfile_close(&s->file);
    if (ok && s->verbose)
        report(s);
    if (ok && s->json)
        print_summary(s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct shrink s = {.threads = parallel_cpus(), .filter = {.fd = -1}};
    struct opt_parser p;
    struct err err;
    if (!opt_parse(&p, &cmd_shrink, argc, argv, &s))
        return p.status;
    s.path = argv[p.first];
    bool ok = shrink(&s, &err);
    if (!ok)
        say_failure(&err);
    if (s.filter.fd >= 0)
        filter_close(&s.filter);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_shrink = {
    .name = "shrink",
    .synopsis = "[OPTION]... [-o OUT] FILTER",
    .summary = "make a filter smaller without the keys",
    .details =
        "Folds a Bloom FILTER, or each Bloom layer of one that grew or was merged, into the "
        "fewest pages with which its keys keep the false-positive rate: the result is, bit for "
        "bit, what adding them to a filter of that size would have made. --foldable in 'seen "
        "create' gives sizes that fold well. Of a compact filter or a counted set, drops the bits "
        "of fingerprints that the rate P does not need.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .most = 1,
    .run = run,
};
