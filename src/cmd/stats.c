/* seen stats: what is in a filter, how full it is, and its false-positive rate. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/figures.h"
#include "cmd/findings.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "store/store.h"

struct stats {
    struct wanted wanted;
    bool json, prometheus;
    struct metrics metrics; /* with `prometheus` */
};

static const struct opt own_opts[] = {
    {0, "json", NULL, "print one JSON object for each filter, each on a line",
     FLAG(struct stats, json)},
    {0, "prometheus", NULL,
     "print metrics in the text format of Prometheus, for its textfile collector",
     FLAG(struct stats, prometheus)},
    {0, "measure", "N",
     "query N random keys, and report the measured false-positive rate beside "
     "the computed one",
     AMOUNT(struct stats, wanted.measure)},
    {0, "negatives", "FILE",
     "the same with keys from FILE (- is standard input) that were "
     "never added",
     TEXT(struct stats, wanted.negatives)},
    {0, "secret", "FILE",
     "check that FILTER was made with this secret, and query with it (default: the file that "
     "SEEN_SECRET names)",
     TEXT(struct stats, wanted.keyopt.secret_path)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct stats, wanted.keyopt.threads)},
    {0},
};

static const struct opt negatives_opts[] = {
    {'0', "null", NULL, "records end with a NUL byte instead of a newline", OWN},
    {'z', NULL, NULL, NULL, ALIAS('0')},
    {'d', "delimiter", "C", "with -f: fields end with this one byte (default: TAB)", OWN},
    {'w', "whitespace", NULL, "with -f: runs of blanks and tabs part fields",
     FLAG(struct keyopt, rule.whitespace)},
    {'f', "field", "N[,N]...",
     "the key is field N of the record, the first is 1, the last is -1; of several, in this order, "
     "with the delimiter between them, or a blank with -w",
     OWN},
    {0, "header", "N", "the first N records are no keys", COUNT(struct keyopt, header)},
    {0, "crlf", NULL, "drop one CR before each newline", FLAG(struct keyopt, rule.crlf)},
    {0, "digested", NULL, "the key is its digest already, in hexadecimal digits",
     FLAG(struct keyopt, rule.digested)},
    {0, "skip-bad", NULL, "skip records that have no key", FLAG(struct keyopt, rule.skip_bad)},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", own_opts, 0, NULL},
    {"How to read FILE (key preparation is taken from the filter)", negatives_opts,
     offsetof(struct stats, wanted.keyopt), keyopt_take},
    {"Filters in Redis", redisopt_connect, 0, redisopt_take},
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
    figures_report(&r, found);
    report_end(&r);
}

/* A probability below this causes a warning. Filters whose keys nobody chose cause a false warning
 * at about this rate. */
static const double ALARM = 1e-6;

static void warn(const struct findings *found)
{
    const char *name = found->store->name;
    char bits[NUM_TEXT], counted[NUM_TEXT];
    warn_unclean(found->store);
    if (found->damaged != 0)
        say_error("'%s' is damaged: %" PRIu64
                  " page%s not match the checksum, so figures from its bits "
                  "are unreliable; 'seen verify' names the pages",
                  name, found->damaged, found->damaged == 1 ? " does" : "s do");
    else if (!found->consistent)
        say_warning(
            "'%s': its bits hold %s keys, but %s were counted: bits are damaged, or keys were "
            "hashed in another way",
            name, num_show_count(bits, found->n_bits),
            num_show_count(counted, found->header->counters.n_keys));
    else if (found->lines_p < ALARM || found->lines.fullest < ALARM)
        say_warning(
            "'%s': random keys fill its lines like this with a probability of %.1g: keys were "
            "chosen to fill it, or bits were set or cleared by other means",
            name, fmin(found->lines_p, found->lines.fullest));
}

static bool stats_of(struct stats *s, const char *path)
{
    struct findings found;
    struct err err;
    struct store *store = store_open(path, STORE_READ, &err);
    if (store == NULL)
        return say_failure(&err);
    bool ok = findings_gather(&found, store, &s->wanted);
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
    struct stats s = {.wanted.keyopt = KEYOPT_DEFAULT};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_stats, argc, argv, &s))
        return p.status;
    if (s.json && s.prometheus)
        return opt_misuse(&cmd_stats, "only one of --json and --prometheus");
    if (s.wanted.negatives != NULL && strcmp(s.wanted.negatives, "-") == 0 && argc - p.first > 1)
        return opt_misuse(&cmd_stats, "standard input can be read only once, for one FILTER");
    char *files[] = {s.wanted.negatives};
    if (!keyopt_files(&s.wanted.keyopt, &cmd_stats, files, s.wanted.negatives != NULL))
        return EXIT_ERROR;
    bool ok = (s.prometheus ? metrics_of_each : stats_of_each)(&s, argv + p.first,
                                                               (size_t)(argc - p.first));
    keyopt_free(&s.wanted.keyopt);
    return ok ? 0 : EXIT_ERROR;
}

const struct command cmd_stats = {
    .name = "stats",
    .synopsis = "[OPTION]... FILTER...",
    .summary = "report the contents and false-positive rate of a filter",
    .details =
        "Prints what a filter is, the number of distinct keys in it, estimated from its bits, and "
        "its false-positive rate. The design FPR was promised at design capacity, the current FPR "
        "is computed from the present bits, and the measured FPR is the result of a test with keys "
        "that were never added. Each figure is marked exact, estimated (with a 95 % interval in "
        "parentheses), or recorded in the file when it happened.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
