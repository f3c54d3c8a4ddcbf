/* SPDX-License-Identifier: MIT */
#include "cmd/changing.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "base/num.h"
#include "base/say.h"
#include "write/combine.h"
#include "write/writer.h"

const struct opt changing_opts[] = {
    {0, "once", NULL, "count a key once per command, however often it is given",
     FLAG(struct changing, change.once), .not_with = " each"},
    {0, "each", NULL, "count every occurrence of a key (the default)", FLAG(struct changing, each)},
    {0, "batch-id", "ID",
     "do nothing if a batch with this ID was applied before; FILTER remembers the last 128",
     TEXT(struct changing, change.batch_id)},
    {0, "tmpdir", "DIR", "directory for scratch files (default: that of FILTER)",
     TEXT(struct changing, tmpdir)},
    {0},
};

/* The result of one chunk. */
struct part {
    struct feed_part part;
    uint64_t absent; /* number of its first record whose key is absent, from 1; 0: none */
};

/* Sets *i to the first key of the batch that is not in the filter; b->n: none. */
static bool find_absent(struct changing *c, struct hashes keys, const struct batch *b, size_t *i,
                        struct err *err)
{
    uint64_t present[BATCH_MAX / 64];
    if (!filter_query(&c->change.now, keys, b->n, present, err))
        return false;
    for (*i = 0; *i < b->n; ++*i)
        if (((present[*i / 64] | b->bad[*i / 64]) >> *i % 64 & 1) == 0)
            break;
    return true;
}

static bool work(void *ctx, void *slot, struct err *err)
{
    struct changing *c = ctx;
    struct part *r = slot;
    struct change *change = &c->change;
    bool asks = change->op != COUNTS_ADD && !change->skip_absent && !change->repeated;
    struct batch *b = r->part.batch;
    r->absent = 0;
    while (batch_next(b)) {
        size_t first = b->n;
        if (asks && !find_absent(c, batch_hashes(b), b, &first, err))
            return false;
        if (first < b->n) {
            r->absent = b->n_before + first + 1;
            return true;
        }
        if (change->op == COUNTS_ADD)
            r->part.tally.empty += batch_count_empty(b);
        size_t n = batch_keep_good(b);
        if (!change->repeated && !change_put(change, r->part.worker, batch_hashes(b), n, err))
            return false;
    }
    return true;
}

static bool commit(void *ctx, void *slot)
{
    struct changing *c = ctx;
    const struct part *r = slot;
    return r->absent == 0 ||
           feed_fail(&c->feed, r->absent - 1,
                     "the key is not in '%s': nothing was removed (--skip-absent skips such keys)",
                     c->change.path);
}

static bool read_batch_keys(struct changing *c, const struct keyopt *keyopt)
{
    struct stat st;
    c->feed = (struct feed){.keyopt = keyopt,
                            .title = c->change.op == COUNTS_ADD ? "adding" : "removing",
                            .filter = fstat(c->change.now.fd, &st) == 0 ? &st : NULL,
                            .ctx = c,
                            .slot_size = sizeof(struct part),
                            .samples = (c->change.now.header.compat & COMPAT_PROFILE) != 0,
                            .work = work,
                            .commit = commit};
    return feed_run(&c->feed);
}

static void report_change(const struct changing *c)
{
    const struct counts_seen *seen = &c->change.made.seen;
    uint64_t records = tally_keys(&c->feed.tally), n = c->change.n, changed;
    const char *what;
    if (c->change.op == COUNTS_ADD) {
        changed = seen->made - seen->a;
        what = "new";
    } else {
        changed = seen->a - seen->made;
        what = "gone";
    }
    say_note("%" PRIu64 " record%s, %" PRIu64 " distinct key%s, %" PRIu64 " of them %s; %" PRIu64
             " key%s in the filter",
             records, num_plural(records), n, num_plural(n), changed, what, seen->made,
             num_plural(seen->made));
}

static void warn_if_full(const struct changing *c)
{
    char text[WRITER_WARNING];
    double p = combine_fpr(&c->change.made);
    const struct header *h = &c->change.made.header;
    const struct layer *made = &h->layers[0];
    /* With whole hashes, no lower FPR is possible. */
    if (c->change.op != COUNTS_ADD || p <= writer_warn_fpr(h) || combine_bits(&made, 1) == 64)
        return;
    writer_warn(h, c->change.path, p, text);
    say_warning("%s", text);
}

static void report_batch(const struct changing *c)
{
    const struct change *change = &c->change;
    const struct counts_seen *seen = &change->made.seen;
    uint64_t lacking = seen->lacking;
    uint64_t left =
        seen->both - (seen->a - seen->made); /* added more often than they are removed */
    feed_report(&c->feed);
    if (change->applied) {
        warn_if_full(c);
        if (lacking > 0 && change->op != COUNTS_ADD)
            say_note("%" PRIu64 " key%s not in the filter%s, and skipped", lacking,
                     lacking == 1 ? " was" : "s were",
                     change->op == COUNTS_SUBTRACT ? ", or not so often" : "");
        if (left > 0 && change->op == COUNTS_SUBTRACT)
            say_note("%" PRIu64 " of these keys %s still in '%s', where %s added more often; --all "
                     "removes a key entirely",
                     left, left == 1 ? "is" : "are", change->path,
                     left == 1 ? "it was" : "they were");
        if (c->verbose)
            report_change(c);
    } else if (c->verbose) {
        say_note(change->repeated ? "a batch of this ID has been applied before: nothing was done"
                                  : "no keys: nothing was done");
    }
}

static bool apply_batch(struct changing *c, struct keyopt *keyopt)
{
    struct change *change = &c->change;
    struct err err;
    change->threads = keyopt->threads;
    change->progress = keyopt->progress;
    if (!change_open(change, &err) ||
        !keyopt_adopt(keyopt, &change->now.header, change->path, &err))
        return say_failure(&err);
    adding_compare(&change->now.header, change->path, &c->made);
    if (!keyopt_check_memory(keyopt, change_min_memory(change)))
        return false;
    if (!change_begin(change, &keyopt->rule, keyopt->memory, c->tmpdir, &err))
        return say_failure(&err);
    keyopt->threads = change->threads;
    if (!read_batch_keys(c, keyopt))
        return false;
    change->learned = c->feed.profile;
    if (!change_apply(change, tally_keys(&c->feed.tally), &err))
        return say_failure(&err);
    report_batch(c);
    return true;
}

int changing_run(struct changing *c, struct keyopt *keyopt)
{
    bool ok = apply_batch(c, keyopt);
    change_close(&c->change);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}
