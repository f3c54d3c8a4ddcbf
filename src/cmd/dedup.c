/* SPDX-License-Identifier: MIT */
/* seen dedup: adds new keys to the filter (adding.h), then prints their records. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/num.h"
#include "base/output.h"
#include "base/say.h"
#include "base/sig.h"
#include "base/visible.h"
#include "cmd/adding.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/warn.h"
#include "file/chain.h"

/* What is printed. Of several options that say so, the last one here counts. */
enum dedup_output { PRINT_RECORDS, PRINT_COUNT, PRINT_NOTHING };

struct dedup {
    struct adding adding; /* the first member */
    enum dedup_output output;
    bool invert, annotate, verbose;
    bool keep_bad; /* print records without a key */

    uint64_t n_selected, n_unprinted; /* records */
    bool reader_gone;                 /* it has closed standard output, which has stopped the run */
};

static const struct opt dedup_output_opts[] = {
    {'v', "invert-match", NULL, "print the records that are not new", FLAG(struct dedup, invert)},
    {'c', "count", NULL, "print only how many records would be printed",
     CHOICE(struct dedup, output, PRINT_COUNT)},
    {'q', "quiet", NULL,
     "print nothing; the exit status is 0 if a record would be printed, 1 if none",
     CHOICE(struct dedup, output, PRINT_NOTHING)},
    {0, "annotate", NULL,
     "print each record with + or - and a TAB before it, for coprocesses; + new, - known, ? "
     "skipped by --skip-bad",
     FLAG(struct dedup, annotate), .not_with = " invert-match count quiet",
     .why = "prints every record"},
    {0, "verbose", NULL,
     "report on stderr how many keys were new; and how many new keys were probably mistaken for "
     "known ones",
     FLAG(struct dedup, verbose)},
    {0, "line-buffered", NULL, "no effect: output never waits for more input", NOTHING},
    {0, "keep-bad", NULL, "print records without a key as they are; nothing of them is remembered",
     FLAG(struct dedup, keep_bad), .not_with = " invert-match annotate skip-bad"},
    {0, "sync-every", "N", "sync before printing whenever N keys were added since the last sync",
     AMOUNT(struct dedup, adding.options.sync_every), .needs = " FILTER"},
    {0},
};

static const struct opt known_opts[] = {
    {300, "also", "OTHER", "a key in this filter is known too (repeatable); it is only read",
     REPEATED},
    {0},
};

static const struct opt_hint hints[] = {
    {"--bulk", "keys are added live; for very many, see 'seen import' and 'seen export --merge'"},
    {"--live", "keys are always added live"},
    {"-s", "-n gives the number of keys; 'seen create -s' makes a filter of a size"},
    {"-u", "each new record is printed, once; -v prints the others"},
    {"--counted", "dedup needs no counts; 'seen create --counted' makes a set that has them, and "
                  "'seen add' adds to it"},
    {"--json", "--jsonl -f .NAME reads lines of JSON"},
    {"--dry-run", "'seen query -v FILTER | seen dedup' prints new records, and adds nothing"},
    {"--confirm",
     "'seen query -v --confirm' prints the records that are not in a list: see seen(7)"},
    {"--read-only", "'seen query -v FILTER | seen dedup' prints new records, and adds nothing"},
    {"--repeated", "-v prints the records whose key is not new"},
    {"--size", "-n gives the number of keys; 'seen create -s' makes a filter of a size"},
    {"--unique", "each new record is printed, once; -v prints the others"},
    {0},
};

static const struct opt_group groups[] = {
    {"Output", dedup_output_opts, 0, NULL},
    {"What is known", known_opts, offsetof(struct dedup, adding.sources), sources_take},
    {"Adding", adding_opts, offsetof(struct dedup, adding), NULL},
    {"Making a filter", adding_make_opts, offsetof(struct dedup, adding), NULL},
    {"Keys", keyopt_opts, offsetof(struct dedup, adding.keyopt), keyopt_take},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts,
     offsetof(struct dedup, adding.keyopt), keyopt_take},
    {"Filters in Redis", redisopt_write, offsetof(struct dedup, adding.sources.open), NULL},
    {0},
};

/* Printing. */

/* What --annotate prints before a record. */
enum { PREFIX = sizeof "+\t" - 1 };

/* Marks in r->selected which of the first n records to print; returns their number. */
static size_t select_records(const struct dedup *d, struct added *r, size_t n)
{
    size_t count = 0;
    for (size_t w = 0; w < (n + 63) / 64; w++) {
        uint64_t known = r->keys.known[w];
        uint64_t bad = r->bad[w];
        uint64_t selected = d->annotate ? UINT64_MAX
                            : d->invert ? known & ~bad
                                        : ~known | (d->keep_bad ? bad : 0);
        if (n - w * 64 < 64)
            selected &= ((uint64_t)1 << n % 64) - 1;
        r->selected[w] = selected;
        count += (unsigned)__builtin_popcountll(selected);
    }
    return count;
}

static size_t count_runs(const uint64_t *selected, size_t n)
{
    size_t runs = 0;
    uint64_t before = 0;
    for (size_t w = 0; w < (n + 63) / 64; w++) {
        runs += (unsigned)__builtin_popcountll(selected[w] & ~(selected[w] << 1 | before));
        before = selected[w] >> 63;
    }
    return runs;
}

/* The first record from `at` on whose bit in `selected` is `printed`; n if there is none. */
static size_t next_record(const uint64_t *selected, size_t n, size_t at, bool printed)
{
    while (at < n) {
        uint64_t word = (printed ? selected[at / 64] : ~selected[at / 64]) >> at % 64;
        if (word != 0) {
            at += (unsigned)__builtin_ctzll(word);
            break;
        }
        at += 64 - at % 64;
    }
    return at < n ? at : n;
}

/* Writes bytes and adds the number of written bytes to *written. */
static bool write_bytes(struct dedup *d, const char *data, size_t len, size_t *written)
{
    size_t n;
    bool ok = output_write_bytes(data, len, &n);
    *written += n;
    d->reader_gone = !ok && errno == EPIPE;
    if (!ok && !d->reader_gone)
        d->adding.feed.failed = true;
    return ok;
}

static bool write_runs(struct dedup *d, const struct added *r, size_t *written)
{
    size_t to, n = r->done, from = next_record(r->selected, n, 0, true);
    for (; from < n; from = next_record(r->selected, n, to, true)) {
        to = next_record(r->selected, n, from, false);
        if (!write_bytes(d, r->start[from], (size_t)(r->start[to] - r->start[from]), written))
            return false;
    }
    return true;
}

static bool copy_annotated(struct output *out, const struct added *r)
{
    for (size_t i = 0; i < r->done; i++) {
        const char *prefix = bit_of(r->bad, i) ? "?\t" : bit_of(r->keys.known, i) ? "-\t" : "+\t";
        if (!output_bytes(out, prefix, PREFIX) ||
            !output_bytes(out, r->start[i], (size_t)(r->start[i + 1] - r->start[i])))
            return false;
    }
    return true;
}

/* Memory may be read up to `limit`. */
static bool copy_selected(struct output *out, const struct added *r, const char *limit)
{
    bool ok = true;
    for (size_t i = 0, n = r->done; ok && i < n; i += BATCH_MAX)
        ok = output_select(out, r->start + i, n - i < BATCH_MAX ? n - i : BATCH_MAX,
                           r->selected + i / 64, limit);
    return ok;
}

/* The header of the first file is a chunk of its own. */
static bool write_copies(struct dedup *d, struct added *r, size_t *written)
{
    const struct chunk *chunk = r->part.chunk;
    const char *limit = chunk->data + chunk->len;
    bool ok = (chunk->first_header ? feed_header(&d->adding.feed, chunk, &r->out)
               : d->annotate       ? copy_annotated(&r->out, r)
                                   : copy_selected(&r->out, r, limit)) &&
              output_terminate(&r->out, d->adding.keyopt.rule.terminator);
    if (ok)
        ok = write_bytes(d, r->out.data, r->out.len, written);
    else
        d->adding.feed.failed = !say_error("out of memory");
    output_empty(&r->out);
    return ok;
}

/* The number of selected records that were not written in full. */
static size_t count_cut(const struct added *r, size_t prefix, size_t count, size_t written)
{
    for (size_t i = next_record(r->selected, r->done, 0, true); i < r->done;
         i = next_record(r->selected, r->done, i + 1, true)) {
        size_t len = prefix + (size_t)(r->start[i + 1] - r->start[i]);
        if (len > written)
            break;
        written -= len;
        count--;
    }
    return count;
}

/* Up to this number of runs of selected records in a chunk, each run is written by its own call,
 * which takes less time than copying the runs together. On a first run of the command, a chunk is
 * one run or, with false positives, a few. */
enum { FEW_RUNS = 16 };

static bool print_records(void *ctx, void *slot)
{
    struct dedup *d = ctx; /* its first member */
    struct added *r = slot;
    size_t written = 0, count = select_records(d, r, r->done);
    d->n_selected += count;
    if (d->adding.stopped) {
        d->n_unprinted += count;
        return false;
    }
    if ((count == 0 && !r->part.chunk->first_header) || d->output != PRINT_RECORDS)
        return true;
    bool few_runs = count > 0 && !d->annotate &&
                    r->start[r->done][-1] == d->adding.keyopt.rule.terminator &&
                    count_runs(r->selected, r->done) <= FEW_RUNS;
    if (few_runs ? write_runs(d, r, &written) : write_copies(d, r, &written))
        return true;
    d->adding.stopped = true;
    d->n_unprinted += count_cut(r, d->annotate ? PREFIX : 0, count, written);
    return false;
}

/* Setting up. */

/* FILTER cannot be opened: says how the keys alone are given. */
static void advise_input(const struct adding *a, struct err *err)
{
    size_t files = a->keyopt.n_files;
    bool is_stdin = strcmp(a->path, "-") == 0;
    if (keyopt_advise_order(&a->keyopt, a->path, err) || !(is_stdin || keyopt_is_list(a->path)))
        return;
    if (a->keyopt.n_keys > 0)
        fail_more(err, "; -k gives a key, -f chooses a field: seen dedup -f N %s",
                  SHELL_FILE(a->path));
    else
        fail_more(err, "; without FILTER: seen dedup %s%s", is_stdin ? "-" : SHELL_FILE(a->path),
                  files > 0 ? " FILE..." : "");
}

/* The sources are for the same keys as FILTER. */
static bool open_sources(struct dedup *d)
{
    struct err err;
    struct sources *s = &d->adding.sources;
    s->sink = d->adding.store;
    s->open.borrow.told = d->verbose ? warn_taken : NULL;
    return sources_open(s, &err) || say_failure(&err);
}

/* Makes FILTER if it is missing. Called last. Another process may have made it meanwhile, from
 * other options: it must fit the other filters, which are open already. */
static bool make(struct dedup *d)
{
    struct err err;
    const struct sources *s = &d->adding.sources;
    if (!adding_make(&d->adding, &err))
        return say_failure(&err);
    const struct header *h = d->adding.store->header;
    if (s->n > 0 && !header_check_same(h, d->adding.path, s->filter[0].now->header,
                                       s->filter[0].path, "queried together", &err))
        return say_failure(&err);
    return true;
}

static bool open_filters(struct dedup *d)
{
    struct err err;
    struct adding *a = &d->adding;
    if (a->path == NULL)
        return open_sources(d) && (adding_open_memory(a, &err) || say_failure(&err));
    if (adding_open(a, &err))
        return open_sources(d) && make(d);
    if (a->store == NULL)
        advise_input(a, &err);
    return say_failure(&err);
}

/* Says how many new keys the filter probably took for known: those that 'seen stats' shows, since
 * the filter was made, or of one in Redis, in this run. If the filter is too full for an estimate,
 * all its bits are read for a lower bound. */
static void say_lost(const struct adding *a, const char *before)
{
    struct store *s = a->store;
    bool is_file = store_is_file(s->name), named = is_file && a->path != NULL, at_least = false;
    double given, lost = s->state.dropped;
    char text[NUM_TEXT];
    struct facts facts;
    struct census census;
    struct err ignored;
    store_describe(s, &facts);
    if (is_file)
        chain_given(facts.layers.header, &facts.counters, &given, &lost);
    if (is_file && s->state.too_full && store_census(s, a->keyopt.threads, NULL, &census, &ignored))
        lost = layers_dropped(lost, facts.counters.keys_added, &census, &at_least);
    snprintf(text, sizeof text, at_least ? "at least %.0f" : "%.3g", at_least ? floor(lost) : lost);
    say_note("%snew ones probably mistaken for known: %s%s%s%s", before, text,
             named ? " since '" : "", named ? a->path : "", named ? "' was made" : "");
}

static void conclude_dedup(struct dedup *d)
{
    struct store *s = d->adding.store;
    if (d->n_unprinted > 0 && d->adding.path != NULL)
        say_warning("%s%llu records %s '%s' were not printed",
                    d->reader_gone ? "standard output was closed: " : "",
                    (unsigned long long)d->n_unprinted,
                    d->annotate ? "given to"
                    : d->invert ? "known to"
                                : "added to",
                    d->adding.path);
    char records[80] = "";
    if (d->verbose)
        snprintf(records, sizeof records, "%llu records, %llu new; ",
                 (unsigned long long)tally_keys(&d->adding.feed.tally),
                 (unsigned long long)s->state.n_new);
    if (d->verbose || (s->state.too_full && !d->adding.feed.failed))
        say_lost(&d->adding, records);
    if (d->output == PRINT_COUNT)
        printf("%llu\n", (unsigned long long)d->n_selected);
}

static int dedup(struct dedup *d)
{
    redisopt_hint_many(d->adding.store, &d->adding.keyopt,
                       "seen import 'URI' -o F; seen query -v F | seen dedup 'URI'");
    signal(SIGPIPE, SIG_IGN);
    sig_catch();
    if (adding_run(&d->adding))
        conclude_dedup(d);
    int status = adding_end(&d->adding);
    if (d->adding.stopped && !d->adding.feed.failed)
        return 128 + SIGPIPE;
    bool none = d->output == PRINT_NOTHING && d->n_selected == 0;
    return status == EXIT_SELECTED && none ? EXIT_NONE : status;
}

/* Without FILTER, a key on the command line would be printed, and that is all. */
static bool check_keys(const struct adding *a)
{
    const char *key = a->keyopt.n_keys > 0 ? a->keyopt.keys[0] : "";
    if (a->path != NULL || !keyopt_is_sort_key(key))
        return true;
    return opt_refuse(a->keyopt.command,
                      "-k gives a key, -f chooses a field: did you mean -f %.*s?",
                      (int)strspn(key, "0123456789"), key);
}

static int run_dedup(struct dedup *d, struct opt_parser *p)
{
    if (!adding_parse(&d->adding, p, d) || !check_keys(&d->adding))
        return p->status;
    d->adding.keyopt.prints = d->output == PRINT_RECORDS;
    d->adding.keyopt.rule.skip_bad |= d->keep_bad;
    d->adding.feed.keeps_bad = d->keep_bad;
    d->adding.feed.questions = d->annotate;
    return open_filters(d) ? dedup(d) : EXIT_ERROR;
}

static int run(struct opt_parser *p)
{
    struct dedup d = {.adding = ADDING_DEFAULT};
    d.adding.lists = true;
    d.adding.feed.title = "reading";
    d.adding.sources.follow = true;
    d.adding.feed.finish = print_records;
    int status = run_dedup(&d, p);
    adding_close(&d.adding);
    return status;
}

const struct command cmd_dedup = {
    .name = "dedup",
    .synopsis = "[OPTION]... [FILTER] [KEYFILE]...",
    .summary = "print the records whose key is new, and add them",
    .examples = "  seen dedup log.txt                     each different line once\n"
                "  seen dedup --create urls.seen new.txt  the lines that no run had before\n"
                "  seen dedup -w -f 1 access.log          the first line of each address\n",
    .details =
        "Reads records, one a line, from the KEYFILEs or standard input. Those whose key is not in "
        "FILTER yet are added to it and then printed, in order and byte for byte. Of several "
        "records with the same key, the first is printed. Any number of processes may share one "
        "FILTER: no record is printed twice. Without FILTER, this run uses a filter in memory, "
        "with a false-positive rate of 1e-9 unless --fpr gives another. So it does where FILTER is "
        "a list: then all operands are KEYFILEs, as with 'sort -u'.",
    .groups = groups,
    .everyday = " invert-match count quiet annotate verbose also create"
                " capacity fpr key null delimiter field skip-bad"
                " secret ",
    .hints = hints,
    .operand = "FILTER",
    .run = run,
};
