/* SPDX-License-Identifier: MIT */
/* seen export: writes a filter in the format of another program, to files or to an address. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/redisopt.h"
#include "cmd/warn.h"
#include "file/chain.h"
#include "foreign/foreign.h"
#include "write/make.h"
#include "store/store.h"

struct export
{
    const char *path, *out;
    bool force, pad;
    bool to_file; /* FOREIGN is not an address */
    struct store_push push;
    struct make make; /* its one input */
    unsigned n_files;
    struct newfile file[LAYOUT_FILES];
    char *name[LAYOUT_FILES];
    uint64_t len[LAYOUT_FILES];
};

static const struct opt export_opts[] = {
    {'o', "output", "FOREIGN", "the file to make, an address in Redis, or - for standard output",
     TEXT(struct export, out)},
    {0, "pad", NULL, "also write the zero bytes at the end of a bitmap", FLAG(struct export, pad),
     .not_with = " URI", .why = "is for files"},
    {0, "force", NULL, "replace an existing FOREIGN atomically", FLAG(struct export, force),
     .not_with = " URI", .why = "is for files"},
    {0},
};

static const struct opt push_opts[] = {
    {0, "merge", NULL, "add the filter's keys to those that are there",
     FLAG(struct export, push.merge), .needs = " URI"},
    {0, "expire", "SECONDS",
     "let the filter expire after SECONDS (default: as the one that is there)",
     AMOUNT(struct export, push.expire), .needs = " URI"},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", export_opts, 0, NULL},
    {"Filters in Redis", push_opts, 0, NULL},
    {"Connection to Redis", redisopt_write, offsetof(struct export, push.open), redisopt_take},
    {0},
};

static bool to_file(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct export *e = ctx;
    uint64_t at = e->len[file];
    e->len[file] += len;
    return disk_write(e->file[file].fd, data, len, at, e->name[file], err);
}

static bool to_stdout(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    (void)ctx, (void)file;
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, at, len);
        if (n < 0 && errno != EINTR)
            return fail_errno(err, "cannot write standard output");
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool open_foreign(struct export *e, const char *suffix, struct err *err)
{
    unsigned i = e->n_files;
    size_t len = strlen(e->out) + strlen(suffix) + 1;
    char *name = malloc(len);
    if (name == NULL)
        return fail(err, "out of memory");
    snprintf(name, len, "%s%s", e->out, suffix);
    if (!newfile_open_foreign(&e->file[i], name, e->force, err)) {
        free(name);
        return false;
    }
    e->name[i] = name;
    e->n_files++;
    return true;
}

static bool open_files(struct export *e, const struct layout *layout, struct err *err)
{
    if (layout->suffix[0] == NULL)
        return open_foreign(e, "", err);
    for (unsigned i = 0; i < LAYOUT_FILES && layout->suffix[i] != NULL; i++)
        if (!open_foreign(e, layout->suffix[i], err))
            return false;
    return true;
}

/* Commits the last file first. The first file describes the others, so it must appear last. */
static bool commit_files(struct export *e, struct err *err)
{
    for (unsigned i = e->n_files; i-- > 0;)
        if (!newfile_commit(&e->file[i], err))
            return false;
    return true;
}

static bool write_foreign(struct export *e, const struct layout_filter *filter,
                          const uint8_t *const *data, struct err *err)
{
    const struct layout *layout = filter->layer[0].kind->layout;
    struct err why;
    bool is_stdout = strcmp(e->out, "-") == 0;
    struct layout_sink sink = {
        .write = is_stdout ? to_stdout : to_file, .ctx = e, .name = e->out, .pad = e->pad};
    if (is_stdout && layout->suffix[0] != NULL)
        return fail(err, "layout %s has two files, which cannot go to standard output",
                    filter->layer[0].kind->name);
    if (!is_stdout && !open_files(e, layout, err))
        return false;
    if (!layout->write(filter, data, &sink, &why))
        return fail(err, "'%s' cannot be exported: %s", e->path, why.text);
    return make_check_intact(&e->make, err) && (is_stdout || commit_files(e, err));
}

/* Some layouts store the number of keys in the newest layer. While keys are being added, and after
 * a crash, the counter in the header is too low, so the keys are recounted from the bits. */
static void count_newest(const struct export *e, struct header *h)
{
    const struct layers layers = filter_layers(&e->make.in[0]);
    if (filter_health(&e->make.in[0]) == FILTER_CLEAN || !chain_is_exact(h))
        return;
    chain_recount(&layers, 1, &h->counters);
    say_warning("'%s': the number of its keys is an estimate, from its bits", e->path);
}

static bool export(struct export *e, struct err *err)
{
    struct layout_filter filter;
    const uint8_t *data[LAYOUT_LAYERS];
    struct err why;
    struct header h = e->make.in[0].header;
    if (!foreign_filter(&h, &filter, &why))
        return fail(err,
                    "'%s' %s, so it cannot be exported; 'seen create --layout' makes one that can "
                    "be, from the keys",
                    e->path, why.text);
    if (!make_check_sound(&e->make, err))
        return false;
    count_newest(e, &h);
    filter.n_added = h.counters.keys_added;
    for (unsigned i = 0; i < filter.n_layers; i++)
        data[i] = e->make.in[0].data[i];
    return e->to_file ? write_foreign(e, &filter, data, err)
                      : store_push(e->out, &filter, data, &e->push, err) &&
                            make_check_intact(&e->make, err);
}

static int run(int argc, char **argv)
{
    struct export e = {.make.threads = 1};
    struct opt_parser p;
    struct err err;
    if (!opt_parse(&p, &cmd_export, argc, argv, &e))
        return p.status;
    e.path = argv[p.first];
    e.to_file = !p.address;
    if (e.push.expire > STORE_MAX_EXPIRE)
        return opt_misuse(&cmd_export, "option '--expire': that is too long");
    if (p.address)
        sig_catch();
    bool ok = warn_inputs(&e.make, make_open_one(&e.make, e.path, &err)) && export(&e, &err);
    make_close(&e.make);
    for (unsigned i = 0; i < e.n_files; i++)
        newfile_close(&e.file[i]);
    for (unsigned i = 0; i < LAYOUT_FILES; i++)
        free(e.name[i]);
    if (!ok && sig_caught())
        return 128 + sig_caught();
    return ok || say_failure(&err) ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_export = {
    .name = "export",
    .synopsis = "[OPTION]... FILTER -o FOREIGN",
    .summary = "write a filter in the format of another program",
    .details =
        "Writes FILTER in the format of the program that its layout is named after. FILTER was "
        "made by 'seen import', or by 'seen create --layout'. At an address in Redis, "
        "redis://HOST/KEY or redis+unix:///SOCKET?key=KEY, it replaces what is there in one step.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .most = 1,
    .output = "FOREIGN",
    .run = run,
};
