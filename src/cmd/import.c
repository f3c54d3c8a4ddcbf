/* SPDX-License-Identifier: MIT */
/* seen import: makes a filter file from a filter of another program, in files or at an address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "base/err.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "foreign/files.h"
#include "file/design.h"
#include "write/assembly.h"

struct import {
    const char *layout; /* NULL: FOREIGN is an address */
    const char *foreign;
    struct open_options open;
    bool base64;
    uint64_t n;
    double p;
    struct keyopt keyopt;
    struct layout_spec spec;
    struct foreign_files files;
    char *dir; /* of `out`, for scratch */
    struct layout_bits bits[LAYOUT_LAYERS];
    struct layout_filter filter;
    struct assembly assembly; /* without inputs */
};

#define FOR_FILES "is for files, since an address says what is there (URI?layout=SPEC)"

static const struct opt import_opts[] = {
    {0, "layout", "SPEC",
     "the format of FOREIGN: NAME[:PARAM=VALUE,...], or 'auto' to recognise it by its content; "
     "seen-layouts(7) describes the formats",
     TEXT(struct import, layout), .not_with = " URI", .why = FOR_FILES},
    {0, "base64", NULL, "FOREIGN is base64, as a column of text has it",
     FLAG(struct import, base64), .not_with = " URI", .why = FOR_FILES},
    {'o', "output", "FILTER", "the filter file to make", TEXT(struct import, assembly.out)},
    {'n', "capacity", "N", "the number of keys that FOREIGN was made for", AMOUNT(struct import, n),
     .not_with = " URI", .why = FOR_FILES},
    {'p', "fpr", "P", "the false-positive rate that it was made for", FPR(struct import, p),
     .not_with = " URI", .why = FOR_FILES},
    {0, "force", NULL,
     "replace an existing FILTER atomically; import a bitmap even if its content contradicts SPEC",
     FLAG(struct import, assembly.replace)},
    {0, "reproducible", NULL, "leave out times and the random file id",
     FLAG(struct import, assembly.reproducible), .env = "SOURCE_DATE_EPOCH"},
    {0, "json", NULL, "print a summary as JSON", FLAG(struct import, assembly.prints)},
    THREADS(struct import, assembly.threads),
    {0},
};

static const struct opt_group groups[] = {
    {"Options", import_opts, 0, NULL},
    {"Key preparation, stored in the filter and applied by every later command", keyopt_prep_opts,
     offsetof(struct import, keyopt), keyopt_take},
    {"Filters in Redis", redisopt_connect, offsetof(struct import, open), NULL},
    {0},
};

static bool read_foreign(struct import *im, struct err *err)
{
    bool is_auto = strcmp(im->layout, "auto") == 0;
    if (is_auto && strcmp(im->foreign, "-") == 0)
        return fail(err, "standard input can be read only once: --layout auto needs a file");
    if (is_auto ? !foreign_recognize(im->foreign, im->base64, &im->spec, err)
                : !layout_parse(im->layout, &im->spec, err))
        return false;
    im->spec.n = im->n;
    im->spec.p = im->p;
    im->spec.base64 = im->base64;
    im->spec.forced = im->assembly.replace;
    if (!foreign_read(&im->files, im->foreign, &im->spec, im->dir, "import", &im->filter, im->bits,
                      err))
        return false;
    if (is_auto) {
        char spec[LAYOUT_TEXT];
        layout_show(&im->filter, spec, sizeof spec);
        warn_taken(im->foreign, spec);
    }
    return true;
}

static bool write_filter(struct import *im, struct err *err)
{
    struct assembly *m = &im->assembly;
    if (!header_take_rule(&im->filter, &im->keyopt.rule, err) ||
        !assembly_adopt(m, &im->filter, im->bits, &im->keyopt.rule, err))
        return false;
    return foreign_whole(&im->files, err) && assembly_commit(m, err);
}

static bool import(struct import *im)
{
    struct err err;
    struct assembly *m = &im->assembly;
    if (!assembly_begin(m, &err))
        return say_failure(&err);
    im->dir = disk_dir_of(m->out);
    bool ok =
        (im->dir != NULL || fail(&err, "out of memory")) &&
        (im->layout != NULL ? read_foreign(im, &err)
                            : store_pull(im->foreign, &im->open, &im->filter, im->bits, &err)) &&
        write_filter(im, &err);
    warn_attached(&m->file, m->out);
    foreign_close(&im->files);
    free(im->dir);
    for (unsigned i = 0; i < LAYOUT_LAYERS; i++)
        free(im->bits[i].owned);
    if (!ok)
        return sig_caught() == 0 && say_failure(&err);
    if (m->prints) {
        struct report r = REPORT_DEFAULT;
        char spec[LAYOUT_TEXT];
        layout_show(&im->filter, spec, sizeof spec);
        report_made(&r, m->out, &m->header, m->census.fpr, m->census.n);
        report_string(&r, NULL, "layout", RECORDED, spec);
        report_json(&r, stdout);
    }
    return true;
}

static int run(struct opt_parser *p)
{
    struct import im = {.keyopt = KEYOPT_DEFAULT};
    if (!opt_parse(p, &im))
        return p->status;
    im.foreign = p->operand[0];
    if (!p->address && im.layout == NULL)
        return opt_misuse(&cmd_import, "--layout is missing: it names the layout of FOREIGN; "
                                       "'--layout auto' recognises a file by its content");
    if (p->address)
        sig_catch();
    bool ok = import(&im);
    assembly_close(&im.assembly);
    return ok ? EXIT_SELECTED : sig_caught() ? 128 + sig_caught() : EXIT_ERROR;
}

const struct command cmd_import = {
    .name = "import",
    .synopsis = "[OPTION]... [--layout SPEC] FOREIGN -o FILTER",
    .summary = "make a filter file from a filter of another program",
    .examples = "  seen import --layout auto feed.bloom -o feed.seen          its content tells\n"
                "  seen import --layout guava ids.guava -o ids.seen           of the Java library\n"
                "  seen import --layout gozero:bits=20000 ids.bits -o g.seen  a bitmap\n",
    .details =
        "Reads FOREIGN, a Bloom filter as another program stores it, and makes the filter file "
        "FILTER. The bits stay the same: query and add work as in the other program, and 'seen "
        "export' writes the filter back for it. FOREIGN is a file, or an address in Redis: "
        "redis://HOST/KEY?layout=SPEC or redis+unix:///SOCKET?key=KEY&layout=SPEC.",
    .groups = groups,
    .everyday = " layout output capacity fpr force json trim ignore-case digest ",
    .operand = "FOREIGN filter",
    .least = 1,
    .most = 1,
    .output = "FILTER",
    .run = run,
};
