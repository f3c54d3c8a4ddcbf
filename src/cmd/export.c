/* SPDX-License-Identifier: MIT */
/* seen export: writes a filter in the format of another program, to files or to an address. */
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/redisopt.h"
#include "cmd/warn.h"
#include "file/chain.h"
#include "foreign/files.h"
#include "foreign/foreign.h"
#include "write/assembly.h"
#include "store/store.h"

struct export
{
    const char *path, *out;
    bool force, pad;
    bool to_file; /* FOREIGN is not an address */
    struct store_push push;
    struct assembly assembly; /* its one input */
    struct foreign_output output;
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
     "let the filter expire after SECONDS (default: the time that it has left)",
     AMOUNT(struct export, push.expire), .needs = " URI"},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", export_opts, 0, NULL},
    {"Filters in Redis", push_opts, 0, NULL},
    {"Connection to Redis", redisopt_write, offsetof(struct export, push.open), NULL},
    {0},
};

static bool write_foreign(struct export *e, const struct layout_filter *filter,
                          const uint8_t *const *data, struct err *err)
{
    struct err why;
    struct foreign_output *to = &e->output;
    if (!foreign_create(to, e->out, filter->layer[0].kind, e->force, err))
        return false;
    to->sink.pad = e->pad;
    if (!filter->layer[0].kind->layout->write(filter, data, &to->sink, &why))
        return fail(err, "'%s' cannot be exported: %s", e->path, why.text);
    return assembly_check_intact(&e->assembly, err) && foreign_commit(to, err);
}

static bool export(struct export *e, struct err *err)
{
    struct layout_filter filter;
    const uint8_t *data[LAYOUT_LAYERS];
    struct err why;
    struct header h = e->assembly.in[0].header;
    if (!foreign_filter(&h, &filter, &why))
        return fail(err,
                    "'%s' %s, so it cannot be exported; 'seen create --layout' makes one that can "
                    "be, from the keys",
                    e->path, why.text);
    if (!assembly_check_sound(&e->assembly, err))
        return false;
    /* Some layouts store the number of keys in the newest layer. While keys are being added, and
     * after a crash, the counter in the header is too low. */
    if (filter_health(&e->assembly.in[0]) != FILTER_CLEAN && chain_is_exact(&h)) {
        chain_recount(filter_layers(&e->assembly.in[0]), 1, &h.counters);
        say_warning("'%s': the number of its keys is an estimate, from its bits", e->path);
    }
    filter.n_added = h.counters.keys_added;
    for (unsigned i = 0; i < filter.n_layers; i++)
        data[i] = e->assembly.in[0].data[i];
    return e->to_file ? write_foreign(e, &filter, data, err)
                      : store_push(e->out, &filter, data, &e->push, err) &&
                            assembly_check_intact(&e->assembly, err);
}

static int run(struct opt_parser *p)
{
    struct export e = {.assembly.threads = 1};
    struct err err;
    if (!opt_parse(p, &e))
        return p->status;
    e.path = p->operand[0];
    e.to_file = !p->address;
    if (e.push.expire > STORE_MAX_EXPIRE)
        return opt_misuse(&cmd_export, "option '--expire': that is too long");
    if (p->address)
        sig_catch();
    bool ok = warn_inputs(&e.assembly, assembly_inputs(&e.assembly, &e.path, 1, "", &err)) &&
              export(&e, &err);
    assembly_close(&e.assembly);
    foreign_end(&e.output);
    if (!ok && sig_caught())
        return 128 + sig_caught();
    return ok || say_failure(&err) ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_export = {
    .name = "export",
    .synopsis = "[OPTION]... FILTER -o FOREIGN",
    .summary = "write a filter in the format of another program",
    .examples = "  seen export feed.seen -o feed.new            what the other program reads\n"
                "  seen export --force feed.seen -o feed.bloom  in place of an old one\n"
                "  seen export --pad bitmap.seen -o ids.bits    with the zeroes at its end\n",
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
