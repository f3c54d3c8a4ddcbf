/* seen plan: what a filter would cost. */
#include "base/say.h"
#include "cmd/cmd.h"
#include "store/plan.h"

enum { OPT_JSON = 256 };

static const struct opt plan_opts[] = {
    {'n', "capacity", "N", "distinct keys to make room for: 1000, 250k, 1e9", false, 0},
    {'p', "fpr", "P",
     "probability that an absent key is taken for present: 0.001 (default), 1e-6, "
     "1/1000, 0.1%",
     false, 0},
    {'s', "size", "BYTES",
     "bytes that the file may take: 512K, 64M, 2G (powers of 1024); gives "
     "whichever of -n and -p is missing",
     false, 0},
    {OPT_JSON, "json", NULL, "print one JSON object instead of a table", false, 0},
    {0},
};

static const struct opt_group plan_groups[] = {{"Options", plan_opts}, {0}};

static int run(int argc, char **argv)
{
    struct opt_parser p;
    struct plan plan = {0};
    struct err err;
    bool json = false, has_n = false, has_size = false;
    int id;
    opt_begin(&p, &cmd_plan, argc, argv);
    while ((id = opt_next(&p)) > 0) {
        bool ok = true;
        switch (id) {
        case 'n':
            has_n = true;
            ok = opt_count(&p, &plan.n);
            break;
        case 'p':
            ok = opt_fpr(&p, &plan.p);
            break;
        case 's':
            has_size = true;
            ok = opt_bytes(&p, &plan.size);
            break;
        case OPT_JSON:
            json = true;
            break;
        }
        if (!ok)
            return EXIT_ERROR;
    }
    if (id < 0)
        return p.status;
    if (p.first < argc)
        return opt_misuse(&cmd_plan, "'%s' is too much: plan reads no files", argv[p.first]);
    if (!has_n && !has_size)
        return opt_misuse(&cmd_plan, "give a capacity (-n) or a size (-s)");
    if (has_n && plan.n == 0)
        return opt_misuse(&cmd_plan, "a capacity of 0 keys makes no filter");
    if (has_size && plan.size == 0)
        return opt_misuse(&cmd_plan, "a size of 0 bytes makes no filter");
    if (!plan_solve(&plan, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    plan_show(&plan, json, stdout);
    return 0;
}

const struct command cmd_plan = {
    .name = "plan",
    .synopsis = "[OPTION]...",
    .summary = "sizes and costs, before anything is written",
    .details =
        "Prints what a filter for N distinct keys at false positive rate P takes: the size of "
        "its file, bits per key, the number of probes k, the cache lines that a query touches "
        "and the memory to build it. Nothing is read or written.",
    .groups = plan_groups,
    .run = run,
};
