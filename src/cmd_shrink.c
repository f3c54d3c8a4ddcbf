/* seen shrink: folds a Bloom filter that was made for more keys than it got. */
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "bloom_build.h"
#include "bloom_size.h"
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
    {'p', "fpr", "P", "false-positive rate that the keys in it may have (default: FILTER's design rate)",
     false, 0},
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
    struct census census;
};

static bool parse_option(struct shrink *s, struct opt_parser *p, int id)
{
    int threads;
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
        if (!opt_int(p, 1, 1024, &threads))
            return false;
        s->threads = (unsigned)threads;
        return true;
    }
    return false;
}

/* The header of the filter that FILTER becomes with so many pages. */
static void fold_header(struct shrink *s, uint64_t pages)
{
    const struct header *from = &s->filter.header;
    const struct key_rule rule = {.seed = from->seed, .prep = from->prep};
    struct bloom bloom = bloom_of(&from->layers[0]);
    bloom.pages = pages;
    empty_header(&s->header, &rule);
    if (s->reproducible) {
        memset(s->header.id, 0, sizeof s->header.id);
        s->header.created = s->header.changed = 0;
    }
    uint64_t n = from->n_design;
    if (pages < from->layers[0].data_len / BLOOM_PAGE || n == 0)
        n = (uint64_t)bloom_n_at(&bloom, s->p);
    empty_fixed(&s->header, &bloom, n > 0 ? n : 1, s->p);
    s->header.counters = from->counters;
    format_place(&s->header);
}

static bool fold(struct shrink *s, struct err *err)
{
    const struct layer *layer = &s->filter.header.layers[0];
    const uint8_t *data = s->filter.map + layer->data_off;
    struct build_target target = {.header = &s->header,
                                  .layer = 0,
                                  .fd = s->file.fd,
                                  .name = s->out,
                                  .threads = s->threads};
    struct union_of parts = {1, &layer, &data, false};
    return newfile_reserve(&s->file, s->header.file_len, err) &&
           bloom_unite(&target, &parts, &s->census, err);
}

/* Folds into the fewest pages that keep the rate. By the design's formula most numbers of pages are out
 * of the question; the bits decide about the others. */
static bool fold_smallest(struct shrink *s, struct err *err)
{
    struct census now;
    struct bloom bloom = bloom_of(&s->filter.header.layers[0]);
    uint64_t all = bloom.pages;
    filter_census(&s->filter, 0, s->threads, &now);
    for (uint64_t pages = 1; pages <= all; pages++) {
        bloom.pages = pages;
        if (all % pages != 0 || (pages < all && bloom_fpr(&bloom, now.n) > 1.05 * s->p))
            continue;
        fold_header(s, pages);
        if (!fold(s, err))
            return false;
        if (s->census.fpr <= s->p)
            return true;
    }
    char fpr[NUM_TEXT], p[NUM_TEXT];
    return fail(err, "'%s' has a false-positive rate of %s already, more than %s", s->path,
                num_show_fpr(fpr, s->census.fpr), num_show_fpr(p, s->p));
}

static bool check_filter(struct shrink *s, struct err *err)
{
    uint64_t unchecked;
    const struct filter *f = &s->filter;
    if (f->header.n_layers != 1 || f->header.layers[0].kind != &kind_bloom)
        return fail(err, "'%s' is not one Bloom filter, so it cannot be folded", s->path);
    if (f->header.policy != POLICY_FIXED)
        return fail(err, "'%s' grows, so it is not folded", s->path);
    uint64_t damaged = filter_check_pages(f, s->threads, &unchecked, NULL, NULL);
    return damaged == 0 || fail(err, "'%s' is damaged in %llu pages; 'seen verify' names them", s->path,
                                (unsigned long long)damaged);
}

/* When FILTER replaces itself no key may be added between the reading of it and the rename. The lock is
 * that of the new file's descriptor of the old one, which keeps it until then. */
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
    uint8_t slot[FORMAT_MAX_HEADER];
    bool known = filter_health(&s->filter) == FILTER_CLEAN && !s->header.counters.unknown;
    if (!known) {
        s->header.counters.unknown = true;
        s->header.counters.n_keys = s->census.n;
    }
    size_t len = format_encode(&s->header, slot);
    return write_all_at(s->file.fd, slot, len, FORMAT_SLOT_A, s->out, err) &&
           write_all_at(s->file.fd, slot, len, FORMAT_SLOT_B, s->out, err) &&
           newfile_commit(&s->file, err);
}

static void report(const struct shrink *s)
{
    char from[NUM_TEXT], to[NUM_TEXT], fpr[NUM_TEXT];
    say_note("'%s': %s instead of %s, current false-positive rate %s", s->out,
             num_show_bytes(to, s->header.file_len), num_show_bytes(from, s->filter.header.file_len),
             num_show_fpr(fpr, s->census.fpr));
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
    bool ok = (!in_place || lock_in_place(s, err)) && check_filter(s, err) && fold_smallest(s, err) &&
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
        say_error("%s", err.text);
    if (s.filter.fd >= 0)
        filter_close(&s.filter);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_shrink = {
    .name = "shrink",
    .synopsis = "[OPTION]... FILTER",
    .summary = "fold a filter that has more room than it needs",
    .details = "Folds a Bloom FILTER into the fewest pages with which its keys keep the false-positive "
               "rate, without the keys: the result is, bit for bit, what adding them to a filter of that "
               "size would have made. --foldable in 'seen create' gives sizes that fold well.",
    .groups = groups,
    .run = run,
};
