/*
 * seen dedup: what is new goes into the filter first and is printed then. Workers cut and hash; the
 * commits, one after another, add a chunk's keys under the filter's lock and so learn which are new;
 * what is new is printed behind that, while the next chunk is being added.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adder.h"
#include "bloom_size.h"
#include "chain.h"
#include "cmd.h"
#include "confirm.h"
#include "empty.h"
#include "filter.h"
#include "keyarg.h"
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
    {OPT_VERBOSE, "verbose", NULL, "say on stderr how many keys were new, and how many new ones were "
                                   "probably taken for known", false, 0},
    {0},
};

static const struct opt known_opts[] = {
    {OPT_ALSO, "also", "OTHER", "take what is in this filter for known too (repeatable); it is only read",
     true, 0},
    {OPT_CONFIRM, "confirm", "SORTED", "believe that a key is known only if it stands in this list, sorted "
                                       "by LC_ALL=C sort, or was new earlier in this run", false, 0},
    {0},
};

static const struct opt filter_opts[] = {
    {OPT_CREATE, "create", NULL, "make FILTER if there is none; it grows, unless --capacity is given", false,
     0},
    {'n', "capacity", "N", "size a FILTER that is made for N distinct keys", false, 0},
    {'p', "fpr", "P", "false-positive rate of a FILTER that is made (default: 0.001; without FILTER, 1e-9)",
     false, 0},
    {OPT_MAX_FPR, "max-fpr", "P", "add no key that would take the current false-positive rate above "
                                  "P", false, 0},
    {OPT_ROTATE, "rotate-at-capacity", NULL, "rotate a filter with generations whenever its newest "
                                             "one is full", false, 0},
    {OPT_SYNC_EVERY, "sync-every", "N", "sync before printing whenever N keys were added since the last "
                                        "time", false, 0},
    {OPT_NO_SYNC, "no-sync", NULL, "do not wait for the disk: faster, but keys may be lost if the "
                                   "machine stops", false, 0},
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

/* A filter that keys are added to. */
struct sink {
    struct filter filter;
    struct adder adder;
    bool open, begun;
    char path[EMPTY_PATH]; /* of one in memory */
};

struct dedup {
    struct keyarg ka;
    bool invert, count, dry_run, create, no_sync, verbose;
    struct plan plan; /* of a filter to be made */
    uint64_t sync_every, since_sync;
    struct adder_options options;
    const char *path;         /* NULL: none */
    const char *confirm_path; /* NULL: none */
    struct sink sink;         /* FILTER, or one in memory */
    bool in_memory;
    /* With --confirm: the keys that were new in this run. */
    struct sink run;
    struct confirm confirm;
    struct filter *also; /* and FILTER, in a dry run */
    const char **also_path;
    size_t n_also, n_also_open;

    struct batch **batch; /* one a worker */
    struct batch *single; /* for one record */
    struct tally tally;
    uint64_t n_selected, n_unprinted; /* records */
    atomic_bool failed; /* and said why; commits and printing may both */
    bool closed; /* standard output cannot be written to */
};

/* What came of one chunk. Of these, at most two are added and not printed. */
struct result {
    struct chunk_tally tally;
    const char **start; /* of each record, and the end of the last */
    uint64_t *bad, *selected; /* a bit for each record: has no key; is to be printed */
    size_t n, n_bad, room;
    struct adder_keys keys; /* of the records that may be new */
    struct adder_keys found; /* with --confirm: those that may be new in spite of the filter */
    size_t done;            /* keys that were added or found */
    const char *limit;      /* the end of the memory that may be read */
    struct output out;
    bool failed;
    struct err err;
};

static bool bit_of(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void set_bit(uint64_t *bits, size_t i)
{
    bits[i / 64] |= (uint64_t)1 << i % 64;
}

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
        return opt_count(p, &d->plan.n);
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
        if (!opt_count(p, &d->sync_every))
            return false;
        if (d->sync_every > 0)
            return true;
        opt_misuse(p->command, "option '%s' must be more than 0", p->name);
        return false;
    case OPT_NO_SYNC:
        return d->no_sync = true;
    case OPT_VERBOSE:
        return d->verbose = true;
    }
    return false;
}

/* Workers: cutting, hashing, and asking the filters that are only read. */

static bool make_room(struct result *r, size_t more)
{
    if (r->room - r->n >= more)
        return true;
    size_t room = 2 * r->room + more, words = room / 64 + 1, old = r->room > 0 ? r->room / 64 + 1 : 0;
    const char **start = realloc(r->start, room * sizeof *start);
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
    memset(bad + old, 0, (words - old) * sizeof *bad);
    r->room = room;
    return true;
}

static bool take_records(struct result *r, const struct batch *b)
{
    if (!make_room(r, b->n + 1)) {
        r->failed = !fail(&r->err, "out of memory");
        return false;
    }
    memcpy(r->start + r->n, b->record, (b->n + 1) * sizeof *b->record);
    for (size_t i = 0; b->n_bad > 0 && i < b->n; i++)
        if (bit_of(b->bad, i))
            set_bit(r->bad, r->n + i);
    r->n += b->n;
    r->n_bad += b->n_bad;
    return true;
}

/* Marks records that another filter has as if they had no key. */
static bool drop_known(struct dedup *d, struct batch *b, struct result *r)
{
    for (size_t f = 0; f < d->n_also_open; f++) {
        uint64_t present[BATCH_MAX / 64];
        if (!filter_query(&d->also[f], b->hash, b->n, present, &r->err))
            return !(r->failed = true);
        for (size_t i = 0; i < b->n; i++)
            if (bit_of(present, i) && !bit_of(b->bad, i) &&
                (d->confirm_path == NULL || confirm_has(&d->confirm, b, i)))
                set_bit(b->bad, i);
    }
    return true;
}

static void take_batch(struct dedup *d, struct batch *b, struct result *r)
{
    uint64_t first = r->tally.records;
    tally_batch(&r->tally, b);
    if (take_records(r, b) && drop_known(d, b, r) && !adder_keys_take(&r->keys, b, first))
        r->failed = !fail(&r->err, "out of memory");
}

static void forget(struct result *r)
{
    r->tally = (struct chunk_tally){0};
    if (r->n_bad > 0)
        memset(r->bad, 0, (r->room / 64 + 1) * sizeof *r->bad);
    r->n = r->n_bad = r->keys.n = r->found.n = r->done = 0;
    r->failed = false;
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot)
{
    struct dedup *d = ctx;
    struct result *r = slot;
    struct batch *b = d->batch[worker];
    forget(r);
    r->limit = chunk->data + chunk->len;
    batch_start(b, chunk->data, chunk->len);
    while (!r->failed && batch_next(b))
        take_batch(d, b, r);
    tally_batches_end(&r->tally, b);
}

/* Commits: one chunk at a time. */

/* Is the key that the filter has really known? */
static bool is_confirmed(struct dedup *d, const struct result *r, uint64_t record)
{
    struct batch *b = d->single;
    batch_start(b, r->start[record], (size_t)(r->start[record + 1] - r->start[record]));
    return !batch_next(b) || confirm_has(&d->confirm, b, 0);
}

/* Unmarks those present keys that are in no list and were not new before in this run. */
static bool confirm_hits(struct dedup *d, struct result *r, struct err *err)
{
    size_t done;
    r->found.n = 0;
    for (size_t i = 0; i < r->done; i++)
        if ((!bit_of(r->keys.present, i) || !is_confirmed(d, r, r->keys.record[i])) &&
            !adder_keys_put(&r->found, r->keys.hash[i], i))
            return fail(err, "out of memory");
    if (adder_add(&d->run.adder, &r->found, &done, err) != ADDER_OK)
        return false;
    for (size_t i = 0; i < r->found.n; i++) {
        uint64_t key = r->found.record[i], bit = (uint64_t)1 << key % 64;
        if (!bit_of(r->found.present, i))
            r->keys.present[key / 64] &= ~bit;
    }
    return true;
}

static bool sync_if_due(struct dedup *d, uint64_t n_new, struct err *err)
{
    d->since_sync += n_new;
    if (d->sync_every == 0 || d->since_sync < d->sync_every)
        return true;
    d->since_sync = 0;
    return adder_sync(&d->sink.adder, err);
}

static bool add_keys(struct dedup *d, struct result *r, const char *where, uint64_t before)
{
    struct err err;
    char limit[NUM_TEXT];
    struct adder *a = &d->sink.adder;
    uint64_t n_new = a->n_new;
    enum adder_result result = adder_add(a, &r->keys, &r->done, &err);
    if (a->warning[0] != '\0')
        say_warning("%s", a->warning);
    bool ok = (d->run.begun ? confirm_hits(d, r, &err) : true) &&
              sync_if_due(d, a->n_new - n_new, &err);
    if (result == ADDER_FULL) {
        unsigned long long record = before + r->keys.record[r->done] + 1;
        say_error("%s:%llu: not added: the false-positive rate of '%s' would pass %s", where, record,
                  a->session.filter->path,
                  num_show_fpr(limit, d->options.max_fpr));
        d->failed = true;
    } else if ((result == ADDER_FAILED && !sig_caught()) || !ok) {
        say_error("%s", err.text);
        d->failed = true;
    }
    return result == ADDER_OK && ok;
}

static bool commit(void *ctx, const struct chunk *chunk, void *slot)
{
    struct dedup *d = ctx;
    struct result *r = slot;
    tally_begin(&d->tally, chunk);
    if (r->failed) {
        say_error("%s", r->err.text);
        d->failed = true;
    }
    if (d->failed || !add_keys(d, r, input_name(d->tally.input, chunk->file), d->tally.in_file))
        return false;
    d->failed = !tally_end(&d->tally, chunk, &r->tally);
    return !d->failed;
}

static bool input_failed(void *ctx, const struct chunk *chunk, const struct err *err)
{
    struct dedup *d = ctx;
    (void)chunk;
    say_error("%s", err->text);
    d->failed = true;
    return false;
}

/* Printing. */

/* Marks the new ones among the first n records. */
static void select_new(const struct result *r, size_t n)
{
    if (r->keys.n == r->n) { /* key i is that of record i */
        for (size_t w = 0; w < (n + 63) / 64; w++)
            r->selected[w] = ~r->keys.present[w];
        if (n % 64 != 0)
            r->selected[n / 64] &= ((uint64_t)1 << n % 64) - 1;
        return;
    }
    memset(r->selected, 0, (n / 64 + 1) * sizeof *r->selected);
    for (size_t i = 0; i < r->done; i++)
        if (!bit_of(r->keys.present, i))
            set_bit(r->selected, (size_t)r->keys.record[i]);
}

/* Marks in r->selected what is to be printed of the first n records; returns how many. */
static size_t select_records(const struct dedup *d, const struct result *r, size_t n)
{
    size_t count = 0;
    select_new(r, n);
    for (size_t w = 0; w < (n + 63) / 64; w++) {
        size_t left = n - w * 64;
        if (d->invert)
            r->selected[w] = ~r->selected[w] & ~r->bad[w] &
                             (left >= 64 ? ~UINT64_C(0) : ((uint64_t)1 << left) - 1);
        count += (unsigned)__builtin_popcountll(r->selected[w]);
    }
    return count;
}

/* Of n records that were to be written, how many are not whole in the bytes that were. */
static size_t count_unwritten(const struct dedup *d, const char *data, size_t written, size_t n)
{
    const char *end = data + written;
    while (data < end && (data = memchr(data, d->ka.rule.terminator, (size_t)(end - data))) != NULL) {
        data++;
        n--;
    }
    return n;
}

static void write_records(struct dedup *d, struct result *r, size_t n, size_t count)
{
    const char *data = r->start[0];
    size_t len = (size_t)(r->start[n] - data), written = 0;
    bool ok = true;
    /* When all are to be printed, as on a first run, they stand there as they should. */
    if (count < n || data[len - 1] != d->ka.rule.terminator) {
        r->out.len = 0;
        for (size_t i = 0; ok && i < n; i += BATCH_MAX)
            ok = output_select(&r->out, r->start + i, n - i < BATCH_MAX ? n - i : BATCH_MAX,
                               r->selected + i / 64, r->limit);
        ok = ok && output_terminate(&r->out, d->ka.rule.terminator);
        data = r->out.data;
        len = r->out.len;
    }
    if (!ok)
        say_error("out of memory");
    if (ok && output_write_bytes(data, len, &written))
        return;
    if (!ok || errno != EPIPE)
        d->failed = true;
    d->closed = true;
    d->n_unprinted += count_unwritten(d, data, written, count);
}

static bool print_result(struct dedup *d, struct result *r)
{
    size_t n = r->done < r->keys.n ? (size_t)r->keys.record[r->done] : r->n;
    size_t count = n > 0 ? select_records(d, r, n) : 0;
    d->n_selected += count;
    if (d->closed)
        d->n_unprinted += count;
    else if (count > 0 && !d->count)
        write_records(d, r, n, count);
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
    adder_keys_free(&r->found);
    output_free(&r->out);
}

static void dedup_given_keys(struct dedup *d)
{
    struct batch *b = d->batch[0];
    struct result r = {0};
    size_t next = 0;
    while (!d->failed && !d->closed && keyarg_batch(&d->ka, &next, b)) {
        forget(&r);
        r.limit = b->record[b->n];
        take_batch(d, b, &r);
        if (r.failed) {
            say_error("%s", r.err.text);
            d->failed = true;
            break;
        }
        bool go_on = add_keys(d, &r, "--key", d->tally.records);
        print_result(d, &r);
        if (!go_on)
            break;
        d->tally.records += b->n;
        d->tally.bad += b->n_bad;
    }
    if (b->bad_record && !d->failed) {
        say_error("--key '%s': %s", d->ka.keys[next], b->bad_reason.text);
        d->failed = true;
    }
    free_result(d, &r);
}

static void dedup_input(struct dedup *d)
{
    struct err err;
    struct stat st;
    bool known = !d->in_memory && fstat(d->sink.filter.fd, &st) == 0;
    struct input *in = keyarg_open(&d->ka, known ? &st : NULL, true, &err);
    if (in == NULL) {
        say_error("%s", err.text);
        d->failed = true;
        return;
    }
    d->tally.input = in;
    struct pump pump = {.input = in,
                        .threads = d->ka.threads,
                        .ctx = d,
                        .slot_size = sizeof(struct result),
                        .work = work,
                        .commit = commit,
                        .finish = finish,
                        .failed = input_failed,
                        .slot_free = free_result};
    progress_begin("reading", d->ka.progress);
    if (!pump_run(&pump, &err)) {
        say_error("%s", err.text);
        d->failed = true;
    }
    progress_end();
    input_close(in);
}

/* Setting up. */

static bool complain(const struct err *err)
{
    say_error("%s", err->text);
    return false;
}

static bool open_in_memory(struct dedup *d, struct sink *sink, double p)
{
    struct header h;
    struct err err;
    empty_header(&h, &d->ka.rule);
    if (!chain_start_growing(&h, d->plan.n != 0 ? d->plan.n : CHAIN_FIRST, p, &err) ||
        !empty_open_in_memory(&sink->filter, sink->path, &h, &err))
        return complain(&err);
    return sink->open = true;
}

static bool create_filter(struct dedup *d)
{
    struct header h;
    struct err err;
    bool ok;
    empty_header(&h, &d->ka.rule);
    if (d->plan.n == 0)
        ok = chain_start_growing(&h, CHAIN_FIRST, d->plan.p != 0 ? d->plan.p : PLAN_FPR, &err);
    else if ((ok = plan_solve(&d->plan, &err)))
        empty_fixed(&h, &d->plan.bloom, d->plan.n, d->plan.p);
    return (ok && empty_create(d->path, &h, &err)) || complain(&err);
}

static bool open_also(struct dedup *d, const char *path)
{
    struct err err;
    struct filter *f = &d->also[d->n_also_open];
    if (!filter_open(f, path, FILTER_READ, &err))
        return complain(&err);
    d->n_also_open++;
    keyarg_warn(f);
    if (!keyarg_adopt(&d->ka, &f->header, path, &err))
        return complain(&err);
    const struct filter *first = d->sink.open ? &d->sink.filter : &d->also[0];
    if (filter_same_keys(&first->header, &f->header, &err))
        return true;
    say_error("'%s' and '%s' cannot be asked for the same keys: they differ in %s", first->path, path,
              err.text);
    return false;
}

static bool open_file(struct dedup *d)
{
    struct err err;
    if (d->create && access(d->path, F_OK) != 0 && errno == ENOENT && !create_filter(d))
        return false;
    if (!filter_open(&d->sink.filter, d->path, FILTER_WRITE, &err))
        return complain(&err);
    d->sink.open = true;
    keyarg_warn(&d->sink.filter);
    return keyarg_adopt(&d->ka, &d->sink.filter.header, d->path, &err) || complain(&err);
}

static bool open_filters(struct dedup *d)
{
    struct err err;
    d->in_memory = d->path == NULL || d->dry_run;
    if (!(d->in_memory ? d->path == NULL || take_also(d, d->path) : open_file(d)))
        return false;
    d->also = calloc(d->n_also + 1, sizeof *d->also);
    if (d->also == NULL) {
        say_error("out of memory");
        return false;
    }
    for (size_t i = 0; i < d->n_also; i++)
        if (!open_also(d, d->also_path[i]))
            return false;
    double p = d->path == NULL && d->plan.p != 0 ? d->plan.p : MEMORY_FPR;
    if (d->in_memory && !open_in_memory(d, &d->sink, p))
        return false;
    if (d->confirm_path == NULL)
        return true;
    if (!confirm_open(&d->confirm, d->confirm_path, d->ka.rule.terminator, &err))
        return complain(&err);
    /* What is in memory is of this run, so it is known. */
    return d->in_memory || open_in_memory(d, &d->run, MEMORY_FPR);
}

static bool begin(struct sink *sink, const struct adder_options *options)
{
    struct err err;
    if (!adder_begin(&sink->adder, &sink->filter, options, &err))
        return complain(&err);
    return sink->begun = true;
}

static void report(const struct dedup *d)
{
    const struct adder *a = &d->sink.adder;
    char run[NUM_TEXT], all[NUM_TEXT];
    unsigned long long records = d->tally.records - d->tally.bad, n_new = a->n_new;
    snprintf(run, sizeof run, "%.3g", a->dropped);
    snprintf(all, sizeof all, "%.3g", a->session.counters.dropped);
    if (d->in_memory || a->session.counters.unknown)
        say_note("%llu records, %llu new; new ones probably taken for known: %s", records, n_new, run);
    else
        say_note("%llu records, %llu new; new ones probably taken for known: %s, and %s since '%s' was "
                 "made", records, n_new, run, all, d->path);
}

static int conclude(struct dedup *d)
{
    tally_report(&d->tally);
    if (d->n_unprinted > 0 && !d->in_memory)
        say_note("standard output was closed: %llu records %s '%s' were not printed",
                 (unsigned long long)d->n_unprinted, d->invert ? "known to" : "added to", d->path);
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
    struct adder_options plain = {.threads = d->ka.threads};
    sig_catch();
    signal(SIGPIPE, SIG_IGN);
    d->options.threads = d->ka.threads;
    if (!begin(&d->sink, d->in_memory ? &plain : &d->options) ||
        (d->run.open && !begin(&d->run, &plain)))
        return EXIT_ERROR;
    if (d->ka.n_keys > 0)
        dedup_given_keys(d);
    else
        dedup_input(d);
    if (!adder_end(&d->sink.adder, !d->no_sync, &err))
        d->failed = !complain(&err);
    return conclude(d);
}

static int check_options(const struct dedup *d)
{
    if (d->create && d->path == NULL)
        return opt_misuse(&cmd_dedup, "--create needs a FILTER to make");
    if (!d->create && d->path != NULL && (d->plan.n != 0 || d->plan.p != 0))
        return opt_misuse(&cmd_dedup,
                          "--capacity and --fpr are for a filter that is made: they need --create");
    if (d->create && d->dry_run)
        return opt_misuse(&cmd_dedup, "--dry-run makes no filter, so --create contradicts it");
    return 0;
}

static int run_dedup(struct dedup *d, int argc, char **argv)
{
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_dedup, argc, argv);
    while ((id = opt_next(&p)) > 0) {
        enum keyarg_result taken = keyarg_take(&d->ka, &p, id);
        if (taken == KEYARG_BAD || (taken == KEYARG_NOT_MINE && !parse_option(d, &p, id)))
            return EXIT_ERROR;
    }
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
    d->single = batch_new(&d->ka.rule);
    if (d->single == NULL)
        say_error("out of memory");
    return d->batch != NULL && d->single != NULL ? dedup(d) : EXIT_ERROR;
}

static void close_sink(struct sink *sink)
{
    if (sink->open)
        filter_close(&sink->filter);
}

static int run(int argc, char **argv)
{
    struct dedup d = {.ka = KEYARG_DEFAULT, .plan.kind = &kind_bloom};
    int status = run_dedup(&d, argc, argv);
    keyarg_batches_free(&d.ka, d.batch);
    batch_free(d.single);
    for (size_t i = 0; i < d.n_also_open; i++)
        filter_close(&d.also[i]);
    free(d.also);
    free(d.also_path);
    confirm_close(&d.confirm);
    close_sink(&d.sink);
    close_sink(&d.run);
    keyarg_free(&d.ka);
    return status;
}

const struct command cmd_dedup = {
    .name = "dedup",
    .synopsis = "[OPTION]... [FILTER [KEYFILE]...]",
    .summary = "print the records whose key is new, and add them",
    .details = "Reads records, one a line, from the KEYFILEs or standard input. Those whose key is not in "
               "FILTER yet are added to it and then printed, in order and byte for byte; of several with "
               "one key, the first. Any number of processes may share one FILTER: no record is printed "
               "twice. Without FILTER, a filter in memory serves for this one run.",
    .groups = groups,
    .run = run,
};
