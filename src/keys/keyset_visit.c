/* Visits the hashes of a keyset, range by range. */
#include <string.h>

#include "base/parallel.h"
#include "base/progress.h"
#include "keys/distinct.h"
#include "keys/keyset_parts.h"
#include "keys/lanes.h"
#include "keys/sort.h"

/* An interval of hashes: lane l has the 2^width[l] values from first[l] on. A lane has all 2^64
 * values unless every lane before it has only one. Lanes added by rounding up do not count. */
struct interval {
    uint64_t first[LANES_MOST];
    unsigned char width[LANES_MOST];
};

/* All hashes whose first lane is one of the 2^width values from `first` on. */
static struct interval interval_of(uint64_t first, unsigned width)
{
    struct interval in = {{first}, {(unsigned char)width}};
    memset(in.width + 1, 64, LANES_MOST - 1);
    return in;
}

static uint64_t last_of(uint64_t first, unsigned width)
{
    return width < 64 ? first + (((uint64_t)1 << width) - 1) : UINT64_MAX;
}

LANES_INLINE void last_in(const struct interval *in, uint64_t *last, unsigned lanes)
{
    for (unsigned l = 0; l < lanes; l++)
        last[l] = last_of(in->first[l], in->width[l]);
}

/* Is the interval a single hash, which cannot be halved? */
static bool is_one(const struct keyset *ks, const struct interval *in)
{
    return in->width[ks->lanes - 1] == 0;
}

static void halve(const struct interval *in, struct interval *low, struct interval *high)
{
    unsigned lane = 0;
    while (in->width[lane] == 0)
        lane++;
    *low = *in;
    low->width[lane]--;
    *high = *low;
    high->first[lane] += (uint64_t)1 << low->width[lane];
}

/* `in` results from halving `all` repeatedly. Advances it to the interval that follows; false: it
 * was the last. No stack of halves is kept: with many lanes there could be hundreds. */
static bool go_on(const struct keyset *ks, struct interval *in, const struct interval *all)
{
    unsigned lane = ks->lanes - 1;
    while (lane > 0 || in->width[0] < all->width[0]) {
        if (in->width[lane] == 64) {
            lane--;
            continue;
        }
        uint64_t upper = (uint64_t)1 << in->width[lane];
        in->first[lane] ^= upper;
        if (in->first[lane] & upper)
            return true;
        in->width[lane]++;
    }
    return false;
}

/* The hashes of one interval, being gathered from a partition. */
struct gathering {
    struct keyset *ks;
    struct worker *worker;
    struct interval in;
    size_t n;
    bool had_repeats;
};

/* Repeats are removed whenever the buffer is full. If it is still nearly full, it is too small. */
static bool is_too_many(const struct keyset *ks, uint64_t n)
{
    return n > ks->capacity / 4 * 3;
}

static void remove_repeats(struct gathering *g)
{
    unsigned lanes = g->ks->spec.lanes;
    size_t n = distinct(g->worker->gathered, g->worker->sorted, g->n / lanes, lanes,
                        g->in.width[0]) * lanes;
    g->had_repeats |= n < g->n;
    g->n = n;
}

/* Copies the hashes that lie in the interval; returns the number of lanes copied. */
LANES_INLINE size_t choose_body(const struct interval *in, const uint64_t *hash, size_t n,
                                uint64_t *to, unsigned lanes)
{
    uint64_t last[LANES_MOST];
    size_t count = 0;
    last_in(in, last, lanes);
    for (size_t i = 0; i < n; i += lanes) {
        bool is_in = hash[i] >= in->first[0] && hash[i] <= last[0];
        for (unsigned l = 1; l < lanes; l++)
            is_in = is_in && hash[i + l] >= in->first[l] && hash[i + l] <= last[l];
        lanes_copy(to + count, hash + i, lanes);
        count += is_in ? lanes : 0;
    }
    return count;
}

static size_t choose(const struct gathering *g, const uint64_t *hash, size_t n, uint64_t *to)
{
    unsigned lanes = g->ks->spec.lanes;
    return lanes == 1   ? choose_body(&g->in, hash, n, to, 1)
           : lanes == 2 ? choose_body(&g->in, hash, n, to, 2)
                        : choose_body(&g->in, hash, n, to, lanes);
}

/* Adds the hashes that lie in the interval; `whole`: all of them do. False if they do not fit. */
static bool gather_piece(struct gathering *g, const uint64_t *hash, size_t n, bool whole)
{
    while (n > 0) {
        if (g->n == g->ks->capacity) {
            remove_repeats(g);
            if (is_too_many(g->ks, g->n))
                return false;
        }
        size_t count = g->ks->capacity - g->n < n ? g->ks->capacity - g->n : n;
        uint64_t *to = g->worker->gathered + g->n;
        if (whole)
            memcpy(to, hash, count * sizeof *hash);
        g->n += whole ? count : choose(g, hash, count, to);
        hash += count;
        n -= count;
    }
    return true;
}

/* The subranges of a partition that overlap the interval. */
static void subranges_in(const struct gathering *g, unsigned *first, unsigned *last)
{
    bool all = g->in.width[0] >= PARTITION_WIDTH;
    *first = all ? 0 : subrange_of(g->in.first[0]);
    *last = all ? SUBRANGES - 1 : subrange_of(last_of(g->in.first[0], g->in.width[0]));
}

/* Gathers from n lanes in scratch; `whole`: all of them lie in the interval. */
static bool gather_scratch(struct gathering *g, const struct worker *of, uint64_t off, uint64_t n,
                           bool whole, bool *fits)
{
    uint64_t buffer[4 * BLOCK];
    for (size_t count; n > 0 && *fits; n -= count, off += count * sizeof *buffer) {
        bool straight = whole && n <= g->ks->capacity - g->n;
        count = straight || n < 4 * BLOCK ? (size_t)n : 4 * BLOCK;
        uint64_t *to = straight ? g->worker->gathered + g->n : buffer;
        if (!keyset_read(of, to, count * sizeof *to, off, &g->worker->err))
            return false;
        if (straight)
            g->n += count;
        else
            *fits = gather_piece(g, buffer, count, whole);
    }
    return true;
}

/* Part of an extent, or of a sorted group. */
struct span {
    uint64_t begin, end;
};

/* Is a <= b? */
static bool is_ordered(const struct keyset *ks, const uint64_t *a, const uint64_t *b)
{
    return !lanes_below(b, a, ks->spec.lanes);
}

/* The span of an extent of n lanes that has the hashes of the interval, and perhaps others. */
static struct span span_in_extent(const struct gathering *g, const struct extent_index *index,
                                  uint64_t n)
{
    unsigned first, last;
    subranges_in(g, &first, &last);
    struct span span = {index->begin[first], index->begin[last + 1]};
    if (!index->is_sorted || g->in.width[0] >= SUB_WIDTH)
        return span;
    const unsigned lanes = g->ks->spec.lanes;
    uint64_t last_hash[LANES_MOST], blocks = (n + BLOCK - 1) / BLOCK, b = 0;
    last_in(&g->in, last_hash, lanes);
    while (b < blocks && !is_ordered(g->ks, g->in.first, index->first + b * lanes))
        b++;
    span.begin = b > 0 ? (b - 1) * BLOCK : 0;
    while (b < blocks && is_ordered(g->ks, index->first + b * lanes, last_hash))
        b++;
    span.end = b * BLOCK < n ? b * BLOCK : n;
    return span;
}

/* Bounds on the sorted lanes in an interval. For an extent, it is not known how many lanes of the
 * first and the last block are in the interval. */
struct count {
    uint64_t least, most;
};

/* Gathers from an extent of n lanes. With `count`, only adds the sorted lanes in the interval to
 * it. */
static bool gather_extent(struct gathering *g, const struct worker *of, uint64_t off, uint64_t n,
                          struct count *count, bool *fits)
{
    struct extent_index index;
    if (!keyset_read(of, &index, index_bytes(g->ks->spec.lanes), off + n * sizeof(uint64_t),
                     &g->worker->err))
        return false;
    struct span span = span_in_extent(g, &index, n);
    if (count != NULL) {
        uint64_t most = index.is_sorted ? span.end - span.begin : 0;
        count->most += most;
        count->least += most > 2 * BLOCK ? most - 2 * BLOCK : 0;
        return true;
    }
    return gather_scratch(g, of, off + span.begin * sizeof(uint64_t), span.end - span.begin,
                          g->in.width[0] >= SUB_WIDTH, fits);
}

/* As gather_extent, for a run. */
static bool gather_run(struct gathering *g, const struct worker *of, uint64_t runs,
                       unsigned partition, struct count *count, bool *fits)
{
    struct run run;
    if (!keyset_read(of, &run, sizeof run, runs + partition * sizeof run, &g->worker->err))
        return false;
    if (!run.in_extents)
        return count != NULL ||
               gather_scratch(g, of, run.off, run.n, g->in.width[0] >= PARTITION_WIDTH, fits);
    for (; run.n > 0 && *fits; run.off += extent_bytes(g->ks->spec.lanes)) {
        uint64_t n = run.n < EXTENT ? run.n : EXTENT;
        if (!gather_extent(g, of, run.off, n, count, fits))
            return false;
        run.n -= n;
    }
    return true;
}

/* Finds the first hash in [i, end), which is sorted, that is not below `hash`, or with `behind`,
 * that is above it. Returns its position; `end` if there is none. */
static size_t find_hash(const struct keyset *ks, const struct blocks *b, size_t i, size_t end,
                        const uint64_t *hash, bool behind)
{
    const unsigned lanes = ks->spec.lanes;
    while (i < end) {
        size_t middle = i + (end - i) / lanes / 2 * lanes, n;
        const uint64_t *h = some_of(b, middle, end, &n);
        if (behind ? is_ordered(ks, h, hash) : lanes_below(h, hash, lanes))
            i = middle + lanes;
        else
            end = middle;
    }
    return i;
}

/* Lanes in each sorted group. */
static size_t group_of(const struct keyset *ks)
{
    return ks->capacity;
}

static struct span span_in_group(const struct gathering *g, const struct blocks *b, size_t begin)
{
    size_t end = b->n - begin < group_of(g->ks) ? b->n : begin + group_of(g->ks);
    uint64_t last[LANES_MOST];
    last_in(&g->in, last, g->ks->spec.lanes);
    size_t from = find_hash(g->ks, b, begin, end, g->in.first, false);
    return (struct span){from, find_hash(g->ks, b, from, end, last, true)};
}

/* Gathers from sorted groups. */
static bool gather_groups(struct gathering *g, const struct blocks *b)
{
    for (size_t begin = 0; begin < b->n; begin += group_of(g->ks)) {
        struct span span = span_in_group(g, b, begin);
        size_t n;
        for (size_t i = (size_t)span.begin; i < span.end; i += n) {
            const uint64_t *hash = some_of(b, i, (size_t)span.end, &n);
            if (!gather_piece(g, hash, n, true))
                return false;
        }
    }
    return true;
}

static bool gather_blocks(struct gathering *g, const struct worker *of, unsigned partition)
{
    struct blocks b = blocks_in(of, partition);
    size_t n;
    if (of->share[partition].in_sorted_groups)
        return gather_groups(g, &b);
    for (size_t i = 0; i < b.n; i += n) {
        const uint64_t *hash = some_of(&b, i, b.n, &n);
        if (!gather_piece(g, hash, n, g->in.width[0] >= PARTITION_WIDTH))
            return false;
    }
    return true;
}

/* Gathers a partition's hashes that lie in the interval. *fits: there was room for all. */
static bool gather(struct gathering *g, unsigned partition, bool *fits)
{
    *fits = true;
    for (unsigned w = 0; w < g->ks->spec.workers && *fits; w++) {
        const struct worker *of = &g->ks->workers[w];
        *fits = gather_blocks(g, of, partition);
        for (size_t i = 0; of->share[partition].n_spilled > 0 && i < of->n_spills && *fits; i++)
            if (!gather_run(g, of, of->spills[i], partition, NULL, fits))
                return false;
    }
    return true;
}

/* Bounds on the lanes that gather() finds in sorted extents and groups, repeats counted. */
static bool count_sorted(struct gathering *g, unsigned partition, struct count *count)
{
    bool fits = true;
    *count = (struct count){0, 0};
    for (unsigned w = 0; w < g->ks->spec.workers; w++) {
        const struct worker *of = &g->ks->workers[w];
        const struct share *s = &of->share[partition];
        struct blocks b = blocks_in(of, partition);
        for (size_t i = 0; s->in_sorted_groups && i < b.n; i += group_of(g->ks)) {
            struct span span = span_in_group(g, &b, i);
            count->least += span.end - span.begin;
            count->most += span.end - span.begin;
        }
        for (size_t i = 0; s->n_sorted > 0 && i < of->n_spills; i++)
            if (!gather_run(g, of, of->spills[i], partition, count, &fits))
                return false;
    }
    return true;
}

typedef bool gathered_fn(struct gathering *g);

/* The lanes that gather() finds in scratch, repeats counted; an estimate for a part of a
 * partition. */
static uint64_t count_in_scratch(const struct gathering *g, unsigned partition)
{
    uint64_t n = 0;
    unsigned first, last;
    subranges_in(g, &first, &last);
    for (unsigned w = 0; w < g->ks->spec.workers; w++)
        n += g->ks->workers[w].share[partition].n_spilled;
    return n / SUBRANGES * (last + 1 - first);
}

/* Gathers a partition's hashes that lie in the interval, with two exceptions: they are known not to
 * fit, or they may not fit and one half can be read without the other. */
static bool try_gather(struct gathering *g, unsigned partition, bool *fits)
{
    struct count sorted;
    *fits = false;
    if (!count_sorted(g, partition, &sorted))
        return false;
    /* Too many hashes are tried only if no fewer can be read: most of them may be repeats. */
    if (!is_one(g->ks, &g->in) && sorted.least > g->ks->capacity)
        return true;
    if (g->in.width[0] > SUB_WIDTH && count_in_scratch(g, partition) > g->ks->capacity)
        return true;
    return gather(g, partition, fits);
}

/* Gathers a partition piece by piece, each as large as fits, and calls `use` on each in ascending
 * order. An interval that does not fit is halved. */
static bool gather_all(struct keyset *ks, struct worker *worker, unsigned partition,
                       const struct interval *all, gathered_fn *use)
{
    struct interval in = *all, low, high;
    bool fits;
    do {
        struct gathering g = {ks, worker, in, 0, false};
        if (!try_gather(&g, partition, &fits) || (fits && !use(&g)))
            return false;
        if (!fits) {
            halve(&in, &low, &high);
            in = low;
        }
    } while (!fits || go_on(ks, &in, all));
    return true;
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

static uint64_t count_partition_all(const struct keyset *ks, unsigned partition)
{
    uint64_t n = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        n += ks->workers[w].share[partition].n_spilled + blocks_in(&ks->workers[w], partition).n;
    return n;
}

static void sort_group(struct worker *worker, const struct blocks *b, size_t begin, size_t end,
                       unsigned lanes)
{
    size_t n;
    for (size_t i = begin; i < end; i += n) {
        const uint64_t *from = some_of(b, i, end, &n);
        memcpy(worker->gathered + (i - begin), from, n * sizeof *from);
    }
    sort_hashes(worker->gathered, worker->sorted, (end - begin) / lanes, lanes, PARTITION_WIDTH);
    for (size_t i = begin; i < end; i += n) {
        uint64_t *to = some_of(b, i, end, &n);
        memcpy(to, worker->gathered + (i - begin), n * sizeof *to);
    }
}

/* If a partition does not fit the buffers, sorts its hashes in memory, in groups. */
static bool sort_if_crowded(struct keyset *ks, struct worker *worker, unsigned partition)
{
    if (count_partition_all(ks, partition) <= ks->capacity)
        return true;
    if (!get_buffers(ks, worker))
        return false;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        struct worker *of = &ks->workers[w];
        struct blocks b = blocks_in(of, partition);
        for (size_t i = 0; i < b.n && !of->share[partition].in_sorted_groups; i += group_of(ks))
            sort_group(worker, &b, i, b.n - i < group_of(ks) ? b.n : i + group_of(ks),
                       ks->spec.lanes);
        of->share[partition].in_sorted_groups = true;
    }
    return true;
}

static bool gather_partition(struct keyset *ks, struct worker *worker, unsigned partition,
                             gathered_fn *use)
{
    struct interval all = interval_of((uint64_t)partition << PARTITION_WIDTH, PARTITION_WIDTH);
    return get_buffers(ks, worker) && gather_all(ks, worker, partition, &all, use);
}

static bool count_gathered(struct gathering *g)
{
    remove_repeats(g);
    g->worker->n_distinct += g->n / g->ks->spec.lanes;
    return true;
}

static bool count_partition(struct keyset *ks, struct worker *worker, unsigned partition)
{
    return gather_partition(ks, worker, partition, count_gathered);
}

/* Does the interval include the last value of every lane but the first? */
static bool others_end(const struct keyset *ks, const struct interval *in)
{
    for (unsigned l = 1; l < ks->lanes; l++)
        if (last_of(in->first[l], in->width[l]) != UINT64_MAX)
            return false;
    return true;
}

static bool visit_range(struct keyset *ks, struct worker *worker, struct interval in,
                        const struct keyset_piece *piece, size_t n_pieces, bool had_repeats)
{
    uint64_t last = last_of(in.first[0], in.width[0]);
    struct keyset_range range = {
        .worker = (unsigned)(worker - ks->workers),
        .first = in.first[0],
        .last = last,
        .piece = piece,
        .n_pieces = n_pieces,
        .partition = in.first[0] >> 1 >> (63 - ks->bits),
        .ends_partition = (last + 1) << ks->bits == 0 && others_end(ks, &in),
        .had_repeats = had_repeats,
    };
    return ks->visit(ks->visit_ctx, &range, &worker->err);
}

/* Visits an interval that contains all gathered hashes. Its ranges have about RANGE lanes each if
 * the hashes are random. */
static bool visit_in_ranges(struct gathering *g, struct interval in)
{
    struct worker *worker = g->worker;
    const unsigned lanes = g->ks->spec.lanes;
    size_t n = g->n / lanes, start[(1 << SORT_RANGE_BITS) + 1] = {0, n};
    unsigned bits = sort_range_bits(n, RANGE / lanes, in.width[0]);
    const uint64_t *hash = worker->gathered;
    if (bits > 0) {
        sort_by_range(worker->gathered, n, lanes, in.width[0], bits, worker->sorted, start);
        hash = worker->sorted;
    }
    in.width[0] = (unsigned char)(in.width[0] - bits);
    for (uint64_t r = 0; r < (uint64_t)1 << bits; r++) {
        struct keyset_piece piece = {hash + start[r] * lanes, start[r + 1] - start[r]};
        if (!visit_range(g->ks, worker, in, &piece, 1, g->had_repeats))
            return false;
        in.first[0] += (uint64_t)1 << in.width[0];
    }
    return true;
}

/* Halves the first lane while its width is above `crowd`, which is at least the width of the
 * gathered hashes. So one half is empty: chosen hashes may crowd in a small part. */
static bool visit_crowd(struct gathering *g, struct interval in, unsigned crowd)
{
    if (in.width[0] == crowd)
        return visit_in_ranges(g, in);
    struct interval low, high;
    halve(&in, &low, &high);
    if (g->worker->gathered[0] < high.first[0])
        return visit_crowd(g, low, crowd) &&
               visit_range(g->ks, g->worker, high, NULL, 0, g->had_repeats);
    return visit_range(g->ks, g->worker, low, NULL, 0, g->had_repeats) &&
           visit_crowd(g, high, crowd);
}

static bool visit_gathered(struct gathering *g)
{
    const unsigned lanes = g->ks->spec.lanes, width = g->in.width[0];
    bool is_large = g->n > RANGE;
    return visit_crowd(g, g->in,
                       is_large ? sort_width(g->worker->gathered, g->n / lanes, lanes, width)
                                : width);
}

/* Lists the blocks of a partition. False if it is not all in memory or does not fit one range. */
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
            piece[(*n_pieces)++] = (struct keyset_piece){s->full[i], BLOCK / ks->spec.lanes};
        if (n_open > 0)
            piece[(*n_pieces)++] = (struct keyset_piece){open, n_open / ks->spec.lanes};
    }
    return true;
}

static bool visit_partition(struct keyset *ks, struct worker *worker, unsigned partition)
{
    size_t n_pieces;
    if (list_blocks(ks, partition, worker->piece, &n_pieces))
        return visit_range(ks, worker,
                           interval_of((uint64_t)partition << PARTITION_WIDTH, PARTITION_WIDTH),
                           worker->piece, n_pieces, false);
    return gather_partition(ks, worker, partition, visit_gathered);
}

struct pass {
    struct keyset *ks;
    bool (*partition)(struct keyset *ks, struct worker *worker, unsigned partition);
};

/* Worker 0 shows the progress of all. */
static void part_done(struct keyset *ks, unsigned w, uint64_t parts)
{
    uint64_t done = atomic_fetch_add_explicit(&ks->parts_done, 1, memory_order_relaxed) + 1;
    if (w == 0)
        progress_part(done, parts);
}

static void pass_partition(void *ctx, unsigned w, uint64_t i)
{
    struct pass *pass = ctx;
    struct keyset *ks = pass->ks;
    if (ks->stop)
        return;
    if (pass->partition(ks, &ks->workers[w], (unsigned)i)) {
        part_done(ks, w, KEYSET_PARTITIONS);
        return;
    }
    ks->workers[w].failed = true;
    ks->stop = true;
}

/* Clears the results of an earlier pass, which may have failed. */
static void begin_pass(struct keyset *ks)
{
    ks->stop = false;
    ks->parts_done = 0;
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

static bool end_pass(const struct keyset *ks, uint64_t parts, struct err *err)
{
    if (!pass_result(ks, err))
        return false;
    progress_part(parts, parts);
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
    return end_pass(ks, KEYSET_PARTITIONS, err);
}

static bool end_puts(struct keyset *ks, struct err *err)
{
    return keyset_close_blocks(ks, err) && run_pass(ks, sort_if_crowded, err);
}

bool keyset_finish(struct keyset *ks, uint64_t *n_distinct, struct err *err)
{
    if (!end_puts(ks, err) || !run_pass(ks, count_partition, err))
        return false;
    *n_distinct = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        *n_distinct += ks->workers[w].n_distinct;
    return true;
}

bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err)
{
    if (!end_puts(ks, err))
        return false;
    ks->visit = visit;
    ks->visit_ctx = ctx;
    ks->bits = KEYSET_BITS;
    return run_pass(ks, visit_partition, err);
}

LANES_INLINE size_t equal_neighbours_body(uint64_t *a, size_t n, unsigned lanes)
{
    size_t count = n > 0 ? lanes : 0;
    for (size_t i = lanes; i < n; i += lanes)
        if (!lanes_equal(a + i, a + count - lanes, lanes)) {
            lanes_copy(a + count, a + i, lanes);
            count += lanes;
        }
    return count;
}

static size_t remove_equal_neighbours(uint64_t *a, size_t n, unsigned lanes)
{
    return lanes == 1   ? equal_neighbours_body(a, n, 1)
           : lanes == 2 ? equal_neighbours_body(a, n, 2)
                        : equal_neighbours_body(a, n, lanes);
}

static bool visit_part(const struct gathering *g)
{
    struct worker *worker = g->worker;
    const unsigned lanes = g->ks->spec.lanes;
    sort_hashes(worker->gathered, worker->sorted, g->n / lanes, lanes, g->in.width[0]);
    size_t n = remove_equal_neighbours(worker->gathered, g->n, lanes);
    struct keyset_piece piece = {worker->gathered, n / lanes};
    return visit_range(g->ks, worker, g->in, &piece, 1, g->had_repeats || n < g->n);
}

static void partitions_in(const struct gathering *g, unsigned *first, unsigned *last)
{
    *first = (unsigned)(g->in.first[0] >> PARTITION_WIDTH);
    *last = (unsigned)(last_of(g->in.first[0], g->in.width[0]) >> PARTITION_WIDTH);
}

/* Does count_sorted() count all hashes of a partition? */
static bool is_sorted(const struct keyset *ks, unsigned partition)
{
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        const struct share *s = &ks->workers[w].share[partition];
        if (!s->in_sorted_groups || s->n_spilled > s->n_sorted)
            return false;
    }
    return true;
}

/* An upper bound on the lanes in the interval. */
static bool count_at_most(struct gathering *g, uint64_t *count)
{
    unsigned begin, end;
    struct count sorted;
    partitions_in(g, &begin, &end);
    *count = 0;
    for (unsigned p = begin; p <= end; p++) {
        if (g->in.width[0] >= PARTITION_WIDTH || !is_sorted(g->ks, p))
            *count += count_partition_all(g->ks, p);
        else if (!count_sorted(g, p, &sorted))
            return false;
        else
            *count += sorted.most;
    }
    return true;
}

static bool gather_prefix(struct gathering *g, bool *fits)
{
    unsigned begin, end;
    partitions_in(g, &begin, &end);
    *fits = true;
    for (unsigned p = begin; p <= end && *fits; p++)
        if (!gather(g, p, fits))
            return false;
    return true;
}

/* Visits an interval that is a whole prefix or a part of one. It is halved if it does not fit, or
 * is known not to fit: it has at least `least` lanes of distinct hashes. */
static bool visit_prefix(struct keyset *ks, struct worker *worker, struct interval in,
                         uint64_t least)
{
    struct gathering g = {ks, worker, in, 0, false};
    bool fits = false;
    if ((is_one(ks, &in) || !is_too_many(ks, least)) && !gather_prefix(&g, &fits))
        return false;
    if (fits || is_one(ks, &in))
        return visit_part(&g);
    uint64_t n_low, n_high;
    struct gathering low = {ks, worker, in, 0, false}, high = low;
    halve(&in, &low.in, &high.in);
    if (!count_at_most(&low, &n_low) || !count_at_most(&high, &n_high))
        return false;
    least = g.n > least ? g.n : least;
    return visit_prefix(ks, worker, low.in, least > n_high ? least - n_high : 0) &&
           visit_prefix(ks, worker, high.in, least > n_low ? least - n_low : 0);
}

static void pass_prefix(void *ctx, unsigned w, uint64_t i)
{
    struct keyset *ks = ctx;
    struct worker *worker = &ks->workers[w];
    if (ks->stop)
        return;
    if (get_buffers(ks, worker) &&
        visit_prefix(ks, worker, interval_of(i << 1 << (63 - ks->bits), 64 - ks->bits), 0)) {
        part_done(ks, w, (uint64_t)1 << ks->bits);
        return;
    }
    worker->failed = true;
    if (!atomic_exchange(&ks->stop, true))
        ks->gave_up(ks->visit_ctx);
}

bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err)
{
    if (!end_puts(ks, err))
        return false;
    ks->visit = visit;
    ks->gave_up = gave_up;
    ks->visit_ctx = ctx;
    ks->bits = bits;
    begin_pass(ks);
    parallel_for(visitors_of(&ks->spec), (uint64_t)1 << bits, pass_prefix, ks);
    return end_pass(ks, (uint64_t)1 << bits, err);
}
