/* Hashes of a keyset, range by range. */
#include <string.h>

#include "base/disk.h"
#include "base/parallel.h"
#include "keys/distinct.h"
#include "keys/keyset_parts.h"
#include "keys/sort.h"

/* Hashes being gathered from a partition, those in one range only. */
struct gathering {
    struct keyset *ks;
    struct worker *worker;
    uint64_t first;
    unsigned width; /* the range has 2^width values */
    size_t n;
    bool had_repeats;
};

static uint64_t last_of(uint64_t first, unsigned width)
{
    return width < 64 ? first + (((uint64_t)1 << width) - 1) : UINT64_MAX;
}

static void remove_repeats(struct gathering *g)
{
    size_t n = distinct(g->worker->gathered, g->worker->sorted, g->n, g->width);
    g->had_repeats |= n < g->n;
    g->n = n;
}

/* Takes those in the range, all of them if `whole`. False when they do not fit. */
static bool gather_piece(struct gathering *g, const uint64_t *hash, size_t n, bool whole)
{
    uint64_t last = last_of(g->first, g->width);
    uint64_t *to = g->worker->gathered;
    while (n > 0) {
        if (g->n == g->ks->capacity) {
            remove_repeats(g);
            if (g->n > g->ks->capacity / 4 * 3)
                return false;
        }
        size_t count = g->ks->capacity - g->n < n ? g->ks->capacity - g->n : n;
        if (whole) {
            memcpy(to + g->n, hash, count * sizeof *hash);
            g->n += count;
        } else {
            for (size_t i = 0; i < count; i++) {
                to[g->n] = hash[i];
                g->n += hash[i] >= g->first && hash[i] <= last;
            }
        }
        hash += count;
        n -= count;
    }
    return true;
}

static bool read_scratch(struct worker *reader, const struct worker *of, void *to, size_t len,
                         uint64_t off)
{
    size_t got;
    if (!disk_read(of->scratch, to, len, off, &got))
        return fail_errno(&reader->err, "cannot read scratch file");
    return got == len || fail(&reader->err, "cannot read scratch file: it ends early");
}

/* Those subranges of a partition that the range has a part in. */
static void subranges_in(const struct gathering *g, unsigned *first, unsigned *last)
{
    bool all = g->width >= PARTITION_WIDTH;
    *first = all ? 0 : subrange_of(g->first);
    *last = all ? SUBRANGES - 1 : subrange_of(last_of(g->first, g->width));
}

/* Gathers from n hashes in scratch; `whole`: the range has them all. */
static bool gather_scratch(struct gathering *g, const struct worker *of, uint64_t off, uint64_t n,
                           bool whole, bool *fits)
{
    uint64_t buffer[4 * BLOCK];
    for (size_t count; n > 0 && *fits; n -= count, off += count * sizeof *buffer) {
        bool straight = whole && n <= g->ks->capacity - g->n;
        count = straight || n < 4 * BLOCK ? (size_t)n : 4 * BLOCK;
        uint64_t *to = straight ? g->worker->gathered + g->n : buffer;
        if (!read_scratch(g->worker, of, to, count * sizeof *to, off))
            return false;
        if (straight)
            g->n += count;
        else
            *fits = gather_piece(g, buffer, count, whole);
    }
    return true;
}

static bool gather_extent(struct gathering *g, const struct worker *of, uint64_t off, uint64_t n,
                          bool *fits)
{
    uint32_t begin[SUBRANGES + 1];
    unsigned first, last;
    subranges_in(g, &first, &last);
    return read_scratch(g->worker, of, begin, sizeof begin, off + n * sizeof(uint64_t)) &&
           gather_scratch(g, of, off + begin[first] * sizeof(uint64_t),
                          begin[last + 1] - begin[first], g->width >= SUB_WIDTH, fits);
}

static bool gather_run(struct gathering *g, const struct worker *of, const struct spill *spill,
                       unsigned partition, bool *fits)
{
    struct run run;
    if (!read_scratch(g->worker, of, &run, sizeof run, spill->runs + partition * sizeof run))
        return false;
    if (!spill->ordered)
        return gather_scratch(g, of, run.off, run.n, g->width >= PARTITION_WIDTH, fits);
    for (; run.n > 0 && *fits; run.off += EXTENT_BYTES) {
        uint64_t n = run.n < EXTENT ? run.n : EXTENT;
        if (!gather_extent(g, of, run.off, n, fits))
            return false;
        run.n -= n;
    }
    return true;
}

/* Gathers a partition's hashes that lie in a range. *fits: there was room for all. */
static bool gather(struct gathering *g, unsigned partition, bool *fits)
{
    bool whole = g->width >= PARTITION_WIDTH;
    *fits = true;
    for (unsigned w = 0; w < g->ks->spec.workers && *fits; w++) {
        const struct worker *of = &g->ks->workers[w];
        const struct share *s = &of->share[partition];
        size_t n_open;
        const uint64_t *open = open_block(of, partition, &n_open);
        for (size_t i = 0; i < s->n_full && *fits; i++)
            *fits = gather_piece(g, s->full[i], BLOCK, whole);
        if (*fits && n_open > 0)
            *fits = gather_piece(g, open, n_open, whole);
        for (size_t i = 0; s->n_spilled > 0 && i < of->n_spills && *fits; i++)
            if (!gather_run(g, of, &of->spills[i], partition, fits))
                return false;
    }
    return true;
}

typedef bool gathered_fn(struct gathering *g);

/* How many gather() finds in scratch, repeats counted; about, for a part of a partition. */
static uint64_t count_in_scratch(const struct gathering *g, unsigned partition)
{
    uint64_t n = 0;
    unsigned first, last;
    subranges_in(g, &first, &last);
    for (unsigned w = 0; w < g->ks->spec.workers; w++)
        n += g->ks->workers[w].share[partition].n_spilled;
    return n / SUBRANGES * (last + 1 - first);
}

/* Gathers a partition piece by piece, each as large as fits, and calls `use` on each in ascending
 * order. A range that does not fit is halved. */
static bool gather_all(struct keyset *ks, struct worker *worker, unsigned partition,
                       uint64_t first, unsigned width, gathered_fn *use)
{
    struct gathering g = {ks, worker, first, width, 0, false};
    bool fits = false;
    /* More than there is room for are tried only where no less can be read: repeats may be most. */
    if ((width <= SUB_WIDTH || count_in_scratch(&g, partition) <= ks->capacity) &&
        !gather(&g, partition, &fits))
        return false;
    if (fits)
        return use(&g);
    uint64_t half = (uint64_t)1 << (width - 1);
    return gather_all(ks, worker, partition, first, width - 1, use) &&
           gather_all(ks, worker, partition, first + half, width - 1, use);
}

static bool get_buffers(struct keyset *ks, struct worker *worker)
{
    size_t bytes = ks->capacity * sizeof(uint64_t);
    if (worker->gathered == NULL)
        worker->gathered = keyset_map(bytes, true);
    if (worker->sorted == NULL)
        worker->sorted = keyset_map(bytes, true);
    return worker->gathered != NULL && worker->sorted != NULL
               ? true
               : fail_errno(&worker->err, "cannot get memory for keys");
}

static bool gather_partition(struct keyset *ks, struct worker *worker, unsigned partition,
                             gathered_fn *use)
{
    return get_buffers(ks, worker) &&
           gather_all(ks, worker, partition, (uint64_t)partition << PARTITION_WIDTH,
                      PARTITION_WIDTH, use);
}

static bool count_gathered(struct gathering *g)
{
    remove_repeats(g);
    g->worker->n_distinct += g->n;
    return true;
}

static bool count_partition(struct keyset *ks, struct worker *worker, unsigned partition)
{
    return gather_partition(ks, worker, partition, count_gathered);
}

/* The range is 2^width values from `first` on. */
static bool visit_range(struct keyset *ks, struct worker *worker, uint64_t first, unsigned width,
                        const struct keyset_piece *piece, size_t n_pieces, bool had_repeats)
{
    uint64_t last = last_of(first, width);
    struct keyset_range range = {
        .worker = (unsigned)(worker - ks->workers),
        .first = first,
        .last = last,
        .piece = piece,
        .n_pieces = n_pieces,
        .partition = first >> 1 >> (63 - ks->bits),
        .ends_partition = (last + 1) << ks->bits == 0,
        .had_repeats = had_repeats,
    };
    return ks->visit(ks->visit_ctx, &range, &worker->err);
}

static bool visit_gathered(struct gathering *g)
{
    struct worker *worker = g->worker;
    size_t start[(1 << SORT_RANGE_BITS) + 1] = {0, g->n};
    unsigned bits = sort_range_bits(g->n, RANGE, g->width), width = g->width - bits;
    const uint64_t *hash = worker->gathered;
    if (bits > 0) {
        sort_by_range(worker->gathered, g->n, g->width, bits, worker->sorted, start);
        hash = worker->sorted;
    }
    for (uint64_t r = 0; r < (uint64_t)1 << bits; r++) {
        struct keyset_piece piece = {hash + start[r], start[r + 1] - start[r]};
        if (!visit_range(g->ks, worker, g->first + (r << width), width, &piece, 1,
                         g->had_repeats))
            return false;
    }
    return true;
}

/* The blocks of a partition that is in memory and fits one range; false if it is not so. */
static bool list_blocks(const struct keyset *ks, unsigned partition, struct keyset_piece *piece,
                        size_t *n_pieces)
{
    size_t n_full = 0;
    *n_pieces = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        const struct worker *of = &ks->workers[w];
        const struct share *s = &of->share[partition];
        size_t n_open;
        const uint64_t *open = open_block(of, partition, &n_open);
        n_full += s->n_full;
        if (s->n_spilled > 0 || n_full > RANGE_BLOCKS)
            return false;
        for (size_t i = 0; i < s->n_full; i++)
            piece[(*n_pieces)++] = (struct keyset_piece){s->full[i], BLOCK};
        if (n_open > 0)
            piece[(*n_pieces)++] = (struct keyset_piece){open, n_open};
    }
    return true;
}

static bool visit_partition(struct keyset *ks, struct worker *worker, unsigned partition)
{
    size_t n_pieces;
    if (list_blocks(ks, partition, worker->piece, &n_pieces))
        return visit_range(ks, worker, (uint64_t)partition << PARTITION_WIDTH, PARTITION_WIDTH,
                           worker->piece, n_pieces, false);
    return gather_partition(ks, worker, partition, visit_gathered);
}

struct pass {
    struct keyset *ks;
    bool (*partition)(struct keyset *ks, struct worker *worker, unsigned partition);
};

static void pass_partition(void *ctx, unsigned w, uint64_t i)
{
    struct pass *pass = ctx;
    struct keyset *ks = pass->ks;
    if (ks->stop || pass->partition(ks, &ks->workers[w], (unsigned)i))
        return;
    ks->workers[w].failed = true;
    ks->stop = true;
}

/* An earlier pass may have failed. */
static void begin_pass(struct keyset *ks)
{
    ks->stop = false;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        ks->workers[w].failed = false;
        ks->workers[w].n_distinct = 0;
    }
}

static bool pass_result(const struct keyset *ks, struct err *err)
{
    for (unsigned w = 0; w < ks->spec.workers; w++)
        if (ks->workers[w].failed) {
            *err = ks->workers[w].err;
            return false;
        }
    return true;
}

static bool run_pass(struct keyset *ks,
                     bool (*partition)(struct keyset *ks, struct worker *worker,
                                       unsigned partition),
                     struct err *err)
{
    struct pass pass = {ks, partition};
    begin_pass(ks);
    parallel_for(visitors_of(&ks->spec), KEYSET_PARTITIONS, pass_partition, &pass);
    return pass_result(ks, err);
}

bool keyset_finish(struct keyset *ks, uint64_t *n_distinct, struct err *err)
{
    if (!keyset_close_blocks(ks, err))
        return false;
    if (!run_pass(ks, count_partition, err))
        return false;
    *n_distinct = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        *n_distinct += ks->workers[w].n_distinct;
    return true;
}

bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err)
{
    if (!keyset_close_blocks(ks, err))
        return false;
    ks->visit = visit;
    ks->visit_ctx = ctx;
    ks->bits = KEYSET_BITS;
    return run_pass(ks, visit_partition, err);
}

static size_t remove_equal_neighbours(uint64_t *a, size_t n)
{
    size_t count = n > 0;
    for (size_t i = 1; i < n; i++)
        if (a[i] != a[count - 1])
            a[count++] = a[i];
    return count;
}

static bool visit_part(const struct gathering *g)
{
    struct worker *worker = g->worker;
    sort_hashes(worker->gathered, worker->sorted, g->n, g->width);
    size_t n = remove_equal_neighbours(worker->gathered, g->n);
    struct keyset_piece piece = {worker->gathered, n};
    return visit_range(g->ks, worker, g->first, g->width, &piece, 1,
                       g->had_repeats || n < g->n);
}

/* Visits a range that is a whole prefix or a part of one; a part that does not fit is halved. */
static bool visit_prefix(struct keyset *ks, struct worker *worker, uint64_t first, unsigned width)
{
    struct gathering g = {ks, worker, first, width, 0, false};
    unsigned begin = (unsigned)(first >> PARTITION_WIDTH);
    unsigned end = (unsigned)(last_of(first, width) >> PARTITION_WIDTH);
    bool fits = true;
    for (unsigned p = begin; p <= end && fits; p++)
        if (!gather(&g, p, &fits))
            return false;
    if (fits || width == 0)
        return visit_part(&g);
    uint64_t half = (uint64_t)1 << (width - 1);
    return visit_prefix(ks, worker, first, width - 1) &&
           visit_prefix(ks, worker, first + half, width - 1);
}

static void pass_prefix(void *ctx, unsigned w, uint64_t i)
{
    struct keyset *ks = ctx;
    struct worker *worker = &ks->workers[w];
    if (ks->stop)
        return;
    if (get_buffers(ks, worker) &&
        visit_prefix(ks, worker, i << 1 << (63 - ks->bits), 64 - ks->bits))
        return;
    worker->failed = true;
    if (!atomic_exchange(&ks->stop, true))
        ks->gave_up(ks->visit_ctx);
}

bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err)
{
    if (!keyset_close_blocks(ks, err))
        return false;
    ks->visit = visit;
    ks->gave_up = gave_up;
    ks->visit_ctx = ctx;
    ks->bits = bits;
    begin_pass(ks);
    parallel_for(visitors_of(&ks->spec), (uint64_t)1 << bits, pass_prefix, ks);
    return pass_result(ks, err);
}
