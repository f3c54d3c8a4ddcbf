/* SPDX-License-Identifier: MIT */
#include "cmd/adding.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/disk.h"
#include "base/num.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/mismatch.h"
#include "cmd/warn.h"
#include "keys/survey.h"
#include "file/chain.h"
#include "file/filter.h"

const struct opt adding_opts[] = {
    {0, "max-fpr", "P",
     "stop before the current false-positive rate exceeds P (default: 10 times the design rate, "
     "unless FILTER grows)",
     FPR(struct adding, options.max_fpr), .needs = " FILTER"},
    {0, "rotate-at-capacity", NULL,
     "with --generations: rotate whenever the newest generation is full",
     FLAG(struct adding, options.rotate), .needs = " FILTER"},
    {0, "no-sync", NULL,
     "do not wait for the disk; faster, but keys may be lost if the machine crashes",
     FLAG(struct adding, no_sync), .needs = " FILTER"},
    {0},
};

const struct opt adding_make_opts[] = {
    {0, "create", NULL, "make FILTER if it does not exist; a file grows when it is full",
     FLAG(struct adding, create), .needs = " FILTER"},
    {'n', "capacity", "N", "make FILTER for N distinct keys", AMOUNT(struct adding, design.n)},
    {'p', "fpr", "P",
     "make FILTER with this false-positive rate; default: 1e-6, in Redis the layout's",
     FPR(struct adding, design.p)},
    {0, "fixed", NULL, "make a FILTER of that --capacity that does not grow",
     FLAG(struct adding, fixed), .needs = " create", .not_with = " URI generations",
     .why = "is for a file that is made"},
    {0, "generations", "G",
     "make a FILTER that forgets: 'seen rotate' drops the oldest of G generations",
     GENERATIONS(struct adding, design.generations), .needs = " create", .not_with = " URI",
     .why = "is for a file that is made"},
    {0, "forget-after", "TIME", "make a FILTER that forgets keys after TIME (30d)",
     AGE(struct adding, design.period), .needs = " create", .not_with = " URI generations fixed",
     .why = "is for a file that is made"},
    {0, "no-profile", NULL,
     "make a FILTER that keeps no account of what keys look like, which others could read",
     FLAG(struct adding, design.no_profile), .needs = " create", .not_with = " URI",
     .why = "is for a file that is made"},
    {0},
};

/* Of a filter in memory. So low that practically no record is lost to false positives. */
static const double MEMORY_FPR = 1e-9;

/* The design. Without a capacity, it gets one from a look at the input; the number of distinct keys
 * counts only without --also, whose filters may have many of them. */
static struct design sized_design(const struct adding *a)
{
    struct design design = a->design;
    const struct input_spec spec = keyopt_input(&a->keyopt);
    uint64_t keys = 0, records = 0;
    if (design.n == 0 && a->keyopt.n_keys == 0)
        records = survey(&spec, &a->keyopt.rule, &keys);
    if (design.n == 0)
        design_expect(&design, records, a->sources.n == 0 ? keys : 0);
    return design;
}

/* Can there be a filter of this design? */
static bool check_options(const struct adding *a)
{
    const struct design *d = &a->design;
    if (!a->create && a->path != NULL && (d->n != 0 || d->p != 0))
        return opt_refuse(a->keyopt.command,
                          "--capacity and --fpr are for a new filter: they need --create");
    if (d->n == 0 && d->generations > 0)
        return opt_refuse(a->keyopt.command,
                          d->period != 0
                              ? "--forget-after needs --capacity, the keys of that time"
                              : "--generations needs --capacity, the keys of all generations "
                                "together");
    return d->n != 0 || !a->fixed || opt_refuse(a->keyopt.command, "--fixed needs --capacity");
}

/* Is the first operand a key file? An empty one alone may be meant for FILTER, which is to take the
 * keys of standard input. */
static bool is_first_list(const struct adding *a, const struct opt_parser *p)
{
    const struct keyopt *keyopt = &a->keyopt;
    const struct add_options *o = &a->options;
    bool wants_filter =
        a->create || o->max_fpr != 0 || o->rotate || o->sync_every != 0 || a->no_sync;
    if (!a->lists || wants_filter || keyopt->n_keys > 0)
        return false;
    for (int i = 1; i < p->n_operands; i++)
        if (keyopt_is_filter(p->operand[i]))
            return false;
    return keyopt_is_records(keyopt, p->operand[0], p->n_operands > 1);
}

bool adding_parse(struct adding *a, struct opt_parser *p, void *into)
{
    if (!opt_parse(p, into))
        return false;
    p->status = EXIT_ERROR;
    a->path = p->n_operands == 0 || is_first_list(a, p) ? NULL : p->operand[0];
    a->sources.keyopt = &a->keyopt;
    a->feed.keyopt = &a->keyopt;
    if (a->design.period != 0)
        a->design.generations = CHAIN_PERIODS;
    a->design.grow = a->design.generations == 0 && !a->fixed;
    return keyopt_files(&a->keyopt, p, a->path != NULL) && keyopt_check_memory(&a->keyopt, 0) &&
           check_options(a);
}

/* Plans a filter file. */
static bool plan_file(void *ctx, struct header *h, struct err *err)
{
    struct adding *a = ctx;
    struct keyopt *keyopt = &a->keyopt;
    if (!keyopt_new(keyopt, err) || !keyopt_check_digest(keyopt, err))
        return false;
    const struct design design = sized_design(a);
    keyopt->rule.reading = reading_of(&keyopt->rule);
    keyopt->rule.profiled = !design.no_profile && profile_suits(&keyopt->rule);
    header_begin(h, &keyopt->rule, false);
    return header_design(h, &design, 0, err);
}

static bool adopt_rule(struct adding *a, struct err *err)
{
    const struct store *s = a->store;
    warn_slot(s);
    a->keyopt.rule.bytes |= s->wants_bytes;
    return keyopt_adopt(&a->keyopt, s->header, s->name, err);
}

/* Warns of a filter of another program that was made for fewer keys than are asked for. Its own
 * rules may make one for a few more. */
static void compare_foreign(const struct store *s, uint64_t n)
{
    struct facts facts;
    char text[NUM_TEXT];
    store_describe(s, &facts);
    const struct header *h = facts.layers.header;
    uint64_t capacity = h->n_design * (facts.n_shards > 1 ? facts.n_shards : 1);
    bool is_known = kind_is_foreign(h->layers[0].kind) && (h->compat & COMPAT_ASSUMED) == 0;
    if (is_known && capacity != 0 && n > capacity)
        say_warning("'%s' is there already, with a capacity of %s: --capacity has no effect",
                    s->name, num_show_count(text, (double)capacity));
}

bool adding_open_memory(struct adding *a, struct err *err)
{
    struct header h;
    if ((a->sources.n == 0 && a->keyopt.secret_path != NULL && !keyopt_new(&a->keyopt, err)) ||
        !keyopt_check_digest(&a->keyopt, err))
        return false;
    struct design design = sized_design(a);
    design.grow = design.more = true;
    design.p = design.p > 0 ? design.p : MEMORY_FPR;
    header_begin(&h, &a->keyopt.rule, false);
    if (!header_design(&h, &design, 0, err))
        return false;
    a->store = store_in_memory(&h, err);
    a->keyopt.apart = true;
    if (a->store == NULL && a->design.n == 0 && design_usual(&h))
        a->store = store_in_memory(&h, err);
    return a->store != NULL;
}

bool adding_open(struct adding *a, struct err *err)
{
    const struct store_plan plan = {
        .n = a->design.n, .p = a->design.p, .header = plan_file, .ctx = a};
    const struct open_options *open = &a->sources.open;
    a->there = true;
    a->store = a->create ? store_prepare(a->path, &plan, open, &a->there, err)
                         : store_open(a->path, STORE_WRITE, open, err);
    if (a->store == NULL)
        return false;
    if (a->there) {
        adding_compare(a->store->header, a->path, &a->design);
        compare_foreign(a->store, a->design.n);
    }
    return adopt_rule(a, err);
}

/* Limits for the keys of refit.h, 8 bytes each: 128 MiB of memory, but at most half of --memory;
 * and 1 GiB of disk, but at most 1/8 of the free disk space. */
enum { KEPT_IN_MEMORY = 16 << 20, KEPT_ON_DISK = 128 << 20, PART_OF_DISK = 8 };

/* For a file that this process made, and not of the capacity that was asked for. */
static void begin_refit(struct adding *a)
{
    const struct store *s = a->store;
    struct err ignored;
    uint64_t bytes;
    if (s->file == NULL || !format_grows(s->header) || a->design.n != 0 ||
        (a->scratch_dir = disk_dir_of(s->name)) == NULL ||
        !disk_space(a->scratch_dir, &bytes, &ignored))
        return;
    const uint64_t disk = bytes / PART_OF_DISK / sizeof(uint64_t);
    const uint64_t half = a->keyopt.memory / 2 / sizeof(uint64_t);
    const struct refit_limits limits = {.most = KEPT_IN_MEMORY +
                                                (disk < KEPT_ON_DISK ? disk : KEPT_ON_DISK),
                                        .in_memory = half < KEPT_IN_MEMORY ? half : KEPT_IN_MEMORY,
                                        .scratch_dir = a->scratch_dir,
                                        .threads = a->keyopt.threads};
    a->refit = refit_new(s->header, &s->file->status, &a->keyopt.rule, &limits);
}

bool adding_make(struct adding *a, struct err *err)
{
    char layout[LAYOUT_TEXT];
    struct store *s = a->store;
    if (a->there)
        return true;
    const struct header planned = *s->header;
    if (!keyopt_check_first(&a->keyopt, err) ||
        !writer_check(&planned, s->name, &a->options, err) || !store_make(s, layout, err))
        return false;
    if (layout[0] != '\0')
        say_note("made '%s' with layout=%s", s->name, layout);
    adding_compare(s->header, s->name, &a->design);
    if (!adopt_rule(a, err))
        return false;
    /* Another process may have made it first. */
    if (memcmp(s->header->id, planned.id, sizeof planned.id) == 0)
        begin_refit(a);
    return true;
}

void adding_compare(const struct header *h, const char *name, const struct design *d)
{
    uint64_t n = d->n;
    double p = d->p;
    char text[NUM_TEXT];
    /* Another program's rules may make another size of what was asked for. */
    if (kind_is_foreign(h->layers[0].kind))
        return;
    if (p != 0 && p != h->fpr_design)
        say_warning("'%s' is there already, with a false-positive rate of %s: --fpr has no effect",
                    name, num_show_fpr(text, h->fpr_design));
    unsigned generations = chain_generations(h);
    if (d->generations != 0 && d->period != h->period) {
        if (h->period != 0)
            say_warning("'%s' is there already, and forgets after %s: %s has no effect", name,
                        num_show_age(text, chain_age(h)),
                        d->period != 0 ? "--forget-after" : "--generations");
        else
            say_warning("'%s' is there already, and does not forget by time: --forget-after has no "
                        "effect",
                        name);
    } else if (d->generations != 0 && generations == 0)
        say_warning("'%s' is there already, without generations: --generations has no effect",
                    name);
    else if (d->generations != 0 && d->generations != generations)
        say_warning("'%s' is there already, with %u generations: --generations has no effect", name,
                    generations);
    if (!d->grow && d->generations == 0 && format_grows(h))
        say_warning("'%s' is there already, and grows: --fixed has no effect", name);
    if (d->no_profile && (h->compat & COMPAT_PROFILE) != 0)
        say_warning("'%s' is there already, and keeps a profile of its keys: --no-profile has no "
                    "effect",
                    name);
    if (n != 0 && format_grows(h) && n != h->layers[0].n_design)
        say_warning("'%s' is there already, and grows: --capacity has no effect", name);
    else if (n != 0 && !format_grows(h) && n != h->n_design)
        say_warning("'%s' is there already, with a capacity of %s: --capacity has no effect", name,
                    num_show_count(text, (double)h->n_design));
}

/* Workers. */

static bool make_record_room(struct added *r, size_t n)
{
    if (r->capacity >= n)
        return true;
    size_t capacity = 2 * n + BATCH_MAX, words = capacity / 64;
    const char **start = realloc(r->start, (capacity + 1) * sizeof *start);
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
    r->capacity = capacity;
    return true;
}

/* Notes where the records of a batch lie. A batch of fewer than BATCH_MAX is the last. */
static bool note_records(struct added *r, const struct batch *b)
{
    size_t n = r->keys.n;
    if (!make_record_room(r, n + BATCH_MAX))
        return false;
    memcpy(r->start + n, b->record, (b->n + 1) * sizeof *b->record);
    memcpy(r->bad + n / 64, b->bad, sizeof b->bad);
    return true;
}

/* The records of a batch whose key is in a filter of --also count as bad: they are not added.
 * Before that, note_records keeps what is bad as a record. */
static bool take_record_batch(struct adding *a, struct batch *b, struct added *r, struct err *err)
{
    struct sources_answers known;
    if (a->feed.finish != NULL && !note_records(r, b))
        return fail(err, "out of memory");
    if (a->feed.finish == NULL) /* add */
        r->part.tally.empty += batch_count_empty(b);
    if (a->sources.n > 0 && !sources_query(&a->sources, b, &known, err))
        return false;
    for (size_t w = 0; a->sources.n > 0 && w < BATCH_MAX / 64; w++)
        b->bad[w] |= known.present[w];
    if (!writer_keys_take(&r->keys, b))
        return fail(err, "out of memory");
    if (a->refit != NULL)
        refit_put(a->refit, r->part.worker, batch_hashes(b), batch_keep_good(b));
    return true;
}

static bool take_chunk(void *ctx, void *slot, struct err *err)
{
    struct adding *a = ctx;
    struct added *r = slot;
    struct batch *b = r->part.batch;
    bool ok = true;
    r->keys.n = r->done = 0;
    while (ok && batch_next(b))
        ok = take_record_batch(a, b, r, err);
    return ok;
}

/* The same between entering and leaving the filters of --also. */
static bool take_asking(void *ctx, void *slot, struct err *err)
{
    struct adding *a = ctx;
    struct added *r = slot;
    return sources_ask(&a->sources, &r->part, take_chunk, a, r, err);
}

/* Commits: one chunk at a time. */

/* Prints the warnings of the last call, once. */
static void warn_once(struct adding *a)
{
    struct add_state *s = &a->store->state;
    if (s->clock != a->clock)
        warn_clock(s->clock, a->store->name);
    a->clock = s->clock;
    if (s->warning[0] != '\0')
        say_warning("%s", s->warning);
    s->warning[0] = '\0';
}

/* How many of the first keys of a chunk are there already? */
static unsigned count_found(const struct adding *a, const struct added *r)
{
    struct err ignored;
    uint64_t present[BATCH_MAX / 64];
    unsigned found = 0;
    size_t n = r->keys.n < MISMATCH_KEYS ? r->keys.n : MISMATCH_KEYS;
    if (!store_query(a->store, writer_keys_hashes(&r->keys), n, present, &ignored))
        return MISMATCH_KEYS;
    for (size_t i = 0; i < n; i++)
        found += bit_of(present, i) && !bit_of(r->keys.known, i);
    return found;
}

/* Compares the first keys with the filter's, if that has hardly any of them. False: they are cut in
 * another way, and would fit if they were cut as these. */
static bool compare(struct adding *a, const struct added *r)
{
    const struct chunk *chunk = r->part.chunk;
    struct mismatch m = {.rule = &a->keyopt.rule};
    struct err err;
    a->compared = true;
    mismatch_take(&m, chunk);
    bool again = false, ok = store_enter(a->store, 0, &err), fits = true;
    m.found = ok ? count_found(a, r) : MISMATCH_KEYS;
    /* -f 0 says that whole records are the keys, whatever those of the filter are. */
    const struct key_rule *rule = &a->keyopt.rule;
    bool insists =
        a->keyopt.fields != NULL && rule->field[0] == 0 && rule->csv == NULL && rule->paths == NULL;
    bool few = mismatch_finds_few(&m) && !insists;
    if (few)
        fits = !mismatch_recut(&m, a->store, chunk, &err);
    if (!fits)
        a->feed.failed = !say_failure(&err);
    else if (few && a->feed.advice.said == 0)
        mismatch_note(&m, a->store);
    store_leave(a->store, ok, &again, &err);
    return fits;
}

/* Adds the keys of a chunk. False if it stopped before the last one. The reason was printed, unless
 * it was a signal. */
static bool add_chunk(void *ctx, void *slot)
{
    struct adding *a = ctx;
    struct added *r = slot;
    struct err err;
    bool compares = !a->compared && a->store->header->profile.n > 0 && r->keys.n > 0;
    if (a->feed.failed || (compares && !compare(a, r))) /* printing may fail meanwhile */
        return false;
    enum add_result result =
        store_add(a->store, writer_keys_hashes(&r->keys), r->keys.known, r->keys.n, &r->done, &err);
    warn_once(a);
    if (result == ADD_OK)
        return true;
    a->feed.tally.records += r->done; /* of a chunk that does not come to its end */
    if (result == ADD_FULL)
        return feed_fail(&a->feed, r->done, "%s", err.text);
    if (sig_caught())
        return false;
    say_failure(&err);
    a->feed.failed = true;
    return false;
}

static void slot_free(void *slot)
{
    struct added *r = slot;
    output_free(&r->out);
    free(r->start);
    free(r->bad);
    free(r->selected);
    writer_keys_free(&r->keys);
}

/* A signal is no failure: adding_end tells of it. */
static void fail_unless_caught(struct adding *a, const struct err *err)
{
    if (!sig_caught() && !a->feed.failed) {
        say_failure(err);
        a->feed.failed = true;
    }
}

bool adding_run(struct adding *a)
{
    struct err err;
    struct feed *f = &a->feed;
    a->options.threads = a->keyopt.threads;
    a->options.may_repeat = a->feed.finish == NULL;
    if (!store_add_begin(a->store, &a->options, &err)) {
        fail_unless_caught(a, &err);
        return false;
    }
    warn_once(a);
    if (a->store->file != NULL)
        f->filter = &a->store->file->status;
    f->samples = a->store->file != NULL && (a->store->header->compat & COMPAT_PROFILE) != 0;
    f->prompt = true;
    f->ctx = a;
    f->slot_size = sizeof(struct added);
    f->work = a->sources.n > 0 ? take_asking : take_chunk;
    f->commit = add_chunk;
    f->slot_free = slot_free;
    feed_run(f);
    a->store->state.learned = f->profile;
    if (!store_add_end(a->store, !a->no_sync, &err))
        fail_unless_caught(a, &err);
    warn_once(a);
    feed_report(&a->feed);
    return true;
}

int adding_end(struct adding *a)
{
    bool failed = a->feed.failed;
    /* No refit after a run that stopped early: workers may have put keys that were not added. The
     * number of keys need not show it, because another process may have added as many. */
    if (a->refit != NULL && !failed && !a->stopped && !sig_caught())
        refit_apply(a->refit, a->store->name, a->no_sync);
    return failed ? EXIT_ERROR : sig_caught() ? 128 + sig_caught() : EXIT_SELECTED;
}

void adding_close(struct adding *a)
{
    refit_free(a->refit);
    free(a->scratch_dir);
    sources_close(&a->sources);
    store_close(a->store);
    keyopt_free(&a->keyopt);
}
