/* seen push: writes a filter to Redis. */
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/redisopt.h"
#include "cmd/warn.h"
#include "store/filter.h"
#include "store/foreign.h"
#include "store/redis/redis.h"

static const struct opt push_opts[] = {
    {0, "merge", NULL, "add the filter's keys to those that are there",
     FLAG(struct redis_push, merge)},
    {0, "expire", "SECONDS",
     "how long the filter is to live (default: as long as the one that is there)",
     AMOUNT(struct redis_push, expire)},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", push_opts, 0, NULL},
    {"Filters in Redis", redisopt_push, 0, redisopt_take},
    {0},
};

static bool push_filter(struct filter *f, const char *to, const struct redis_push *options,
                        struct err *err)
{
    struct layout_filter filter;
    const uint8_t *data[FORMAT_MAX_LAYERS];
    struct err why;
    warn_unclean_file(f);
    if (!foreign_filter(&f->header, &filter, &why))
        return fail(err, "'%s' %s, so it cannot be pushed", f->path, why.text);
    for (unsigned i = 0; i < filter.n_layers; i++)
        data[i] = f->data[i];
    return filter_check_sound(f, 1, err) && redis_push(to, &filter, data, options, err);
}

static int run(int argc, char **argv)
{
    struct redis_push options = {0};
    struct filter f;
    struct opt_parser p;
    struct err err;
    if (!opt_parse(&p, &cmd_push, argc, argv, &options))
        return p.status;
    if (options.expire > REDIS_MAX_EXPIRE)
        return opt_misuse(&cmd_push, "option '--expire': no filter lives that long");
    const char *to = argv[p.first + 1];
    if (store_is_file(to))
        return opt_misuse(&cmd_push, "'%s' is not an address in Redis", to);
    if (!filter_open(&f, argv[p.first], FILTER_READ, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    sig_catch();
    bool ok = push_filter(&f, to, &options, &err);
    filter_close(&f);
    if (ok)
        return EXIT_SELECTED;
    if (sig_caught())
        return 128 + sig_caught();
    say_failure(&err);
    return EXIT_ERROR;
}

const struct command cmd_push = {
    .name = "push",
    .synopsis = "[OPTION]... FILTER URI",
    .summary = "write a filter to Redis",
    .details =
        "Writes FILTER, which is of a layout that other programs keep in Redis, to the address "
        "URI, redis://HOST/KEY or redis+unix:///SOCKET?key=KEY. It takes the place of what is "
        "there in one step.",
    .groups = groups,
    .operand = "FILTER and one address in Redis",
    .least = 2,
    .most = 2,
    .run = run,
};
