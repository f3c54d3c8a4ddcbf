/* seen pull: makes a filter file from a filter in Redis. */
#include <stdlib.h>

#include "base/parallel.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/redisopt.h"
#include "store/foreign.h"
#include "store/redis/redis.h"

struct pull {
    const char *from, *out;
    bool force, reproducible;
};

static const struct opt pull_opts[] = {
    {'o', "output", "FILTER", "the filter file to make", TEXT(struct pull, out)},
    {0, "force", NULL, "replace an existing FILTER, atomically", FLAG(struct pull, force)},
    {0, "reproducible", NULL, "store no time and no random file id",
     FLAG(struct pull, reproducible)},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", pull_opts, 0, NULL},
    {"Filters in Redis", redisopt_connect, 0, redisopt_take},
    {0},
};

static bool write_filter(const struct pull *pl, struct store *s, struct newfile *file,
                         struct err *err)
{
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    const struct key_rule rule = {0};
    struct header h;
    struct census census;
    bool ok = redis_pull(s, &filter, bits, err);
    if (ok) {
        foreign_header(&filter, &rule, pl->reproducible, &h);
        ok = foreign_write(&h, &filter, bits, file, pl->out, parallel_cpus(), &census, err) &&
             newfile_commit(file, err);
    }
    free(bits[0].owned);
    return ok;
}

static bool pull(const struct pull *pl, struct err *err)
{
    struct newfile file;
    struct store *s = redis_open(pl->from, STORE_READ, err);
    if (s == NULL)
        return false;
    bool ok = newfile_open(&file, pl->out, pl->force, err);
    if (ok) {
        ok = write_filter(pl, s, &file, err);
        newfile_close(&file);
    }
    store_close(s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct pull pl = {0};
    struct opt_parser p;
    struct err err;
    if (!opt_parse(&p, &cmd_pull, argc, argv, &pl))
        return p.status;
    pl.from = argv[p.first];
    if (store_is_file(pl.from))
        return opt_misuse(&cmd_pull, "'%s' is not an address in Redis", pl.from);
    sig_catch();
    if (pull(&pl, &err))
        return EXIT_SELECTED;
    if (sig_caught())
        return 128 + sig_caught();
    say_failure(&err);
    return EXIT_ERROR;
}

const struct command cmd_pull = {
    .name = "pull",
    .synopsis = "[OPTION]... URI -o FILTER",
    .summary = "make a filter file from a filter in Redis",
    .details = "Copies the filter at the address URI, redis://HOST/KEY?layout=SPEC or "
               "redis+unix:///SOCKET?key=KEY&layout=SPEC, into the filter file FILTER.",
    .groups = groups,
    .operand = "address in Redis",
    .least = 1,
    .most = 1,
    .output = "FILTER",
    .run = run,
};
