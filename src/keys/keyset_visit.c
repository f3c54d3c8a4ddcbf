/* SPDX-License-Identifier: MIT */
/* Visits the hashes of a keyset, partition by partition. */
#include <string.h>

#include "base/num.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "keys/keyset_parts.h"
#include "keys/sort.h"

/* A pass over all partitions or all units, by several workers. A unit is the hashes whose first
 * bits are the same, of one partition or of several; they are gathered and sorted. */
struct pass {
    struct keyset *ks;
    uint64_t units;
    bool (*unit)(struct pass *pass, unsigned worker, uint64_t i, struct err *err);
    keyset_visitor *visit;
    keyset_range_visitor *visit_range;
    void (*gave_up)(void *ctx);
    void *ctx;
    struct err *err;
    atomic_bool stop;
    _Atomic uint64_t done; /* units, for progress */
    /* For a pass over units. */
    unsigned bits;     /* the length of the visited prefixes */
    unsigned visitors; /* workers that visit at once */
    size_t stride;     /* the numbers that a gathered hash takes */
    size_t room;       /* the hashes that a buffer has room for */
    uint64_t *buffers; /* two for each visitor */
    _Atomic uint64_t n_distinct;
};

static unsigned unit_bits(const struct pass *pass)
{
    return pass->bits < KEYSET_BITS ? pass->bits : KEYSET_BITS;
}

static unsigned unit_width(const struct pass *pass)
{
    return 64 - unit_bits(pass);
}

/* The partitions of a unit. */
static unsigned unit_partitions(const struct pass *pass)
{
    return 1U << (KEYSET_BITS - unit_bits(pass));
}

static uint64_t unit_size(const struct pass *pass, uint64_t unit)
{
    const unsigned each = unit_partitions(pass);
    uint64_t n = 0;
    for (unsigned i = 0; i < each; i++)
        n += keyset_partition_size(pass->ks, (unsigned)unit * each + i);
    return n;
}

/* Bytes of both buffers. */
static uint64_t memory_of_one(const struct pass *pass)
{
    return 2 * pass->stride * sizeof(uint64_t);
}

/* The hashes of a unit, being gathered in `gathered`. If repeats are counted, each is followed by
 * the number of its repeats. */
struct gathering {
    const struct pass *pass;
    unsigned worker;
    uint64_t unit;
    uint64_t *gathered, *sorted; /* the worker's buffers */
    size_t n;                    /* hashes */
    bool had_repeats;
};

static void sort_gathered(struct gathering *g)
{
    uint64_t *a = g->gathered;
    size_t n = 0, before = g->n;
    if (g->pass->stride == 2) {
        sort_pairs(a, g->sorted, g->n, unit_width(g->pass));
        for (size_t i = 0; i < g->n; i++) {
            if (n > 0 && a[2 * i] == a[2 * (n - 1)]) {
                a[2 * (n - 1) + 1] += a[2 * i + 1] + 1;
                continue;
            }
            a[2 * n] = a[2 * i];
            a[2 * n++ + 1] = a[2 * i + 1];
        }
    } else {
        sort_hashes(a, g->sorted, g->n, unit_width(g->pass));
        for (size_t i = 0; i < g->n; i++)
            if (n == 0 || a[i] != a[n - 1])
                a[n++] = a[i];
    }
    g->had_repeats |= n < before;
    g->n = n;
}

static void remove_repeats(struct gathering *g)
{
    if (g->pass->stride == 2) {
        sort_gathered(g);
        return;
    }
    size_t n = distinct(g->gathered, g->sorted, g->n, unit_width(g->pass));
    g->had_repeats |= n < g->n;
    g->n = n;
}

static bool fail_crowded(const struct gathering *g, struct err *err)
{
    char count[NUM_TEXT], bytes[NUM_TEXT];
    uint64_t n = unit_size(g->pass, g->unit);
    uint64_t need = keyset_memory_to_sort(g->pass->ks, n * memory_of_one(g->pass));
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
    const size_t room = g->pass->room;
    for (size_t some; n > 0; n -= some, hash += some) {
        if (g->n == room) {
            remove_repeats(g);
            if (g->n > room / 4 * 3)
                return fail_crowded(g, err);
        }
        some = room - g->n < n ? room - g->n : n;
        if (g->pass->stride == 2)
            for (size_t i = 0; i < some; i++) {
                g->gathered[2 * (g->n + i)] = hash[i];
                g->gathered[2 * (g->n + i) + 1] = 0;
            }
        else
            memcpy(g->gathered + g->n, hash, some * sizeof *hash);
        g->n += some;
    }
    return true;
}

static bool gather_unit(const struct pass *pass, unsigned worker, uint64_t unit,
                        struct gathering *g, struct err *err)
{
    const unsigned each = unit_partitions(pass);
    uint64_t *buffer = pass->buffers + 2 * worker * pass->room * pass->stride;
    *g = (struct gathering){pass, worker, unit, buffer, buffer + pass->room * pass->stride,
                            0,    false};
    for (unsigned i = 0; i < each; i++)
        if (!keyset_pass_partition(pass->ks, worker, (unsigned)unit * each + i, gather, g, err))
            return false;
    return true;
}

/* Visits n sorted hashes, all of those in a range: each prefix apart, and at most spec.part at a
 * time. */
static bool visit_parts(const struct gathering *g, const uint64_t *a, size_t n, uint64_t first,
                        unsigned width, struct err *err)
{
    const struct pass *pass = g->pass;
    const size_t part = keyset_spec(pass->ks)->part;
    if (width > 64 - pass->bits || (part > 0 && n > part)) {
        uint64_t middle = first + ((uint64_t)1 << --width);
        size_t n_low = sort_below(a, n, pass->stride, middle);
        return visit_parts(g, a, n_low, first, width, err) &&
               visit_parts(g, a + n_low * pass->stride, n - n_low, middle, width, err);
    }
    const struct keyset_range range = {
        .worker = g->worker,
        .first = first,
        .last = width < 64 ? first + (((uint64_t)1 << width) - 1) : UINT64_MAX,
        .hash = a,
        .n = n,
        .had_repeats = g->had_repeats,
    };
    return pass->visit_range(pass->ctx, &range, err);
}

/* Worker 0 shows the progress of all. */
static void do_unit(void *ctx, unsigned worker, uint64_t i)
{
    struct pass *pass = ctx;
    struct err err;
    if (pass->stop)
        return;
    if (!pass->unit(pass, worker, i, &err)) {
        /* The first to fail has the cause; others may fail because of it. */
        if (atomic_exchange(&pass->stop, true))
            return;
        *pass->err = err;
        if (pass->gave_up != NULL)
            pass->gave_up(pass->ctx);
        return;
    }
    uint64_t done = atomic_fetch_add_explicit(&pass->done, 1, memory_order_relaxed) + 1;
    if (worker == 0)
        progress_part(done, pass->units);
}

static bool run_pass(struct pass *pass, unsigned threads)
{
    parallel_for(threads, pass->units, do_unit, pass);
    if (!pass->stop)
        progress_part(pass->units, pass->units);
    return !pass->stop;
}

/* Divides the memory among as many visitors as it has room for. If need be, takes it from the
 * collected hashes. */
static bool get_room(struct pass *pass, struct err *err)
{
    const uint64_t each = memory_of_one(pass);
    uint64_t most = 0, all;
    for (uint64_t i = 0; i < pass->units; i++)
        if (unit_size(pass, i) > most)
            most = unit_size(pass, i);
    pass->visitors = visitors_of(keyset_spec(pass->ks));
    if (keyset_free_memory(pass->ks) / each / pass->visitors < most &&
        !keyset_spill_all(pass->ks, err))
        return false;
    all = keyset_free_memory(pass->ks) / each;
    while (pass->visitors > 1 && all / pass->visitors < most)
        pass->visitors--;
    if (most > all / pass->visitors)
        most = all / pass->visitors;
    pass->room = (size_t)(most < SORT_MOST ? most : SORT_MOST);
    return true;
}

/* Runs pass->unit for each value of the first pass->bits bits. */
static bool run_units(struct pass *pass, struct err *err)
{
    pass->units = (uint64_t)1 << unit_bits(pass);
    pass->stride = keyset_spec(pass->ks)->counts ? 2 : 1;
    if (!get_room(pass, err))
        return false;
    const size_t bytes = (size_t)memory_of_one(pass) * pass->room * pass->visitors;
    pass->buffers = keyset_map(bytes, true);
    if (pass->buffers == NULL)
        return fail_errno(err, "cannot get memory for keys");
    bool ok = run_pass(pass, pass->visitors);
    keyset_unmap(pass->buffers, bytes);
    return ok;
}

static bool count_unit(struct pass *pass, unsigned worker, uint64_t i, struct err *err)
{
    struct gathering g;
    if (!gather_unit(pass, worker, i, &g, err))
        return false;
    remove_repeats(&g);
    pass->n_distinct += g.n;
    return true;
}

bool keyset_count(struct keyset *ks, uint64_t *n_distinct, struct err *err)
{
    struct pass pass = {.ks = ks, .bits = KEYSET_BITS, .unit = count_unit, .err = err};
    bool ok = run_units(&pass, err);
    *n_distinct = pass.n_distinct;
    return ok;
}

static bool visit_unit(struct pass *pass, unsigned worker, uint64_t i, struct err *err)
{
    struct gathering g;
    if (!gather_unit(pass, worker, i, &g, err))
        return false;
    sort_gathered(&g);
    uint64_t first = unit_bits(pass) > 0 ? i << unit_width(pass) : 0;
    return visit_parts(&g, g.gathered, g.n, first, unit_width(pass), err);
}

bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_range_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err)
{
    struct pass pass = {.ks = ks,
                        .bits = bits,
                        .unit = visit_unit,
                        .visit_range = visit,
                        .gave_up = gave_up,
                        .ctx = ctx,
                        .err = err};
    return run_units(&pass, err);
}

static bool visit_partition(struct pass *pass, unsigned worker, uint64_t i, struct err *err)
{
    return keyset_pass_partition(pass->ks, worker, (unsigned)i, pass->visit, pass->ctx, err) &&
           pass->visit(pass->ctx, worker, (unsigned)i, NULL, 0, err);
}

bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err)
{
    struct pass pass = {.ks = ks,
                        .units = KEYSET_PARTITIONS,
                        .unit = visit_partition,
                        .visit = visit,
                        .ctx = ctx,
                        .err = err};
    return run_pass(&pass, keyset_spec(ks)->workers);
}
