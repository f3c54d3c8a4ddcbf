/* seen import: makes a filter file from a filter of another program, in files or at an address. */
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/foreign_files.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/summary.h"
#include "cmd/warn.h"
#include "store/foreign.h"

struct import {
    const char *layout, *foreign, *out;
    bool is_file; /* FOREIGN is one, not an address */
    struct open_options open;
    uint64_t n;
    double p;
    bool force, reproducible, json;
    unsigned threads;
    struct keyopt keyopt;
    struct layout_spec spec;
    struct foreign_files files;
    char *dir; /* of `out`, for scratch */
    struct layout_bits bits[LAYOUT_LAYERS];
    struct layout_filter filter;
    struct newfile file;
    struct header header;
    struct census census;
};

#define FOR_FILES "is for files, since an address says what is there (URI?layout=SPEC)"

static const struct opt import_opts[] = {
    {0, "layout", "SPEC",
     "what FOREIGN is: NAME[:PARAM=VALUE,...], or 'auto' to tell it by its content; "
     "seen-layouts(7) describes the layouts",
     TEXT(struct import, layout), .not_with = " URI", .why = FOR_FILES},
    {'o', "output", "FILTER", "the filter file to make", TEXT(struct import, out)},
    {'n', "capacity", "N", "the number of keys that FOREIGN was made for", AMOUNT(struct import, n),
     .not_with = " URI", .why = FOR_FILES},
    {'p', "fpr", "P", "the false-positive rate that it was made for", FPR(struct import, p),
     .not_with = " URI", .why = FOR_FILES},
    {0, "force", NULL, "replace an existing FILTER, atomically", FLAG(struct import, force)},
    {0, "reproducible", NULL, "omit the times and the random file id",
     FLAG(struct import, reproducible)},
    {0, "json", NULL, "print a summary of what was made as JSON", FLAG(struct import, json)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct import, threads)},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", import_opts, 0, NULL},
    {"Key preparation, stored in the filter and applied by every later command", keyopt_prep_opts,
     offsetof(struct import, keyopt), keyopt_take},
    {"Filters in Redis", redisopt_connect, offsetof(struct import, open), NULL},
    {0},
};

/* Finds the one layout that fits the contents of FOREIGN, and sets im->spec to it. */
static bool recognize(struct import *im, struct err *err)
{
    const struct kind *kind, *found = NULL;
    for (unsigned i = 0; (kind = layout_number_of(i)) != NULL; i++) {
        struct foreign_files files;
        struct layout_spec spec;
        struct err ignored;
        const struct layout *layout = kind->layout;
        if (layout->recognize == NULL || !layout_parse(kind->name, &spec, &ignored))
            continue;
        bool fits = foreign_open(&files, im->foreign, &spec, UINT64_MAX, NULL, &ignored) &&
                    layout->recognize(&files.in);
        foreign_close(&files);
        if (fits && found != NULL)
            return fail(err, "'%s' may be of layout %s or %s: --layout says which", im->foreign,
                        found->name, kind->name);
        if (fits)
            found = kind;
    }
    if (found == NULL)
        return fail(err, "what '%s' is cannot be told by its content: give --layout", im->foreign);
    return layout_parse(found->name, &im->spec, err);
}

/* The most bytes that FOREIGN can have, if that follows from the layout alone. Rounded up: a bitmap
 * may be stored in whole words. */
static uint64_t most_bytes(const struct import *im)
{
    struct layout_filter filter;
    struct err ignored;
    const struct layout *layout = im->spec.kind->layout;
    if (!layout_is_sized(&im->spec, im->p) ||
        !layout->design(&im->spec, 1, im->p, &filter, &ignored))
        return UINT64_MAX;
    return (layout->file_len(&filter) + 7) / 8 * 8;
}

static bool read_foreign(struct import *im, struct err *err)
{
    struct err why;
    bool is_auto = strcmp(im->layout, "auto") == 0;
    if (is_auto && strcmp(im->foreign, "-") == 0)
        return fail(err, "standard input can be read only once: --layout auto needs a file");
    if (is_auto ? !recognize(im, err) : !layout_parse(im->layout, &im->spec, err))
        return false;
    im->spec.n = im->n;
    im->spec.p = im->p;
    const struct layout *layout = im->spec.kind->layout;
    if (!foreign_open(&im->files, im->foreign, &im->spec, most_bytes(im), im->dir, err))
        return false;
    if (!layout->read(&im->spec, &im->files.in, &im->filter, im->bits, &why))
        return fail(err, "cannot import '%s' as %s: %s", im->foreign, im->spec.kind->name,
                    why.text);
    for (unsigned i = 0; i < im->filter.n_layers; i++)
        if (!im->filter.layer[i].kind->check(&im->filter.layer[i], &why))
            return fail(err, "cannot import '%s' as %s: %s", im->foreign, im->spec.kind->name,
                        why.text);
    if (is_auto) {
        char spec[LAYOUT_TEXT];
        layout->show(&im->filter, spec, sizeof spec);
        say_note("'%s' is taken for %s", im->foreign, spec);
    }
    return true;
}

static bool write_filter(struct import *im, struct err *err)
{
    if (!foreign_rule(&im->filter, &im->keyopt.rule, err))
        return false;
    foreign_header(&im->filter, &im->keyopt.rule, im->reproducible, &im->header);
    return foreign_write(&im->header, &im->filter, im->bits, &im->file, im->out, im->threads,
                         &im->census, err) &&
           foreign_whole(&im->files, err) && newfile_commit(&im->file, err);
}

static void print_summary(const struct import *im)
{
    struct json j = {.out = stdout};
    char spec[LAYOUT_TEXT];
    im->filter.layer[0].kind->layout->show(&im->filter, spec, sizeof spec);
    summary_begin(&j, im->out, &im->header, im->census.fpr, im->census.n);
    json_key(&j, "layout");
    json_string(&j, spec);
    summary_end(&j);
}

static bool import(struct import *im)
{
    struct err err;
    if (!newfile_open(&im->file, im->out, im->force, &err))
        return say_failure(&err);
    im->dir = disk_dir_of(im->out);
    bool ok = (im->dir != NULL || fail(&err, "out of memory")) &&
              (!im->json || output_is_apart(im->file.old_fd, im->out, &err)) &&
              (im->is_file ? read_foreign(im, &err)
                           : store_pull(im->foreign, &im->open, &im->filter, im->bits, &err)) &&
              write_filter(im, &err);
    if (ok)
        warn_attached(&im->file, im->out);
    newfile_close(&im->file);
    foreign_close(&im->files);
    free(im->dir);
    for (unsigned i = 0; i < LAYOUT_LAYERS; i++)
        free(im->bits[i].owned);
    if (!ok)
        return sig_caught() == 0 && say_failure(&err);
    if (im->json)
        print_summary(im);
    return true;
}

static int run(int argc, char **argv)
{
    struct import im = {.keyopt = KEYOPT_DEFAULT, .threads = parallel_cpus()};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_import, argc, argv, &im))
        return p.status;
    im.foreign = argv[p.first];
    im.is_file = store_is_file(im.foreign);
    if (im.is_file && im.layout == NULL)
        return opt_misuse(&cmd_import, "--layout is missing: it says what FOREIGN is");
    if (!im.is_file)
        sig_catch();
    bool ok = import(&im);
    return ok ? EXIT_SELECTED : sig_caught() ? 128 + sig_caught() : EXIT_ERROR;
}

const struct command cmd_import = {
    .name = "import",
    .synopsis = "[OPTION]... [--layout SPEC] FOREIGN -o FILTER",
    .summary = "make a filter file from a filter of another program",
    .details =
        "Reads FOREIGN, a Bloom filter as another program stores it, and makes the filter file "
        "FILTER. The bits stay the same: query and add do what the other program does, and 'seen "
        "export' writes the filter back for it. FOREIGN is a file, or an address in Redis: "
        "redis://HOST/KEY?layout=SPEC or redis+unix:///SOCKET?key=KEY&layout=SPEC.",
    .groups = groups,
    .operand = "FOREIGN filter",
    .least = 1,
    .most = 1,
    .output = "FILTER",
    .run = run,
};
