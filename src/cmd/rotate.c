/* SPDX-License-Identifier: MIT */
/* seen rotate: a filter with generations forgets the oldest. */
#include "base/num.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/warn.h"
#include "write/advance.h"

struct options {
    bool verbose;
    struct rotation rotation;
};

static const struct opt rotate_opts[] = {
    {0, "verbose", NULL, "report on stderr about how many keys the generation had",
     FLAG(struct options, verbose)},
    {0, "now", NULL, "with --forget-after: as if the period of the newest generation had ended",
     FLAG(struct options, rotation.force)},
    THREADS(struct options, rotation.threads),
    {0},
};

static const struct opt_group groups[] = {{"Options", rotate_opts, 0, NULL}, {0}};

static int run(struct opt_parser *p)
{
    struct err err;
    struct options o = {0};
    char text[NUM_TEXT];
    if (!opt_parse(p, &o))
        return p->status;
    sig_catch();
    bool ok = advance_rotate(p->operand[0], &o.rotation, &err);
    if (!ok && sig_caught())
        return 128 + sig_caught();
    if (!ok)
        say_failure(&err);
    else if (o.rotation.clock != CLOCK_BELIEVED)
        warn_clock(o.rotation.clock, p->operand[0]);
    else if (o.rotation.early)
        say_note("'%s' rotates by itself, and it is not yet time: nothing was done (--now does it)",
                 p->operand[0]);
    else if (o.verbose)
        say_note("the generation that was emptied had about %s keys",
                 num_show_count(text, o.rotation.emptied));
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_rotate = {
    .name = "rotate",
    .synopsis = "[OPTION]... FILTER",
    .summary = "forget the oldest generation of a filter",
    .examples = "  seen create --generations 7 -n 1M --empty week.seen  keys of seven days\n"
                "  seen dedup week.seen log.txt                         what is new this week\n"
                "  seen rotate week.seen                                each day: forget a day\n",
    .details =
        "Forgets the oldest generation of a FILTER that was made with --generations, and begins a "
        "new one. A FILTER made with --forget-after does so by itself. Other processes may go on "
        "adding and querying.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .most = 1,
    .run = run,
};
