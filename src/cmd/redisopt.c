#include "cmd/redisopt.h"

#include "base/say.h"
#include "store/redis/redis.h"

enum { OPT_PASSWORD_FILE = REDISOPT_FIRST, OPT_LIVE, OPT_BULK };

static const char password_help[] =
    "the password is the first line of FILE (default: REDISCLI_AUTH)";

const struct opt redisopt_connect[] = {
    {OPT_PASSWORD_FILE, "password-file", "FILE", password_help, false, 0},
    {0},
};

const struct opt redisopt_opts[] = {
    {OPT_LIVE, "live", NULL, "send commands for each key (default: what is cheaper)", false, 0},
    {OPT_BULK, "bulk", NULL, "move whole bitmaps: ask a copy, or unite in one step", false, 0},
    {OPT_PASSWORD_FILE, "password-file", "FILE", password_help, false, 0},
    {0},
};

/* Two ways contradict each other. */
static bool take_way(struct opt_parser *p, enum redis_way way)
{
    static enum redis_way taken;
    if (taken != REDIS_AUTO && taken != way) {
        opt_misuse(p->command, "--live and --bulk exclude each other");
        return false;
    }
    taken = way;
    redis_use_way(way);
    return true;
}

bool redisopt_take(struct opt_parser *p, int id)
{
    switch (id) {
    case OPT_LIVE:
        return take_way(p, REDIS_LIVE);
    case OPT_BULK:
        return take_way(p, REDIS_BULK);
    default:
        redis_password_file(p->value);
        return true;
    }
}

void redisopt_report(struct store *s)
{
    char text[200];
    if (store_tell_way(s, text, sizeof text))
        say_note("%s", text);
}
