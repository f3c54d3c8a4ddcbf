/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/num.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/visible.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/warn.h"
#include "file/check.h"
#include "write/repair.h"

struct verify {
    bool repair, progress;
    unsigned threads;
};

static const struct opt verify_opts[] = {
    {0, "repair", NULL,
     "make a sound file of one that is dirty or has a few damaged pages, whose keys are then all "
     "reported present",
     FLAG(struct verify, repair)},
    THREADS(struct verify, threads),
    {0, "progress", NULL, "show progress even if stderr is not a terminal",
     FLAG(struct verify, progress)},
    {0},
};

static const struct opt_group groups[] = {{"Options", verify_opts, 0, NULL}, {0}};

static void print_path(const char *path)
{
    visible_print(stdout, path);
    fputs(": ", stdout);
}

static void report_damage(const char *path, const struct check *c)
{
    char more[60] = "";
    if (c->n > 1)
        snprintf(more, sizeof more, " (and %" PRIu64 " more place%s)", c->n - 1,
                 num_plural(c->n - 1));
    say_error("'%s' is damaged at offset %" PRIu64 ": %s%s", path, c->offset, c->text, more);
}

static void report_dirty(const char *path, const struct check *c)
{
    char pages[120] = "";
    if (c->n > 0)
        snprintf(pages, sizeof pages,
                 " %" PRIu64 " page%s not match, the first at offset %" PRIu64 ";", c->n,
                 c->n == 1 ? " does" : "s do", c->offset);
    say_error(
        "'%s' is dirty since a crash of the machine or a failed sync, or was copied while keys "
        "were added:%s --repair makes a sound file of it",
        path, pages);
}

static bool report_check(const char *path, const struct check *c)
{
    const char *s = num_plural(c->unchecked);
    if (c->repairable || c->n > 0) {
        (c->repairable ? report_dirty : report_damage)(path, c);
        return false;
    }
    print_path(path);
    if (c->unchecked == 0)
        puts("ok");
    else if (c->health == FILTER_WRITING)
        printf("ok, except %" PRIu64 " page%s being written\n", c->unchecked, s);
    else
        printf("ok, except %" PRIu64
               " page%s that a writer left, which the next writer or --repair "
               "puts in order\n",
               c->unchecked, s);
    if (c->disagree)
        warn_disagreement(path, c->n_bits, c->n_counted);
    return true;
}

static void report_repair(const struct repair *r)
{
    const char *what = NULL;
    char fpr[NUM_TEXT];
    if (r->was_left)
        what = "a process was killed, or the machine crashed, while keys were added; add the keys "
               "of that run again";
    else if (r->was_dirty)
        what = "the file was dirty; add the keys of the interrupted run again";
    else if (r->slot_was_damaged)
        what = "a damaged copy of the header";
    if (what != NULL) {
        print_path(r->path);
        printf("repaired: %s\n", what);
    }
    if (r->n_filled > 0) {
        print_path(r->path);
        printf("repaired: %" PRIu64 " of %" PRIu64 " pages were damaged; every key of such a page "
               "is now reported present, and the current FPR is %s\n",
               r->n_filled, r->n_pages, num_show_fpr(fpr, r->fpr));
    }
}

static bool repair(const struct verify *v, const char *path)
{
    struct repair r = {.path = path, .threads = v->threads};
    struct err err;
    progress_begin("repairing", v->progress, false);
    bool ok = repair_file(&r, &err);
    progress_end();
    if (ok)
        report_repair(&r);
    else
        keyopt_advise_list(path, &err);
    return ok || say_failure(&err);
}

static bool check(const struct verify *v, const char *path)
{
    struct check c = {.threads = v->threads};
    struct err err;
    if (!filter_open(&c.file, path, FILTER_READ, &err)) {
        keyopt_advise_list(path, &err);
        return say_failure(&err);
    }
    progress_begin("checking", v->progress, false);
    bool ok = check_all(&c, &err);
    progress_end();
    ok = ok ? report_check(path, &c) : say_failure(&err);
    filter_close(&c.file);
    return ok;
}

static int run(struct opt_parser *p)
{
    struct verify v = {0};
    bool ok = true;
    struct err err;
    if (!opt_parse(p, &v))
        return p->status;
    if (!output_is_none_of(p->operand, (size_t)p->n_operands, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    for (int i = 0; i < p->n_operands; i++)
        ok = (!v.repair || repair(&v, p->operand[i])) && check(&v, p->operand[i]) && ok;
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_verify = {
    .name = "verify",
    .synopsis = "[OPTION]... FILTER...",
    .summary = "check a filter file for damage, or repair it",
    .examples = "  seen verify urls.seen           is each byte as it was written?\n"
                "  seen verify *.seen              several files\n"
                "  seen verify --repair urls.seen  after a crash of the machine\n",
    .details = "Checks headers, lengths, checksums and counters of each FILTER, and says \"ok\" or "
               "names the first damage by its offset in the file and its meaning.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
