/* seen compact: a smaller file for the same keys. */
#include <stdlib.h>

#include "base/disk.h"
#include "base/num.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/summary.h"
#include "store/combine.h"
#include "store/derive.h"
#include "store/filter.h"
#include "store/header.h"
#include "store/newfile.h"
#include "store/target.h"

struct compact {
    const char *in_path, *out;
    double p;
    bool force, json, reproducible;
    unsigned threads;
    struct filter in;
    struct header header;
};

static const struct opt compact_opts[] = {
    {'o', "output", "OUT", "the file to make", TEXT(struct compact, out)},
    {'p', "fpr", "P", "the false-positive rate of OUT: 0.001, 1e-6, 1/1000, 0.1%",
     FPR(struct compact, p)},
    {0, "force", NULL, "replace an existing OUT, atomically", FLAG(struct compact, force)},
    {0, "reproducible", NULL, "omit the times and the random file id",
     FLAG(struct compact, reproducible)},
    {0, "json", NULL, "print a summary of what was made as JSON", FLAG(struct compact, json)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct compact, threads)},
    {0},
};

static const struct opt_group groups[] = {{"Options", compact_opts, 0, NULL}, {0}};

static bool check_input(struct compact *c, struct err *err)
{
    const struct header *h = &c->in.header;
    char had[NUM_TEXT], wanted[NUM_TEXT];
    for (unsigned i = 0; i < h->n_layers; i++)
        if (h->layers[i].kind->drop == NULL)
            return fail(err,
                        "'%s' is not a compact filter; 'seen create --compact' makes one "
                        "from the keys",
                        c->in_path);
    if (c->p < h->fpr_design)
        return fail(err, "'%s' was made for an FPR of %s; lowering it to %s needs the keys",
                    c->in_path, num_show_fpr(had, h->fpr_design), num_show_fpr(wanted, c->p));
    if (!h->layers[0].kind->check_fpr(c->p, err))
        return false;
    return filter_check_sound(&c->in, c->threads, err);
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

static void fill_header(struct compact *c)
{
    struct header *h = &c->header;
    double share[FORMAT_MAX_LAYERS] = {0};
    header_begin_like(h, &c->in.header, c->reproducible);
    h->counters = c->in.header.counters;
    h->n_layers = c->in.header.n_layers;
    h->n_design = c->in.header.n_design;
    h->fpr_design = c->p;
    share_rate(&c->in.header, c->p, share);
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct layer *from = &c->in.header.layers[i];
        from->kind->drop(from, share[i], &h->layers[i]);
        h->layers[i].fpr_design = share[i];
    }
    format_place(h);
}

/* Memory for hashes; the rest goes to scratch files. */
enum { DERIVE_MEMORY = 256 << 20 };

static bool build_from_hashes(struct compact *c, struct newfile *file, const char *scratch_dir,
                              struct err *err)
{
    const struct header *from = &c->in.header;
    const struct design design = {.kind = kind_compact(), .p = c->p};
    const struct key_rule rule = {.prep = from->prep,
                                  .key_len = format_key_len(from),
                                  .hash = from->hash,
                                  .seed.number = from->seed,
                                  .mark = from->secret};
    struct filter_build build = {.design = &design,
                                 .rule = &rule,
                                 .memory = DERIVE_MEMORY,
                                 .scratch_dir = scratch_dir,
                                 .threads = c->threads,
                                 .reproducible = c->reproducible};
    uint64_t records;
    bool ok = filter_build_begin(&build, err) && derive_put(&build, &c->in, &records, err) &&
              filter_build_write(&build, records, file, c->out, err);
    filter_build_free(&build);
    return ok;
}

/* Makes the file from a counted set. */
static bool derive(struct compact *c, struct newfile *file, struct err *err)
{
    char *dir = disk_dir_of(file->path);
    bool ok = derive_check(&c->in, err) && kind_compact()->check_fpr(c->p, err) &&
              filter_check_sound(&c->in, c->threads, err) &&
              (dir != NULL || fail(err, "out of memory")) && build_from_hashes(c, file, dir, err) &&
              newfile_commit(file, err);
    free(dir);
    return ok;
}

/* In order: a layer's offset depends on the lengths of those before it. */
static bool drop_columns(struct compact *c, int fd, struct err *err)
{
    struct target t = {.header = &c->header, .fd = fd, .name = c->out, .threads = c->threads};
    for (; t.layer < c->header.n_layers; t.layer++) {
        const struct layer *from = &c->in.header.layers[t.layer];
        if (!from->kind->write_dropped(&t, from, c->in.map + from->data_off, err))
            return false;
    }
    return true;
}

static bool write_file(struct compact *c, struct newfile *file, struct err *err)
{
    fill_header(c);
    /* The output is at most as long as the input; unused space is freed at the end. */
    return newfile_reserve(file, c->in.header.file_len, err) && drop_columns(c, file->fd, err) &&
           target_header(&c->header, file->fd, c->out, err) && newfile_commit(file, err);
}

static bool print_summary(const struct compact *c)
{
    struct json j = {.out = stdout};
    struct filter made;
    struct census census;
    struct err err;
    if (!filter_open(&made, c->out, FILTER_READ, &err))
        return say_failure(&err);
    filter_census_all(&made, c->threads, &census);
    summary_begin(&j, c->out, &made.header, census.fpr, census.n);
    filter_close(&made);
    json_key(&j, "bytes_before");
    json_uint(&j, c->in.header.file_len);
    summary_end(&j);
    return true;
}

/* FILTER may be OUT. Then writers stay locked out of it until the commit. */
static bool make_file(struct compact *c, struct newfile *file, struct err *err)
{
    if ((c->json && !output_is_apart(file->old_fd, c->out, err)) || !newfile_hold(file, err) ||
        !filter_open(&c->in, c->in_path, FILTER_READ, err))
        return false;
    if (!newfile_replaces(file, c->in.fd))
        newfile_let_go(file);
    return combine_counts(&c->in.header) ? derive(c, file, err)
                                         : check_input(c, err) && write_file(c, file, err);
}

static int compact(struct compact *c)
{
    struct newfile file;
    struct err err;
    bool ok = newfile_open(&file, c->out, c->force, &err);
    if (ok) {
        ok = make_file(c, &file, &err);
        newfile_close(&file);
    }
    if (!ok)
        say_failure(&err);
    else if (c->json)
        ok = print_summary(c);
    if (c->in.fd >= 0)
        filter_close(&c->in);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

static int run(int argc, char **argv)
{
    struct compact c = {.threads = parallel_cpus(), .in = {.fd = -1}};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_compact, argc, argv, &c))
        return p.status;
    if (c.p == 0)
        return opt_misuse(&cmd_compact, "no false-positive rate given (--fpr P)");
    c.in_path = argv[p.first];
    return compact(&c);
}

const struct command cmd_compact = {
    .name = "compact",
    .synopsis = "[OPTION]... --fpr P -o OUT FILTER",
    .summary = "make a compact filter smaller, at a higher false-positive rate",
    .details =
        "Makes OUT, which has the same keys as FILTER, but a smaller size and a higher "
        "false-positive rate. FILTER was made by 'seen create --compact', or by 'seen merge' from "
        "such filters; or it is a counted set that was made with --fpr 0. The keys are not needed.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .most = 1,
    .output = "OUT",
    .run = run,
};
