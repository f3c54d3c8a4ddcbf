#include "cmd/redisopt.h"

#include <limits.h>

#include "base/say.h"

enum { OPT_LIVE = 400, OPT_BULK, OPT_WAIT };

#define PASSWORD_FILE                                                                              \
    {                                                                                              \
        0, "password-file", "FILE",                                                                \
            "the password is the first line of FILE (default: REDISCLI_AUTH)",                     \
            TEXT(struct open_options, password_file), .needs = " URI"                              \
    }
#define LIVE                                                                                       \
    {                                                                                              \
        OPT_LIVE, "live", NULL, "send commands for each key (default: the cheaper way)", OWN,      \
            .needs = " URI", .not_with = " bulk"                                                   \
    }
#define BULK                                                                                       \
    {                                                                                              \
        OPT_BULK, "bulk", NULL, "move whole bitmaps: query a copy, or unite in one step", OWN,     \
            .needs = " URI"                                                                        \
    }
#define WAIT                                                                                       \
    {                                                                                              \
        OPT_WAIT, "wait", "N", "fail unless N replicas have what was written within 5 s", OWN,     \
            .needs = " URI"                                                                        \
    }

const struct opt redisopt_connect[] = {PASSWORD_FILE, {0}};
const struct opt redisopt_query[] = {LIVE, BULK, PASSWORD_FILE, {0}};
const struct opt redisopt_add[] = {LIVE, BULK, WAIT, PASSWORD_FILE, {0}};
const struct opt redisopt_push[] = {WAIT, PASSWORD_FILE, {0}};

static bool take_replicas(struct open_options *o, struct opt_parser *p)
{
    uint64_t n;
    if (!opt_count(p, &n) || !opt_positive(p, n))
        return false;
    if (n > INT_MAX) {
        opt_misuse(p->command, "option '%s': no server has so many replicas", p->name);
        return false;
    }
    o->replicas = (unsigned)n;
    return true;
}

bool redisopt_take(void *open_options, struct opt_parser *p, int id)
{
    struct open_options *o = open_options;
    if (id == OPT_WAIT)
        return take_replicas(o, p);
    o->way = id == OPT_LIVE ? STORE_LIVE : STORE_BULK;
    return true;
}

void redisopt_report(struct store *s)
{
    char text[200];
    if (store_tell_way(s, text, sizeof text))
        say_note("%s", text);
}
