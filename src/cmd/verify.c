#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/visible.h"
#include "cmd/cmd.h"
#include "cmd/warn.h"
#include "store/filter.h"
#include "store/session.h"

struct verify {
    bool repair, progress;
    unsigned threads;
};

static const struct opt verify_opts[] = {
    {0, "repair", NULL,
     "repair a file after a crash of the machine while keys were added: "
     "recompute its checksums and mark it clean",
     FLAG(struct verify, repair)},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)",
     THREADS(struct verify, threads)},
    {0, "progress", NULL, "show progress even if stderr is not a terminal",
     FLAG(struct verify, progress)},
    {0},
};

static const struct opt_group groups[] = {{"Options", verify_opts, 0, NULL}, {0}};

/* The damage found: the first place in the file, and the number of places. */
struct findings {
    uint64_t n, offset;
    char text[200];
    uint64_t n_pages;   /* of them, pages */
    uint64_t unchecked; /* pages that cannot be checked: a writer has touched them */
    bool disagree;      /* the bits hold n_bits keys, and another number was counted */
    double n_bits;
};

__attribute__((format(printf, 3, 4))) static void note(struct findings *found, uint64_t offset,
                                                       const char *fmt, ...)
{
    if (found->n++ > 0 && offset >= found->offset)
        return;
    found->offset = offset;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(found->text, sizeof found->text, fmt, ap);
    va_end(ap);
}

static void note_page(void *ctx, unsigned layer, uint64_t page, uint64_t offset, const char *why)
{
    ((struct findings *)ctx)->n_pages++;
    note(ctx, offset, "page %" PRIu64 " of layer %u %s", page, layer, why);
}

static void check_zero(const struct filter *f, uint64_t from, uint64_t to, const char *what,
                       struct findings *found)
{
    for (uint64_t at = from; at < to; at++)
        if (f->map[at] != 0) {
            note(found, at, "%s", what);
            return;
        }
}

static bool is_immutable(const struct filter *f)
{
    return format_is_immutable(&f->header);
}

static void check_slot(const struct filter *f, uint64_t offset, struct findings *found)
{
    struct header h;
    struct err why;
    if (!format_decode(f->map + offset, FORMAT_PAGE, &h, &why))
        note(found, offset, "one of the two copies of the header is not valid");
}

static void check_slots(const struct filter *f, enum filter_health health, struct findings *found)
{
    if (is_immutable(f))
        return; /* its only header was checked when it was opened */
    /* A live writer writes one slot at a time, and filter_open has waited for it to finish. */
    if (f->slot_damaged) {
        check_slot(f, FORMAT_SLOT_A, found);
        check_slot(f, FORMAT_SLOT_B, found);
    }
    if (health == FILTER_CLEAN && !session_page_fits(f))
        check_zero(f, FORMAT_SESSION, FORMAT_FIRST_LAYER,
                   "the session page of a clean file is not zero", found);
    else if (health == FILTER_CLEAN)
        check_zero(f, FORMAT_SESSION + SESSION_USED, FORMAT_FIRST_LAYER,
                   "the session page of a clean file is not zero", found);
}

/* Checks the padding, which nothing else reads, and the bitmap of touched pages, which only writers
 * use. */
static void check_tables(const struct filter *f, enum filter_health health, struct findings *found)
{
    static const char padding[] = "padding is not zero";
    uint64_t at = is_immutable(f) ? format_len(&f->header) : FORMAT_FIRST_LAYER;
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        uint64_t pages = layer_pages(l);
        if (is_immutable(f)) {
            check_zero(f, at, l->data_off, padding, found);
            check_zero(f, l->data_off + l->data_len, l->sums_off, padding, found);
            at = l->sums_off + FORMAT_SUM * pages;
            continue;
        }
        check_zero(f, at, l->sums_off, padding, found);
        at = l->sums_off + FORMAT_SUM * pages;
        if (l->touched_off != 0) {
            check_zero(f, at, l->touched_off, padding, found);
            at = l->touched_off + (pages + 7) / 8;
            if (health == FILTER_CLEAN && !l->is_void)
                check_zero(f, l->touched_off, at, "a clean file has pages marked as touched",
                           found);
        }
        check_zero(f, at, l->data_off, padding, found);
        at = l->data_off + l->data_len;
    }
}

/* Checks what single pages do not show. */
static void check_layers(const struct filter *f, unsigned threads, struct findings *found)
{
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        struct err why;
        if (l->kind->check_whole != NULL && !l->kind->check_whole(l, f->data[i], threads, &why))
            note(found, l->data_off, "layer %u: %s", i, why.text);
    }
}

/* Do the counters agree with each other, and with the bits? Bits are no damage whose checksums
 * hold: chosen keys set fewer or more of them than others. */
static void check_counters(const struct filter *f, unsigned threads, struct findings *found)
{
    const struct counters *c = &f->header.counters;
    uint64_t offset = !is_immutable(f) && f->header.epoch % 2 != 0 ? FORMAT_SLOT_B : FORMAT_SLOT_A;
    if (c->unknown)
        return;
    /* A ring keeps no count of the keys that it has forgotten. */
    bool forgets = f->header.policy == POLICY_RING;
    if (c->keys_added > c->records ||
        (!forgets && c->n_keys < (double)c->keys_added * (1 - 1e-9))) {
        note(found, offset, "the counters in the header contradict each other");
        return;
    }
    struct census layer[FORMAT_MAX_LAYERS];
    const struct layers layers = filter_layers(f);
    layers_census_each(&layers, threads, layer);
    found->disagree = !layers_counters_agree(&f->header, layer, &found->n_bits);
}

static enum filter_health check_all(const struct filter *f, unsigned threads,
                                    struct findings *found)
{
    enum filter_health health = filter_health(f);
    memset(found, 0, sizeof *found);
    check_slots(f, health, found);
    check_tables(f, health, found);
    filter_check_pages(f, threads, &found->unchecked, note_page, found);
    if (health == FILTER_CLEAN && found->n == 0)
        check_layers(f, threads, found);
    if (health == FILTER_CLEAN && found->n == 0)
        check_counters(f, threads, found);
    return health;
}

/* Findings are void if a writer came or went during the check. Then the check is repeated, up to
 * this number of tries. */
enum { TRIES = 5 };

static bool check_stable(struct filter *f, unsigned threads, enum filter_health *health,
                         struct findings *found, struct err *err)
{
    for (int tries = 0; tries < TRIES; tries++) {
        uint64_t epoch = f->header.epoch;
        *health = check_all(f, threads, found);
        if (found->n == 0 || is_immutable(f))
            return filter_check_intact(f, err);
        if (!filter_reload(f, err))
            return false;
        if (f->header.epoch == epoch)
            return true;
    }
    return fail(err, "'%s' kept changing while it was checked", f->path);
}

static void print_name(const struct filter *f)
{
    visible_print(stdout, f->path);
    fputs(": ", stdout);
}

static void report_damage(const struct filter *f, const struct findings *found)
{
    char more[60] = "";
    if (found->n > 1)
        snprintf(more, sizeof more, " (and %" PRIu64 " more place%s)", found->n - 1,
                 num_plural(found->n - 1));
    say_error("'%s' is damaged at offset %" PRIu64 ": %s%s", f->path, found->offset, found->text,
              more);
}

static void report_dirty(const struct filter *f, const struct findings *found)
{
    say_error("'%s' is dirty: since a crash of the machine or a failed sync, or in a copy that was "
              "made while keys were added, %" PRIu64
              " page%s not match, the first at offset %" PRIu64
              "; if they are not damaged, --repair puts the file in order",
              f->path, found->n, found->n == 1 ? " does" : "s do", found->offset);
}

static bool report(const struct filter *f, enum filter_health health, const struct findings *found)
{
    const char *s = num_plural(found->unchecked);
    if (found->n > 0) {
        bool dirty = found->n == found->n_pages && session_is_uncertain(f);
        (dirty && health == FILTER_DIRTY ? report_dirty : report_damage)(f, found);
        return false;
    }
    print_name(f);
    if (health == FILTER_WRITING)
        printf("ok, except %" PRIu64 " page%s being written\n", found->unchecked, s);
    else if (found->unchecked > 0)
        printf("ok, except %" PRIu64
               " page%s that a writer left, which the next writer or --repair "
               "puts in order\n",
               found->unchecked, s);
    else
        puts("ok");
    if (found->disagree)
        warn_disagreement(f->path, found->n_bits, f->header.counters.n_keys);
    return true;
}

static bool repair_file(struct filter *f, unsigned threads, struct err *err)
{
    uint64_t differing;
    bool dirty = filter_health(f) == FILTER_DIRTY, slot_damaged = f->slot_damaged;
    if (!session_repair(f, threads, &differing, err))
        return false;
    progress_end();
    if (dirty || slot_damaged)
        print_name(f);
    if (dirty)
        printf("repaired: %" PRIu64 " page%s had changed since the checksums were made; add the "
               "keys of the interrupted run again\n",
               differing, num_plural(differing));
    else if (slot_damaged)
        puts("repaired: a damaged copy of the header");
    return true;
}

static bool repair_and_check(const struct verify *v, struct filter *f, enum filter_health *health,
                             struct findings *found)
{
    struct err err;
    bool ok = true;
    if (v->repair && !is_immutable(f)) {
        progress_begin("repairing", v->progress, false);
        ok = repair_file(f, v->threads, &err);
        progress_end();
    }
    if (ok) {
        progress_begin("checking", v->progress, false);
        ok = check_stable(f, v->threads, health, found, &err);
        progress_end();
    }
    if (!ok)
        say_failure(&err);
    return ok;
}

/* With --repair, opens the file for writing, unless it is immutable: damage to an immutable file
 * cannot be repaired. */
static bool open_file(const struct verify *v, struct filter *f, const char *path, struct err *err)
{
    if (v->repair) {
        if (!filter_open(f, path, FILTER_READ, err))
            return false;
        if (is_immutable(f))
            return true;
        filter_close(f);
    }
    return filter_open(f, path, v->repair ? FILTER_WRITE : FILTER_READ, err);
}

static bool verify_file(const struct verify *v, const char *path)
{
    struct filter f;
    struct err err;
    struct findings found;
    enum filter_health health;
    if (!open_file(v, &f, path, &err))
        return say_failure(&err);
    bool ok = repair_and_check(v, &f, &health, &found) && report(&f, health, &found);
    filter_close(&f);
    return ok;
}

static int run(int argc, char **argv)
{
    struct verify v = {.threads = parallel_cpus()};
    struct opt_parser p;
    bool ok = true;
    if (!opt_parse(&p, &cmd_verify, argc, argv, &v))
        return p.status;
    for (int i = p.first; i < argc; i++)
        ok = verify_file(&v, argv[i]) && ok;
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

const struct command cmd_verify = {
    .name = "verify",
    .synopsis = "[OPTION]... FILTER...",
    .summary = "check a filter file for damage, or repair it",
    .details = "Checks headers, lengths, checksums and counters of each FILTER, and says \"ok\" or "
               "names the first damage by its offset in the file and its meaning.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
