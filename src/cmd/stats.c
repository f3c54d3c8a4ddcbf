/* seen stats: what is in a filter, how full it is, and its false-positive rate. */
#include <inttypes.h>
#include <stdio.h>

#include "base/num.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/figures.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "store/store.h"

struct stats {
    struct keyopt keyopt;
    struct open_options open;
    bool all, json, prometheus;
    struct metrics metrics; /* with `prometheus` */
};

static const struct opt own_opts[] = {
    {0, "all", NULL, "print everything that is known of each filter", FLAG(struct stats, all)},
    {0, "json", NULL, "print one JSON object for each filter, each on a line",
     FLAG(struct stats, json)},
    {0, "prometheus", NULL,
     "print metrics in the text format of Prometheus, for its textfile collector",
     FLAG(struct stats, prometheus), .not_with = " json"},
    {0, "secret", "FILE", "check that FILTER was made with this secret",
     TEXT(struct stats, keyopt.secret_path)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct stats, keyopt.threads)},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", own_opts, 0, NULL},
    {"Filters in Redis", redisopt_connect, offsetof(struct stats, open), NULL},
    {0},
};

static void report_all(struct stats *s, const struct findings *found)
{
    struct report r;
    if (s->prometheus) {
        report_begin_metrics(&r, &s->metrics);
        metrics_note(&s->metrics, "clean", found->health == FILTER_CLEAN);
    } else {
        report_begin(&r, s->json, stdout);
    }
    (s->all || s->json || s->prometheus ? figures_report : figures_brief)(&r, found);
    report_end(&r);
}

static void warn(const struct findings *found)
{
    const char *name = found->store->name;
    warn_unclean(found->store);
    if (found->damaged != 0)
        say_error("'%s' is damaged: %" PRIu64
                  " page%s not match the checksum, so figures from its bits "
                  "are unreliable; 'seen verify' names the pages",
                  name, found->damaged, found->damaged == 1 ? " does" : "s do");
    else if (!found->consistent)
        warn_disagreement(name, found->n_bits, found->header->counters.n_keys);
}

static bool stats_of(struct stats *s, const char *path)
{
    struct findings found;
    struct err err;
    struct store *store = store_open(path, STORE_READ, &s->open, &err);
    if (store == NULL)
        return say_failure(&err);
    bool ok = findings_gather(&found, store, &s->keyopt);
    if (ok) {
        if (s->prometheus)
            metrics_note(&s->metrics, "readable", true);
        report_all(s, &found);
        say_flush();
        warn(&found);
    }
    store_close(store);
    return ok && found.damaged == 0;
}

static bool stats_of_each(struct stats *s, char **names, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !s->json)
            putchar('\n');
        ok = stats_of(s, names[i]) && ok;
    }
    return ok;
}

static bool metrics_of_each(struct stats *s, char **names, size_t n)
{
    struct err err;
    struct metrics *m = &s->metrics;
    bool ok = metrics_begin(m, names, n, &err) || say_failure(&err);
    bool begun = ok;
    for (size_t i = 0; begun && i < n; i++) {
        metrics_next(m);
        metrics_note(m, "readable", false);
        ok = stats_of(s, names[i]) && ok;
    }
    if (begun)
        metrics_print(m, stdout);
    metrics_free(m);
    return ok;
}

static int run(int argc, char **argv)
{
    struct stats s = {.keyopt = KEYOPT_DEFAULT};
    struct opt_parser p;
    s.keyopt.threads = parallel_cpus();
    if (!opt_parse(&p, &cmd_stats, argc, argv, &s))
        return p.status;
    bool ok = (s.prometheus ? metrics_of_each : stats_of_each)(&s, argv + p.first,
                                                               (size_t)(argc - p.first));
    keyopt_free(&s.keyopt);
    return ok ? 0 : EXIT_ERROR;
}

const struct command cmd_stats = {
    .name = "stats",
    .synopsis = "[OPTION]... FILTER...",
    .summary = "report the contents and false-positive rate of a filter",
    .details =
        "Prints what a filter is, the number of distinct keys in it, estimated from its bits, how "
        "full it is, and its false-positive rate; with --all, everything. The design FPR was "
        "promised at design capacity, and the current "
        "FPR is computed from the present bits. Each figure is marked exact, estimated (with a 95 "
        "% interval in "
        "parentheses), or recorded in the file when it happened.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
