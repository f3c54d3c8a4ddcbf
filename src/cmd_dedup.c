/*
 * seen dedup: what is new goes into the filter first and is printed then. Workers cut and hash; the
 * commits, one after another, add a chunk's keys under the filter's lock and so learn which are
 * new; what is new is printed behind that, while the next chunk is being added.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bloom_size.h"
#include "chain.h"
#include "cmd.h"
#include "empty.h"
#include "keyarg.h"
#include "known.h"
#include "num.h"
#include "output.h"
#include "plan.h"
#include "progress.h"
#include "say.h"
#include "sig.h"

enum {
    OPT_ALSO = 400,
    OPT_CONFIRM,
    OPT_CREATE,
    OPT_DRY_RUN,
    OPT_MAX_FPR,
    OPT_ROTATE,
    OPT_SYNC_EVERY,
    OPT_NO_SYNC,
    OPT_VERBOSE,
};

static const struct opt output_opts[] = {
    {'v', "invert-match", NULL, "print the records that are not new", false, 0},
    {'c', "count", NULL, "print only how many records would be printed", false, 0},
    {OPT_DRY_RUN, "dry-run", NULL, "print what is new, and add nothing to FILTER", false, 0},
    {OPT_VERBOSE, "verbose", NULL,
     "say on stderr how many keys were new, and how many new ones were probably taken for known",
     false, 0},
    {0},
};

static const struct opt known_opts[] = {
    {OPT_ALSO, "also", "OTHER",
     "take what is in this filter for known too (repeatable); it is only read", true, 0},
    {OPT_CONFIRM, "confirm", "SORTED",
     "believe that a key is known only if it stands in this list, sorted by LC_ALL=C sort, or was "
     "new earlier in this run", false, 0},
    {0},
};

static const struct opt filter_opts[] = {
    {OPT_CREATE, "create", NULL,
     "make FILTER if there is none; it grows, unless --capacity is given", false, 0},
    {'n', "capacity", "N", "size a FILTER that is made for N distinct keys", false, 0},
    {'p', "fpr", "P",
     "false-positive rate of a FILTER that is made (default: 0.001; without FILTER, 1e-9)", false,
     0},
    {OPT_MAX_FPR, "max-fpr", "P",
     "add no key that would take the current false-positive rate above P", false, 0},
    {OPT_ROTATE, "rotate-at-capacity", NULL,
     "rotate a filter with generations whenever its newest one is full", false, 0},
    {OPT_SYNC_EVERY, "sync-every", "N",
     "sync before printing whenever N keys were added since the last time", false, 0},
    {OPT_NO_SYNC, "no-sync", NULL,
     "do not wait for the disk: faster, but keys may be lost if the machine stops", false, 0},
    {0},
};

static const struct opt_group groups[] = {
    {"Output", output_opts},
    {"What is known", known_opts},
    {"Filter", filter_opts},
    {"Keys", keyarg_opts},
    {"Key preparation, checked against what is stored in the filter", keyarg_prep_opts},
    {0},
};

/* Without FILTER, what is lost to false positives is to be nothing at all. */
static const double MEMORY_FPR = 1e-9;

struct dedup {
    struct keyarg ka;
    bool invert, count, dry_run, create, no_sync, verbose;
    struct plan plan; /* of a filter to be made */
    uint64_t sync_every, since_sync;
    struct adder_options options;
    const char *path;         /* NULL: none */
    const char *confirm_path; /* NULL: none */
    const char **also_path;   /* and FILTER, in a dry run */
    size_t n_also;
    struct known known;

    struct batch **batch; /* one a worker */
    struct tally tally;
    uint64_t n_selected, n_unprinted; /* records */
    atomic_bool failed; /* and said why; commits and printing may both */
    bool closed; /* standard output cannot be written to ... */
    bool reader_gone; /* ... as nobody reads it any more */
};

/* What came of one chunk. Of these, at most two are added and not printed. */
struct result {
    struct chunk_tally tally;
    const char **start;       /* of each record, and the end of the last */
    uint64_t *bad, *selected; /* a bit for each record: has no key; is to be printed */
    size_t room;
    struct adder_keys keys;   /* of the records */
    size_t done;              /* keys that were added or found */
    const char *limit;        /* the end of the memory that may be read */
    struct output out;
    bool failed;
    struct err err;
};

static bool take_also(struct dedup *d, const char *path)
{
    const char **paths = realloc(d->also_path, (d->n_also + 1) * sizeof *paths);
    if (paths == NULL) {
        say_error("out of memory");
        return false;
    }
    d->also_path = paths;
    paths[d->n_also++] = path;
    return true;
}

static bool parse_option(struct dedup *d, struct opt_parser *p, int id)
{
    switch (id) {
    case 'v':
        return d->invert = true;
    case 'c':
        return d->count = true;
    case 'n':
        return opt_count(p, &d->plan.n) && opt_positive(p, d->plan.n);
    case 'p':
        return opt_fpr(p, &d->plan.p);
    case OPT_ALSO:
        return take_also(d, p->value);
    case OPT_CONFIRM:
        d->confirm_path = p->value;
        return true;
    case OPT_CREATE:
        return d->create = true;
    case OPT_DRY_RUN:
        return d->dry_run = true;
    case OPT_MAX_FPR:
        return opt_fpr(p, &d->options.max_fpr);
    case OPT_ROTATE:
        return d->options.rotate = true;
    case OPT_SYNC_EVERY:
        return opt_count(p, &d->sync_every) && opt_positive(p, d->sync_every);
    case OPT_NO_SYNC:
        return d->no_sync = true;
    case OPT_VERBOSE:
        return d->verbose = true;
    default:
        return keyarg_take(&d->ka, p, id);
    }
}

/* Workers: cutting, hashing, and asking the filters that are only read. */

static bool make_room(struct result *r, size_t n)
{
    if (r->room >= n)
        return true;
    size_t room = 2 * n + BATCH_MAX, words = room / 64;
    const char **start = realloc(r->start, (room + 1) * sizeof *start);
    if (start != NULL)
        r->start = start;
    uint64_t *bad = realloc(r->bad, words * sizeof *bad);
    if (bad != NULL)
        r->bad = bad;
    uint64_t *selected = realloc(r->selected, words * sizeof *selected);
    if (selected != NULL)
        r->selected = selected;
    if (start == NULL || bad == NULL || selected == NULL)
        return false;
    r->room = room;
    return true;
}

/* A batch of fewer than BATCH_MAX is the last. */
static bool take_batch(struct dedup *d, struct batch *b, struct result *r)
{
    size_t n = r->keys.n;
    tally_batch(&r->tally, b);
    if (!make_room(r, n + BATCH_MAX))
        return fail(&r->err, "out of memory");
    memcpy(r->start + n, b->record, (b->n + 1) * sizeof *b->record);
    memcpy(r->bad + n / 64, b->bad, sizeof b->bad);
    return known_ask(&d->known, b, &r->err) &&
           (adder_keys_take(&r->keys, b) || fail(&r->err, "out of memory"));
}

static void begin_result(struct result *r, const char *limit)
{
    r->tally = (struct chunk_tally){0};
    r->keys.n = r->done = 0;
    r->limit = limit;
    r->failed = false;
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot)
{
    struct dedup *d = ctx;
    struct result *r = slot;
    struct batch *b = d->batch[worker];
    begin_result(r, chunk->data + chunk->len);
    batch_start(b, chunk->data, chunk->len);
    while (!r->failed && batch_next(b))
        r->failed = !take_batch(d, b, r);
    tally_batches_end(&r->tally, b);
}

/* Commits: one chunk at a time. */

static bool sync_if_due(struct dedup *d, uint64_t n_new, struct err *err)
{
    d->since_sync += n_new;
    if (d->sync_every == 0 || d->since_sync < d->sync_every)
        return true;
    d->since_sync = 0;
    return adder_sync(&d->known.sink.adder, err);
}

/* Adds the keys of a chunk; false when it stopped before the last, and said why. `where` names the
 * input and `before` is the number of records in it before these. */
static bool add_keys(struct dedup *d, struct result *r, const char *where, uint64_t before)
{
    struct err err;
    const struct adder *a = &d->known.sink.adder;
    uint64_t n_new = a->n_new;
    enum adder_result result = known_add(&d->known, &r->keys, r->start, &r->done, &err);
    if (a->warning[0] != '\0')
        say_warning("%s", a->warning);
    if (result != ADDER_FAILED && !sync_if_due(d, a->n_new - n_new, &err))
        result = ADDER_FAILED;
    if (result == ADDER_OK)
        return true;
    unsigned long long record = before + r->done + 1;
    if (result == ADDER_FULL)
        say_error("%s:%llu: %s", where, record, err.text);
    else if (sig_caught())
        return false;
    else
        say_failure(&err);
    d->failed = true;
    return false;
}

/* A filter in memory that must grow does so once, to the size that the whole input will need if it
 * goes on as it began: each layer more is one more to ask for every key. A tenth is to spare. What
 * is in a file must not depend on whether the keys came from a file or a pipe. */
static void expect(struct dedup *d)
{
    struct adder *a = &d->known.sink.adder;
    uint64_t done, total;
    input_progress(d->tally.input, &done, &total);
    if (d->known.in_memory && done > 0 && done < total)
        a->to_come = (uint64_t)(1.1 * (double)a->n_new * (double)(total - done) / (double)done);
}

static bool commit(void *ctx, const struct chunk *chunk, void *slot)
{
    struct dedup *d = ctx;
    struct result *r = slot;
    tally_begin(&d->tally, chunk);
    expect(d);
    if (r->failed)
        d->failed = !say_failure(&r->err);
    if (d->failed || !add_keys(d, r, input_name(d->tally.input, chunk->file), d->tally.in_file))
        return false;
    if (!tally_end(&d->tally, chunk, &r->tally))
        d->failed = true; /* printing may have failed meanwhile, so it is never made false */
    return !d->failed;
}

/* Printing. */

/* Marks in r->selected what is to be printed of the first n records; returns how many. */
static size_t select_records(const struct dedup *d, struct result *r, size_t n)
{
    size_t count = 0;
    for (size_t w = 0; w < (n + 63) / 64; w++) {
        uint64_t known = r->keys.known[w];
        uint64_t selected = d->invert ? known & ~r->bad[w] : ~known;
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

/* The first record from `at` on that is to be printed, or is not to be; n if there is none. */
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

/* Writes n records; adds to *whole how many are whole in the bytes that were written. */
static bool write_bytes(struct dedup *d, const char *data, size_t len, size_t n, size_t *whole)
{
    size_t written;
    if (output_write_bytes(data, len, &written)) {
        *whole += n;
        return true;
    }
    const char *end = data + written;
    while ((data = memchr(data, d->ka.rule.terminator, (size_t)(end - data))) != NULL) {
        data++;
        ++*whole;
    }
    d->reader_gone = errno == EPIPE;
    if (!d->reader_gone)
        d->failed = true;
    return false;
}

static bool write_runs(struct dedup *d, const struct result *r, size_t n, size_t *whole)
{
    size_t to, from = next_record(r->selected, n, 0, true);
    for (; from < n; from = next_record(r->selected, n, to, true)) {
        to = next_record(r->selected, n, from, false);
        size_t len = (size_t)(r->start[to] - r->start[from]);
        if (!write_bytes(d, r->start[from], len, to - from, whole))
            return false;
    }
    return true;
}

static bool write_copies(struct dedup *d, struct result *r, size_t n, size_t count, size_t *whole)
{
    bool ok = true;
    r->out.len = 0;
    for (size_t i = 0; ok && i < n; i += BATCH_MAX)
        ok = output_select(&r->out, r->start + i, n - i < BATCH_MAX ? n - i : BATCH_MAX,
                           r->selected + i / 64, r->limit);
    if (ok && output_terminate(&r->out, d->ka.rule.terminator))
        return write_bytes(d, r->out.data, r->out.len, count, whole);
    say_error("out of memory");
    d->failed = true;
    return false;
}

/* So many pieces of a chunk are written from where they stand: a call for each takes less time than
 * copying them together. On a first run there is but a piece or, with false positives, a few. */
enum { FEW_RUNS = 16 };

static void write_records(struct dedup *d, struct result *r, size_t n, size_t count)
{
    size_t whole = 0;
    bool terminated = r->start[n][-1] == d->ka.rule.terminator;
    if (terminated && count_runs(r->selected, n) <= FEW_RUNS ? write_runs(d, r, n, &whole)
                                                            : write_copies(d, r, n, count, &whole))
        return;
    d->closed = true;
    d->n_unprinted += count - whole;
}

static bool print_result(struct dedup *d, struct result *r)
{
    size_t count = select_records(d, r, r->done);
    d->n_selected += count;
    if (d->closed)
        d->n_unprinted += count;
    else if (count > 0 && !d->count)
        write_records(d, r, r->done, count);
    return !d->closed;
}

static bool finish(void *ctx, const struct chunk *chunk, void *slot)
{
    (void)chunk;
    return print_result(ctx, slot);
}

static void free_result(void *ctx, void *slot)
{
    struct result *r = slot;
    (void)ctx;
    free(r->start);
    free(r->bad);
    free(r->selected);
    adder_keys_free(&r->keys);
    output_free(&r->out);
}

static void dedup_given_keys(struct dedup *d)
{
    struct batch *b = d->batch[0];
    struct result r = {0};
    size_t next = 0;
    while (!d->failed && !d->closed && keyarg_batch(&d->ka, &next, b)) {
        begin_result(&r, b->record[b->n]);
        if (!take_batch(d, b, &r)) {
            d->failed = !say_failure(&r.err);
            break;
        }
        bool go_on = add_keys(d, &r, "--key", d->tally.records);
        print_result(d, &r);
        if (!go_on)
            break;
        d->tally.records += b->n;
        d->tally.bad += b->n_bad;
    }
    if (!d->failed)
        d->failed = !keyarg_batch_end(&d->ka, next, b);
    free_result(d, &r);
}

static void dedup_input(struct dedup *d)
{
    struct stat st;
    bool is_file = !d->known.in_memory && fstat(d->known.sink.filter.fd, &st) == 0;
    struct pump pump = {.ctx = d,
                        .slot_size = sizeof(struct result),
                        .work = work,
                        .commit = commit,
                        .finish = finish,
                        .slot_free = free_result};
    progress_begin("reading", d->ka.progress);
    if (!keyarg_pump(&pump, &d->tally, is_file ? &st : NULL, true))
        d->failed = true;
    progress_end();
}

/* Setting up. */

static bool plan_filter(struct dedup *d, struct header *h)
{
    struct err err;
    bool ok;
    empty_header(h, &d->ka.rule);
    if (d->plan.n == 0)
        ok = chain_start_growing(h, CHAIN_FIRST, d->plan.p != 0 ? d->plan.p : PLAN_FPR, &err);
    else if ((ok = plan_solve(&d->plan, &err)))
        empty_fixed(h, &d->plan.bloom, d->plan.n, d->plan.p);
    return ok || say_failure(&err);
}

/* Takes over how keys are prepared for a filter that was opened. */
static bool adopt(struct dedup *d, const struct filter *f, struct err *err)
{
    keyarg_warn(f);
    return keyarg_adopt(&d->ka, &f->header, f->path, err);
}

/* Is FILTER one that --create makes? */
static bool is_to_be_made(const struct dedup *d)
{
    return d->create && access(d->path, F_OK) != 0 && errno == ENOENT;
}

static bool open_file(struct dedup *d)
{
    struct err err;
    return (known_open_file(&d->known, d->path, &err) && adopt(d, &d->known.sink.filter, &err)) ||
           say_failure(&err);
}

/* Are keys of FILTER, which has or is to have that header, those of the other filters? */
static bool suits_others(const struct dedup *d, const struct header *h, struct err *err)
{
    const struct filter *also = d->known.also;
    return d->known.n_also == 0 ||
           filter_same_questions(h, d->path, &also->header, also->path, err);
}

/* Makes FILTER and opens it, when all else that is needed is there: key preparation is fixed by
 * that. Another process may have made it meanwhile, from other options. */
static bool create_and_open(struct dedup *d, struct header *h)
{
    struct err err;
    const char *first = d->ka.n_files > 0 ? d->ka.files[0] : "-";
    if (strcmp(first, "-") != 0 && access(first, R_OK) != 0) {
        fail_errno(&err, "cannot open '%s'", first);
        return say_failure(&err);
    }
    if (!suits_others(d, h, &err) || !empty_create(d->path, h, &err))
        return say_failure(&err);
    return open_file(d) &&
           (suits_others(d, &d->known.sink.filter.header, &err) || say_failure(&err));
}

static bool open_in_memory(struct dedup *d)
{
    struct err err;
    double p = d->path == NULL && d->plan.p != 0 ? d->plan.p : MEMORY_FPR;
    return known_open_in_memory(&d->known, &d->ka.rule, d->plan.n != 0 ? d->plan.n : CHAIN_FIRST, p,
                                &err) ||
           say_failure(&err);
}

static bool open_filters(struct dedup *d)
{
    struct err err;
    struct header h;
    bool in_memory = d->path == NULL || d->dry_run, to_be_made = is_to_be_made(d);
    if (!in_memory && !(to_be_made ? plan_filter(d, &h) : open_file(d)))
        return false;
    if (d->path != NULL && d->dry_run && !to_be_made && !take_also(d, d->path))
        return false;
    for (size_t i = 0; i < d->n_also; i++)
        if (!known_also(&d->known, d->also_path[i], &err) ||
            !adopt(d, &d->known.also[d->known.n_also - 1], &err))
            return say_failure(&err);
    if (in_memory && !open_in_memory(d))
        return false;
    if (d->confirm_path != NULL &&
        !known_confirm(&d->known, d->confirm_path, &d->ka.rule, &err))
        return say_failure(&err);
    keyarg_hint_crlf(&d->ka, d->known.list.saw_cr, d->confirm_path);
    return in_memory || !to_be_made || create_and_open(d, &h);
}

static void report(const struct dedup *d)
{
    const struct adder *a = &d->known.sink.adder;
    char run[NUM_TEXT], all[NUM_TEXT];
    unsigned long long records = d->tally.records - d->tally.bad, n_new = a->n_new;
    snprintf(run, sizeof run, "%.3g", known_lost(&d->known, d->ka.threads));
    snprintf(all, sizeof all, "%.3g", a->session.counters.dropped);
    if (d->known.in_memory || a->session.counters.unknown)
        say_note("%llu records, %llu new; new ones probably taken for known: %s", records, n_new,
                 run);
    else
        say_note("%llu records, %llu new; new ones probably taken for known: %s, and %s since "
                 "'%s' was made", records, n_new, run, all, d->path);
}

/* Tells of a filter that is too full how much was lost to that. */
static void report_fullness(struct dedup *d)
{
    struct adder *a = &d->known.sink.adder;
    adder_conclude(a, true);
    if (a->warning[0] != '\0')
        say_warning("%s; new ones probably taken for known: %.3g", a->warning,
                    known_lost(&d->known, d->ka.threads));
}

static int conclude(struct dedup *d)
{
    tally_report(&d->tally);
    if (d->n_unprinted > 0 && !d->known.in_memory)
        say_note("%s%llu records %s '%s' were not printed",
                 d->reader_gone ? "standard output was closed: " : "",
                 (unsigned long long)d->n_unprinted, d->invert ? "known to" : "added to", d->path);
    report_fullness(d);
    if (d->count)
        printf("%llu\n", (unsigned long long)d->n_selected);
    if (d->verbose)
        report(d);
    if (d->failed)
        return EXIT_ERROR;
    if (d->closed)
        return 128 + SIGPIPE;
    return sig_caught() ? 128 + sig_caught() : EXIT_SELECTED;
}

static int dedup(struct dedup *d)
{
    struct err err;
    sig_catch();
    signal(SIGPIPE, SIG_IGN);
    d->options.threads = d->ka.threads;
    if (!known_begin(&d->known, &d->options, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    if (d->ka.n_keys > 0)
        dedup_given_keys(d);
    else
        dedup_input(d);
    if (!known_end(&d->known, !d->no_sync, &err) && !d->failed)
        d->failed = !say_failure(&err);
    return conclude(d);
}

static int check_options(const struct dedup *d)
{
    if (d->create && d->path == NULL)
        return opt_misuse(&cmd_dedup, "--create needs a FILTER to make");
    if (!d->create && d->path != NULL && (d->plan.n != 0 || d->plan.p != 0))
        return opt_misuse(&cmd_dedup,
                          "--capacity and --fpr are for a filter that is made: they need --create");
    return 0;
}

static int run_dedup(struct dedup *d, int argc, char **argv)
{
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_dedup, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(d, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    bool any = p.first < argc;
    d->path = any ? argv[p.first] : NULL;
    if (!keyarg_files(&d->ka, &cmd_dedup, argv + p.first + any, argc - p.first - any))
        return EXIT_ERROR;
    d->tally.ka = &d->ka;
    int status = check_options(d);
    if (status != 0)
        return status;
    if (!open_filters(d))
        return EXIT_ERROR;
    d->batch = keyarg_batches(&d->ka);
    return d->batch != NULL ? dedup(d) : EXIT_ERROR;
}

static int run(int argc, char **argv)
{
    struct dedup d = {.ka = KEYARG_DEFAULT, .plan.kind = &kind_bloom};
    int status = run_dedup(&d, argc, argv);
    keyarg_batches_free(&d.ka, d.batch);
    known_close(&d.known);
    free(d.also_path);
    keyarg_free(&d.ka);
    return status;
}

const struct command cmd_dedup = {
    .name = "dedup",
    .synopsis = "[OPTION]... [FILTER [KEYFILE]...]",
    .summary = "print the records whose key is new, and add them",
    .details =
        "Reads records, one a line, from the KEYFILEs or standard input. Those whose key is not in "
        "FILTER yet are added to it and then printed, in order and byte for byte; of several with "
        "one key, the first. Any number of processes may share one FILTER: no record is printed "
        "twice. Without FILTER, a filter in memory serves for this one run.",
    .groups = groups,
    .run = run,
};
