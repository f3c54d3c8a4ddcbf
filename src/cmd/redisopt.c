#include "cmd/redisopt.h"

#include <limits.h>

#include "base/say.h"
#include "store/redis/redis.h"

enum { OPT_PASSWORD_FILE = 400, OPT_LIVE, OPT_BULK, OPT_WAIT };

#define PASSWORD_FILE                                                                              \
    {                                                                                              \
        OPT_PASSWORD_FILE, "password-file", "FILE",                                                \
            "the password is the first line of FILE (default: REDISCLI_AUTH)", OWN                 \
    }
#define LIVE                                                                                       \
    {                                                                                              \
        OPT_LIVE, "live", NULL, "send commands for each key (default: the cheaper way)", OWN       \
    }
#define BULK                                                                                       \
    {                                                                                              \
        OPT_BULK, "bulk", NULL, "move whole bitmaps: query a copy, or unite in one step", OWN      \
    }
#define WAIT                                                                                       \
    {                                                                                              \
        OPT_WAIT, "wait", "N", "fail unless N replicas have what was written within 5 s", OWN      \
    }

const struct opt redisopt_connect[] = {PASSWORD_FILE, {0}};
const struct opt redisopt_query[] = {LIVE, BULK, PASSWORD_FILE, {0}};
const struct opt redisopt_add[] = {LIVE, BULK, WAIT, PASSWORD_FILE, {0}};
const struct opt redisopt_push[] = {WAIT, PASSWORD_FILE, {0}};

/* Only one of --live and --bulk may be given. */
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

static bool take_replicas(struct opt_parser *p)
{
    uint64_t n;
    if (!opt_count(p, &n) || !opt_positive(p, n))
        return false;
    if (n > INT_MAX) {
        opt_misuse(p->command, "option '%s': no server has so many replicas", p->name);
        return false;
    }
    redis_use_replicas((unsigned)n);
    return true;
}

bool redisopt_take(void *ignored, struct opt_parser *p, int id)
{
    (void)ignored;
    switch (id) {
    case OPT_LIVE:
        return take_way(p, REDIS_LIVE);
    case OPT_BULK:
        return take_way(p, REDIS_BULK);
    case OPT_WAIT:
        return take_replicas(p);
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
