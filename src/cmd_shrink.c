/* seen shrink: folds Bloom layers that were made for more keys than they got. */
#include <math.h>
#include <sys/stat.h>

#include "bloom_build.h"
#include "bloom_size.h"
#include "build.h"
#include "cmd.h"
#include "empty.h"
#include "filter.h"
#include "keyarg.h"
#include "newfile.h"
#include "num.h"
#include "parallel.h"
#include "say.h"
#include "session.h"

enum { OPT_FORCE = 400, OPT_REPRODUCIBLE, OPT_VERBOSE };

static const struct opt shrink_opts[] = {
    {'o', "output", "OUT", "the file to make (default: FILTER itself is replaced)", false, 0},
    {'p', "fpr", "P",
     "false-positive rate that the keys in it may have (default: FILTER's design rate)", false, 0},
    {OPT_FORCE, "force", NULL, "replace an existing OUT", false, 0},
    {OPT_REPRODUCIBLE, "reproducible", NULL, "leave out times and the random file id", false, 0},
    {OPT_VERBOSE, "verbose", NULL, "say on stderr what came of it", false, 0},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)", false, 0},
    {0},
};

static const struct opt_group groups[] = {{"Options", shrink_opts}, {0}};

struct shrink {
    const char *path, *out;
    double p;
    bool force, reproducible, verbose;
    unsigned threads;
    struct filter filter;
    struct newfile file;
    struct header header; /* of the new file */
    double fpr, n;        /* of it, by its bits */
    struct {
        double n;       /* distinct keys in FILTER's */
        uint64_t pages; /* of the folded one */
        double fpr;
    } layer[FORMAT_MAX_LAYERS];
};

static bool parse_option(struct shrink *s, struct opt_parser *p, int id)
{
    switch (id) {
    case 'o':
        s->out = p->value;
        return true;
    case 'p':
        return opt_fpr(p, &s->p);
    case OPT_FORCE:
        return s->force = true;
    case OPT_REPRODUCIBLE:
        return s->reproducible = true;
    case OPT_VERBOSE:
        return s->verbose = true;
    case 'j':
        return opt_threads(p, &s->threads);
    }
    return false;
}

/* The part of the rate that is layer i's. */
static double share(const struct shrink *s, unsigned i)
{
    const struct header *h = &s->filter.header;
    return format_rate(h->layers[i].fpr_design * s->p / h->fpr_design);
}

static bool folds(const struct shrink *s, unsigned i)
{
    return s->filter.header.layers[i].kind == &kind_bloom;
}

/* The fewest pages from `least` on into which layer i can be folded and, by the design's formula,
 * may keep its rate. The bits decide; they differ from the formula by some per cent at most. */
static uint64_t next_fold(const struct shrink *s, unsigned i, uint64_t least)
{
    struct bloom bloom = bloom_of(&s->filter.header.layers[i]);
    uint64_t all = bloom.pages;
    for (bloom.pages = least; bloom.pages < all; bloom.pages++)
        if (all % bloom.pages == 0 && bloom_fpr(&bloom, s->layer[i].n) <= 1.05 * share(s, i))
            break;
    return bloom.pages;
}

/* The header of the new file, with the layers folded as they are to be. */
static void make_header(struct shrink *s)
{
    const struct header *from = &s->filter.header;
    const struct key_rule rule = {.seed = from->seed, .prep = from->prep};
    struct header *h = &s->header;
    empty_header(h, &rule);
    build_stamp(h, s->reproducible);
    h->policy = from->policy;
    h->fpr_design = s->p;
    h->counters = from->counters;
    h->n_layers = from->n_layers;
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        *layer = from->layers[i];
        if (s->reproducible)
            layer->since = 0;
        if (folds(s, i)) {
            struct bloom bloom = bloom_of(layer);
            bloom.pages = s->layer[i].pages;
            bloom_to(&bloom, layer);
            layer->fpr_design = share(s, i);
            if (layer->data_len < from->layers[i].data_len || layer->n_design == 0)
                layer->n_design = (uint64_t)fmax(1, bloom_n_at(&bloom, layer->fpr_design));
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
    struct build_target target = {.header = &s->header,
                                  .layer = i,
                                  .fd = s->file.fd,
                                  .name = s->out,
                                  .threads = s->threads};
    struct union_of parts = {1, &from, &data, false};
    if (folds(s, i)) {
        if (!bloom_unite(&target, &parts, &census, err))
            return false;
    } else {
        if (!build_copy(&target, data, err))
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

/* Gives more pages to layers that have too few. False: there are none. */
static bool correct_folds(struct shrink *s)
{
    bool any = false;
    for (unsigned i = 0; i < s->header.n_layers; i++) {
        uint64_t pages = s->layer[i].pages;
        if (!folds(s, i) || s->layer[i].fpr <= share(s, i))
            continue;
        if (pages < bloom_of(&s->filter.header.layers[i]).pages)
            s->layer[i].pages = next_fold(s, i, pages + 1);
        any |= s->layer[i].pages > pages;
    }
    return any;
}

/* Folds each layer into the fewest pages with which it keeps its part of the rate, and leaves it as
 * it is where there are none. */
static bool fold(struct shrink *s, struct err *err)
{
    char fpr[NUM_TEXT], p[NUM_TEXT];
    struct header *h = &s->header;
    for (unsigned i = 0; i < s->filter.header.n_layers; i++)
        if (folds(s, i)) {
            struct census census;
            filter_census(&s->filter, i, s->threads, &census);
            s->layer[i].n = census.n;
            s->layer[i].pages = next_fold(s, i, 1);
        }
    do
        if (!write_layers(s, err))
            return false;
    while (correct_folds(s));
    for (unsigned i = 0; i < h->n_layers; i++)
        if (h->layers[i].fpr_closed > 0 &&
            h->layers[i].data_len < s->filter.header.layers[i].data_len)
            h->layers[i].fpr_closed = s->layer[i].fpr;
    return s->fpr <= s->p ||
           fail(err, "'%s' has a false-positive rate of %s already, more than %s", s->path,
                num_show_fpr(fpr, s->fpr), num_show_fpr(p, s->p));
}

static bool check_filter(struct shrink *s, struct err *err)
{
    const struct filter *f = &s->filter;
    bool any = false;
    for (unsigned i = 0; i < f->header.n_layers; i++)
        any |= f->header.layers[i].kind == &kind_bloom;
    if (!any)
        return fail(err, "'%s' is not a Bloom filter, so it cannot be folded", s->path);
    if (f->header.policy == POLICY_RING)
        return fail(err, "'%s' has generations, which stay as large as they are", s->path);
    return filter_check_sound(f, s->threads, err);
}

/* When FILTER replaces itself no key may be added between the reading of it and the rename. The
 * lock is that of the new file's descriptor of the old one, which keeps it until then. */
static bool lock_in_place(struct shrink *s, struct err *err)
{
    struct stat old, open;
    if (s->file.old_fd < 0 || !session_lock_fd(s->file.old_fd))
        return fail_errno(err, "cannot lock '%s'", s->path);
    if (fstat(s->file.old_fd, &old) != 0 || fstat(s->filter.fd, &open) != 0)
        return fail_errno(err, "cannot look at '%s'", s->path);
    if (old.st_dev != open.st_dev || old.st_ino != open.st_ino)
        return fail(err, "'%s' was replaced meanwhile", s->path);
    return filter_reload(&s->filter, err);
}

static bool write_file(struct shrink *s, struct err *err)
{
    bool known = filter_health(&s->filter) == FILTER_CLEAN && !s->header.counters.unknown;
    if (!known) {
        s->header.counters.unknown = true;
        s->header.counters.n_keys = s->n;
    }
    return build_header(&s->header, s->file.fd, s->out, err) && newfile_commit(&s->file, err);
}

static void report(const struct shrink *s)
{
    char from[NUM_TEXT], to[NUM_TEXT], fpr[NUM_TEXT];
    say_note("'%s': %s instead of %s, current false-positive rate %s", s->out,
             num_show_bytes(to, s->header.file_len),
             num_show_bytes(from, s->filter.header.file_len), num_show_fpr(fpr, s->fpr));
}

static bool shrink(struct shrink *s, struct err *err)
{
    bool in_place = s->out == NULL;
    if (in_place)
        s->out = s->path;
    if (!filter_open(&s->filter, s->path, FILTER_READ, err))
        return false;
    keyarg_warn(&s->filter);
    if (s->p == 0)
        s->p = s->filter.header.fpr_design;
    if (!newfile_open(&s->file, s->out, in_place || s->force, err))
        return false;
    bool ok = (!in_place || lock_in_place(s, err)) && check_filter(s, err) && fold(s, err) &&
              write_file(s, err);
    newfile_close(&s->file);
    if (ok && s->verbose)
        report(s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct shrink s = {.threads = parallel_cpus(), .filter = {.fd = -1}};
    struct opt_parser p;
    struct err err;
    int id;
    opt_begin(&p, &cmd_shrink, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(&s, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (p.first == argc)
        return opt_misuse(&cmd_shrink, "no FILTER given");
    if (p.first + 1 < argc)
        return opt_misuse(&cmd_shrink, "more than one FILTER given");
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
    .synopsis = "[OPTION]... FILTER",
    .summary = "fold a filter that has more room than it needs",
    .details =
        "Folds a Bloom FILTER, or each Bloom layer of one that grew or was merged, into the "
        "fewest pages with which its keys keep the false-positive rate, without the keys: the "
        "result is, bit for bit, what adding them to a filter of that size would have made. "
        "--foldable in 'seen create' gives sizes that fold well.",
    .groups = groups,
    .run = run,
};
