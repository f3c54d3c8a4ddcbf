/* SPDX-License-Identifier: MIT */
/* Visits the hashes of a keyset, partition by partition. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "keys/keyset_parts.h"
#include "keys/sort.h"

/* ---- The hashes of a partition as they are. */

/* A partition whose hashes a worker passes to `visit`. */
struct partition {
    const struct keyset *ks;
    struct worker *worker;
    unsigned number;
    keyset_visitor *visit;
    void *ctx;
};

static bool pass_on(const struct partition *p, const uint64_t *hash, size_t n, struct err *err)
{
    return p->visit(p->ctx, (unsigned)(p->worker - p->ks->workers), p->number, hash, n, err);
}

static bool pass_run(const struct partition *p, const struct worker *of, struct run run,
                     struct err *err)
{
    uint64_t *buffer = p->worker->buffer;
    for (size_t n; run.n > 0; run.n -= n, run.off += n * sizeof *buffer) {
        n = run.n < BUFFER ? (size_t)run.n : BUFFER;
        if (!keyset_read(of, buffer, n * sizeof *buffer, run.off, err) ||
            !pass_on(p, buffer, n, err))
            return false;
    }
    return true;
}

static bool pass_spilled(const struct partition *p, const struct worker *of, struct err *err)
{
    struct worker *worker = p->worker;
    if (worker->buffer == NULL && (worker->buffer = malloc(BUFFER * sizeof(uint64_t))) == NULL)
        return fail(err, "out of memory");
    for (size_t i = 0; i < of->n_spills; i++) {
        struct run run;
        if (!keyset_read(of, &run, sizeof run, of->spills[i] + p->number * sizeof run, err) ||
            !pass_run(p, of, run, err))
            return false;
    }
    return true;
}

static bool pass_share(const struct partition *p, const struct worker *of, struct err *err)
{
    const struct share *s = &of->share[p->number];
    size_t n_open;
    const uint64_t *open = open_block(of, p->number, &n_open);
    for (size_t i = 0; i < s->n_full; i++)
        if (!pass_on(p, s->full[i], BLOCK, err))
            return false;
    return (n_open == 0 || pass_on(p, open, n_open, err)) &&
           (s->n_spilled == 0 || pass_spilled(p, of, err));
}

static bool pass_partition(const struct partition *p, struct err *err)
{
    for (unsigned w = 0; w < p->ks->spec.workers; w++)
        if (!pass_share(p, &p->ks->workers[w], err))
            return false;
    return true;
}

static uint64_t partition_size(const struct keyset *ks, unsigned partition)
{
    uint64_t n = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        const struct share *s = &ks->workers[w].share[partition];
        size_t n_open;
        open_block(&ks->workers[w], partition, &n_open);
        n += s->n_full * BLOCK + n_open + s->n_spilled;
    }
    return n;
}

/* ---- A unit, sorted: the hashes whose first bits are the same, of one partition or of several. */

static unsigned unit_bits(const struct keyset *ks)
{
    return ks->bits < KEYSET_BITS ? ks->bits : KEYSET_BITS;
}

static unsigned unit_width(const struct keyset *ks)
{
    return 64 - unit_bits(ks);
}

static uint64_t unit_size(const struct keyset *ks, uint64_t unit)
{
    unsigned each = 1U << (KEYSET_BITS - unit_bits(ks));
    uint64_t n = 0;
    for (unsigned i = 0; i < each; i++)
        n += partition_size(ks, (unsigned)unit * each + i);
    return n;
}

/* The hashes of a unit, being gathered in worker->gathered. If repeats are counted, each is
 * followed by the number of its repeats. */
struct gathering {
    const struct keyset *ks;
    struct worker *worker;
    uint64_t unit;
    size_t n; /* hashes */
    bool had_repeats;
};

/* The numbers that a gathered hash takes. */
static size_t stride_of(const struct keyset *ks)
{
    return ks->spec.counts ? 2 : 1;
}

/* In both buffers. */
static uint64_t memory_of_one(const struct keyset *ks)
{
    return 2 * stride_of(ks) * sizeof(uint64_t);
}

static void sort_gathered(struct gathering *g)
{
    uint64_t *a = g->worker->gathered;
    size_t n = 0, before = g->n;
    if (g->ks->spec.counts) {
        sort_pairs(a, g->worker->sorted, g->n, unit_width(g->ks));
        for (size_t i = 0; i < g->n; i++) {
            if (n > 0 && a[2 * i] == a[2 * (n - 1)]) {
                a[2 * (n - 1) + 1] += a[2 * i + 1] + 1;
                continue;
            }
            a[2 * n] = a[2 * i];
            a[2 * n++ + 1] = a[2 * i + 1];
        }
    } else {
        sort_hashes(a, g->worker->sorted, g->n, unit_width(g->ks));
        for (size_t i = 0; i < g->n; i++)
            if (n == 0 || a[i] != a[n - 1])
                a[n++] = a[i];
    }
    g->had_repeats |= n < before;
    g->n = n;
}

static void remove_repeats(struct gathering *g)
{
    if (g->ks->spec.counts) {
        sort_gathered(g);
        return;
    }
    size_t n = distinct(g->worker->gathered, g->worker->sorted, g->n, unit_width(g->ks));
    g->had_repeats |= n < g->n;
    g->n = n;
}

static bool fail_crowded(const struct gathering *g, struct err *err)
{
    char count[NUM_TEXT], bytes[NUM_TEXT];
    const struct keyset *ks = g->ks;
    uint64_t n = unit_size(ks, g->unit);
    uint64_t need = keyset_memory_to_sort(ks, n * memory_of_one(ks));
    return fail(err,
                "the hashes of %s keys are too close together to be sorted in this memory: "
                "--memory %s would do; if such keys were chosen to do harm, --secret prevents it",
                num_show_count(count, (double)n), num_show_least_bytes(bytes, need));
}

/* Repeats are removed whenever the buffer is full. If it is still nearly full, it is too small. */
static bool gather(void *ctx, unsigned worker, unsigned partition, const uint64_t *hash, size_t n,
                   struct err *err)
{
    struct gathering *g = ctx;
    (void)worker, (void)partition;
    const size_t room = g->ks->room / stride_of(g->ks);
    for (size_t some; n > 0; n -= some, hash += some) {
        if (g->n == room) {
            remove_repeats(g);
            if (g->n > room / 4 * 3)
                return fail_crowded(g, err);
        }
        some = room - g->n < n ? room - g->n : n;
        if (g->ks->spec.counts)
            for (size_t i = 0; i < some; i++) {
                g->worker->gathered[2 * (g->n + i)] = hash[i];
                g->worker->gathered[2 * (g->n + i) + 1] = 0;
            }
        else
            memcpy(g->worker->gathered + g->n, hash, some * sizeof *hash);
        g->n += some;
    }
    return true;
}

static bool gather_unit(const struct keyset *ks, struct worker *worker, uint64_t unit,
                        struct gathering *g, struct err *err)
{
    unsigned each = 1U << (KEYSET_BITS - unit_bits(ks));
    *g = (struct gathering){.ks = ks, .worker = worker, .unit = unit};
    struct partition p = {ks, worker, (unsigned)unit * each, gather, g};
    for (unsigned i = 0; i < each; i++, p.number++)
        if (!pass_partition(&p, err))
            return false;
    return true;
}

static bool visit_range(const struct gathering *g, const uint64_t *hash, size_t n, uint64_t first,
                        unsigned width, struct err *err)
{
    const struct keyset *ks = g->ks;
    uint64_t last = width < 64 ? first + (((uint64_t)1 << width) - 1) : UINT64_MAX;
    struct keyset_range range = {
        .worker = (unsigned)(g->worker - ks->workers),
        .first = first,
        .last = last,
        .hash = hash,
        .n = n,
        .had_repeats = g->had_repeats,
    };
    return ks->visit_range(ks->visit_ctx, &range, err);
}

/* Visits n sorted hashes, all of those in a range: each prefix apart, and at most spec.part at a
 * time. */
static bool visit_parts(const struct gathering *g, const uint64_t *a, size_t n, uint64_t first,
                        unsigned width, struct err *err)
{
    const size_t stride = stride_of(g->ks), part = g->ks->spec.part;
    if (width > 64 - g->ks->bits || (part > 0 && n > part)) {
        uint64_t middle = first + ((uint64_t)1 << --width);
        size_t n_low = sort_below(a, n, stride, middle);
        return visit_parts(g, a, n_low, first, width, err) &&
               visit_parts(g, a + n_low * stride, n - n_low, middle, width, err);
    }
    return visit_range(g, a, n, first, width, err);
}

/* ---- Passes over all partitions or units by all workers. */

struct pass {
    struct keyset *ks;
    bool (*unit)(struct keyset *ks, struct worker *worker, uint64_t i, struct err *err);
    uint64_t units;
    struct err *err;
};

/* Worker 0 shows the progress of all. */
static void do_unit(void *ctx, unsigned w, uint64_t i)
{
    const struct pass *pass = ctx;
    struct keyset *ks = pass->ks;
    struct err err;
    if (ks->stop)
        return;
    if (!pass->unit(ks, &ks->workers[w], i, &err)) {
        /* The first to fail has the cause; others may fail because of it. */
        if (atomic_exchange(&ks->stop, true))
            return;
        *pass->err = err;
        if (ks->gave_up != NULL)
            ks->gave_up(ks->visit_ctx);
        return;
    }
    uint64_t done = atomic_fetch_add_explicit(&ks->parts_done, 1, memory_order_relaxed) + 1;
    if (w == 0)
        progress_part(done, pass->units);
}

static bool run_pass(const struct pass *pass, unsigned threads)
{
    struct pass copy = *pass;
    pass->ks->stop = false;
    pass->ks->parts_done = 0;
    parallel_for(threads, pass->units, do_unit, &copy);
    if (pass->ks->stop)
        return false;
    progress_part(pass->units, pass->units);
    return true;
}

/* Divides the memory among as many visitors as it has room for. If need be, takes it from the
 * collected hashes. */
static bool get_room(struct keyset *ks, uint64_t units, struct err *err)
{
    const uint64_t each = memory_of_one(ks);
    uint64_t most = 0, all;
    for (uint64_t i = 0; i < units; i++)
        if (unit_size(ks, i) > most)
            most = unit_size(ks, i);
    ks->visitors = visitors_of(&ks->spec);
    if (ks->arena != NULL && keyset_free_memory(ks) / each / ks->visitors < most &&
        !keyset_spill_all(ks, err))
        return false;
    all = keyset_free_memory(ks) / each;
    while (ks->visitors > 1 && all / ks->visitors < most)
        ks->visitors--;
    if (most > all / ks->visitors)
        most = all / ks->visitors;
    ks->room = (size_t)(most < SORT_MOST ? most : SORT_MOST) * stride_of(ks);
    return true;
}

static bool get_buffers(const struct keyset *ks, struct err *err)
{
    for (unsigned w = 0; w < ks->visitors; w++) {
        struct worker *worker = &ks->workers[w];
        worker->gathered = keyset_map(ks->room * sizeof(uint64_t), true);
        worker->sorted = keyset_map(ks->room * sizeof(uint64_t), true);
        if (worker->gathered == NULL || worker->sorted == NULL)
            return fail_errno(err, "cannot get memory for keys");
    }
    return true;
}

static void free_buffers(const struct keyset *ks)
{
    for (unsigned w = 0; w < ks->visitors; w++) {
        struct worker *worker = &ks->workers[w];
        keyset_unmap(worker->gathered, ks->room * sizeof(uint64_t));
        keyset_unmap(worker->sorted, ks->room * sizeof(uint64_t));
        worker->gathered = worker->sorted = NULL;
    }
}

/* Calls `unit` for each value of the first bits. */
static bool run_units(struct keyset *ks, unsigned bits,
                      bool (*unit)(struct keyset *ks, struct worker *worker, uint64_t i,
                                   struct err *err),
                      struct err *err)
{
    ks->bits = bits;
    const struct pass pass = {ks, unit, (uint64_t)1 << unit_bits(ks), err};
    if (!keyset_close_blocks(ks, err) || !get_room(ks, pass.units, err))
        return false;
    bool ok = get_buffers(ks, err) && run_pass(&pass, ks->visitors);
    free_buffers(ks);
    return ok;
}

static bool count_unit(struct keyset *ks, struct worker *worker, uint64_t i, struct err *err)
{
    struct gathering g;
    if (!gather_unit(ks, worker, i, &g, err))
        return false;
    remove_repeats(&g);
    worker->n_distinct += g.n;
    return true;
}

bool keyset_count(struct keyset *ks, uint64_t *n_distinct, struct err *err)
{
    for (unsigned w = 0; w < ks->spec.workers; w++)
        ks->workers[w].n_distinct = 0;
    ks->gave_up = NULL;
    if (!run_units(ks, KEYSET_BITS, count_unit, err))
        return false;
    *n_distinct = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        *n_distinct += ks->workers[w].n_distinct;
    return true;
}

static bool visit_unit(struct keyset *ks, struct worker *worker, uint64_t i, struct err *err)
{
    struct gathering g;
    if (!gather_unit(ks, worker, i, &g, err))
        return false;
    sort_gathered(&g);
    uint64_t first = unit_bits(ks) > 0 ? i << unit_width(ks) : 0;
    return visit_parts(&g, worker->gathered, g.n, first, unit_width(ks), err);
}

bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_range_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err)
{
    ks->visit_range = visit;
    ks->gave_up = gave_up;
    ks->visit_ctx = ctx;
    return run_units(ks, bits, visit_unit, err);
}

static bool visit_partition(struct keyset *ks, struct worker *worker, uint64_t i, struct err *err)
{
    const struct partition p = {ks, worker, (unsigned)i, ks->visit, ks->visit_ctx};
    return pass_partition(&p, err) && pass_on(&p, NULL, 0, err);
}

bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err)
{
    const struct pass pass = {ks, visit_partition, KEYSET_PARTITIONS, err};
    ks->visit = visit;
    ks->gave_up = NULL;
    ks->visit_ctx = ctx;
    return keyset_close_blocks(ks, err) && run_pass(&pass, ks->spec.workers);
}
