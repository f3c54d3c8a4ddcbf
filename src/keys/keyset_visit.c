/* Visits the hashes of a keyset, range by range. */
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "keys/keyset_parts.h"
#include "keys/lanes.h"
#include "keys/sort.h"

/* Hashes that agree in their first `depth` bits, counted over all lanes: those of partitions
 * [first, end), or, if they were split off, runs in the worker's scratch file. */
struct node {
    unsigned first, end; /* end 0: runs */
    struct run *run;
    size_t n_runs, room;
    uint64_t prefix; /* of the first lane */
    unsigned depth;
    bool is_last; /* in the lanes after the first: no later hash has this first lane */
    bool picked;  /* there are other hashes among them, which are passed over */
    bool sparse;  /* most are others */
    /* In a sample, most hashes share the first heavy_depth bits of `heavy`. 0: no sample was taken,
     * or it was wrong. */
    uint64_t heavy;
    unsigned heavy_depth;
};

typedef bool take_fn(void *ctx, const uint64_t *hash, size_t n);

static bool take_run(struct worker *worker, const struct worker *of, struct run run, take_fn *take,
                     void *ctx, bool *go_on)
{
    for (size_t n; run.n > 0 && *go_on; run.n -= n, run.off += n * sizeof(uint64_t)) {
        n = run.n < BUFFER ? (size_t)run.n : BUFFER;
        if (!keyset_read(of, worker->buffer, n * sizeof(uint64_t), run.off, &worker->err))
            return false;
        *go_on = take(ctx, worker->buffer, n);
    }
    return true;
}

static bool take_share(struct worker *worker, const struct worker *of, unsigned partition,
                       take_fn *take, void *ctx, bool *go_on)
{
    struct blocks b = blocks_in(of, partition);
    for (size_t i = 0, n; i < b.n && *go_on; i += n) {
        const uint64_t *hash = some_of(&b, i, b.n, &n);
        *go_on = take(ctx, hash, n);
    }
    for (size_t i = 0; of->share[partition].n_spilled > 0 && i < of->n_spills && *go_on; i++) {
        struct run run;
        if (!keyset_read(of, &run, sizeof run, of->spills[i] + partition * sizeof run,
                         &worker->err) ||
            !take_run(worker, of, run, take, ctx, go_on))
            return false;
    }
    return true;
}

struct picking {
    take_fn *take;
    void *ctx;
    uint64_t prefix;
    unsigned shift, lanes;
};

/* Passes on the hashes with the prefix. */
static bool pick(void *ctx, const uint64_t *hash, size_t n)
{
    const struct picking *p = ctx;
    for (size_t i = 0, begin; i < n;) {
        while (i < n && (hash[i] ^ p->prefix) >> p->shift != 0)
            i += p->lanes;
        for (begin = i; i < n && (hash[i] ^ p->prefix) >> p->shift == 0;)
            i += p->lanes;
        if (i > begin && !p->take(p->ctx, hash + begin, i - begin))
            return false;
    }
    return true;
}

/* Passes all hashes of a node to `take`, until it returns false. False: they cannot be read. */
static bool take_node(const struct keyset *ks, struct worker *worker, const struct node *node,
                      take_fn *take, void *ctx)
{
    bool go_on = true;
    struct picking picking = {take, ctx, node->prefix, 64 - node->depth, ks->spec.lanes};
    if (node->picked) {
        take = pick;
        ctx = &picking;
    }
    for (unsigned p = node->first; p < node->end && go_on; p++)
        for (unsigned w = 0; w < ks->spec.workers && go_on; w++)
            if (!take_share(worker, &ks->workers[w], p, take, ctx, &go_on))
                return false;
    for (size_t i = 0; i < node->n_runs && go_on; i++)
        if (!take_run(worker, worker, node->run[i], take, ctx, &go_on))
            return false;
    return true;
}

/* The hashes of a node, being gathered in worker->gathered. */
struct gathering {
    struct keyset *ks;
    struct worker *worker;
    const struct node *node;
    size_t n;
    bool had_repeats, fits;
};

static unsigned width_of(const struct node *node)
{
    return node->depth < 64 ? 64 - node->depth : 0;
}

/* Sorts what was gathered and removes repeats, counting them if the keyset does. */
static void sort_gathered(struct gathering *g)
{
    const struct keyset *ks = g->ks;
    const unsigned lanes = ks->spec.lanes;
    uint64_t *a = g->worker->gathered;
    size_t n = 0;
    sort_hashes(a, g->worker->sorted, g->n / lanes, lanes, width_of(g->node));
    for (size_t i = 0; i < g->n; i += lanes) {
        if (n == 0 || !lanes_equal(a + i, a + n - lanes, ks->lanes)) {
            lanes_copy(a + n, a + i, lanes);
            n += lanes;
        } else if (ks->spec.counts) {
            a[n - 1] += a[i + lanes - 1] + 1;
        }
    }
    g->had_repeats |= n < g->n;
    g->n = n;
}

/* Repeats are removed whenever the buffer is full. If it is still nearly full, it is too small. */
static void remove_repeats(struct gathering *g)
{
    unsigned lanes = g->ks->spec.lanes;
    if (g->ks->spec.counts) {
        sort_gathered(g);
        return;
    }
    size_t n =
        distinct(g->worker->gathered, g->worker->sorted, g->n / lanes, lanes, width_of(g->node)) *
        lanes;
    g->had_repeats |= n < g->n;
    g->n = n;
}

static bool gather(void *ctx, const uint64_t *hash, size_t n)
{
    struct gathering *g = ctx;
    for (size_t some; n > 0; n -= some, hash += some) {
        if (g->n == g->ks->capacity) {
            remove_repeats(g);
            g->fits = g->n <= g->ks->capacity / 4 * 3;
            if (!g->fits)
                return false;
        }
        some = g->ks->capacity - g->n < n ? g->ks->capacity - g->n : n;
        memcpy(g->worker->gathered + g->n, hash, some * sizeof *hash);
        g->n += some;
    }
    return true;
}

/* ---- A node that does not fit is split by its next bits, through scratch. Chosen hashes may have
 * to be split several times, but never more than once for each SPLIT_BITS bits. If most have the
 * same next bits, these are not written: their node takes them from where they are. */
enum { SPLIT_BITS = 6, FAN = 1 << SPLIT_BITS };

struct splitting {
    const struct keyset *ks;
    struct worker *worker;
    struct node child[FAN];
    size_t n[FAN], room; /* lanes of each child in memory */
    unsigned lane, shift, mask;
    unsigned heavy;           /* the child that is not written; FAN: none */
    uint64_t n_heavy, n_read; /* hashes of it, of all */
};

/* Finds the prefix that most of the gathered hashes share: all but the first and last eighth of a
 * sample. */
static void find_heavy(const struct gathering *g, struct node *node)
{
    enum { SAMPLE = 256, EIGHTH = SAMPLE / 8 };
    const unsigned lanes = g->ks->spec.lanes;
    uint64_t sample[SAMPLE], tmp[SAMPLE];
    for (size_t i = 0; i < SAMPLE; i++)
        sample[i] = g->worker->gathered[g->n / lanes * i / SAMPLE * lanes];
    sort_hashes(sample, tmp, SAMPLE, 1, 64);
    uint64_t differ = sample[EIGHTH] ^ sample[SAMPLE - 1 - EIGHTH];
    node->heavy = sample[EIGHTH];
    node->heavy_depth = differ != 0 ? (unsigned)__builtin_clzll(differ) : 64;
}

static bool flush(struct splitting *s, unsigned i)
{
    struct node *c = &s->child[i];
    struct worker *w = s->worker;
    if (c->n_runs == c->room) {
        size_t room = 2 * c->room + 16;
        struct run *run = realloc(c->run, room * sizeof *run);
        if (run == NULL)
            return fail(&w->err, "out of memory");
        c->run = run;
        c->room = room;
    }
    c->run[c->n_runs++] = (struct run){w->scratch_len, s->n[i]};
    size_t bytes = s->n[i] * sizeof(uint64_t);
    s->n[i] = 0;
    w->scratch_len += bytes;
    return disk_write(w->scratch, w->gathered + i * s->room, bytes, w->scratch_len - bytes,
                      "scratch file", &w->err);
}

static bool put(void *ctx, const uint64_t *hash, size_t n)
{
    struct splitting *s = ctx;
    const unsigned lanes = s->ks->spec.lanes;
    for (size_t i = 0; i < n; i += lanes) {
        unsigned to = (unsigned)(hash[i + s->lane] >> s->shift) & s->mask;
        s->n_read++;
        if (to == s->heavy) {
            s->n_heavy++;
            continue;
        }
        if (s->n[to] == s->room && !flush(s, to))
            return false;
        lanes_copy(s->worker->gathered + to * s->room + s->n[to], hash + i, lanes);
        s->n[to] += lanes;
    }
    return true;
}

/* Lets the heavy child have the hashes of its parent. */
static void share(struct splitting *s, const struct node *node)
{
    s->heavy = (unsigned)(node->heavy >> s->shift) & s->mask;
    struct node *c = &s->child[s->heavy];
    const struct node own = *c;
    *c = *node;
    c->prefix = own.prefix;
    c->depth = own.depth;
    c->is_last = own.is_last;
    c->picked = true;
}

static bool split(struct splitting *s, const struct node *node)
{
    const struct keyset *ks = s->ks;
    unsigned left = 64 - node->depth % 64, bits = left < SPLIT_BITS ? left : SPLIT_BITS;
    s->lane = node->depth / 64;
    s->shift = left - bits;
    s->mask = (1u << bits) - 1;
    s->room = ks->capacity / FAN / ks->spec.lanes * ks->spec.lanes;
    for (unsigned i = 0; i <= s->mask; i++) {
        s->child[i] = (struct node){.prefix = node->prefix,
                                    .depth = node->depth + bits,
                                    .is_last = node->is_last && (s->lane == 0 || i == s->mask)};
        if (s->lane == 0)
            s->child[i].prefix |= (uint64_t)i << s->shift;
    }
    s->heavy = FAN;
    if (s->lane == 0 && node->heavy_depth >= node->depth + bits)
        share(s, node);
    struct err ok = s->worker->err;
    s->worker->err.text[0] = '\0';
    if (!keyset_open_scratch(ks, s->worker, 0, &s->worker->err) ||
        !take_node(ks, s->worker, node, put, s) || s->worker->err.text[0] != '\0')
        return false;
    s->worker->err = ok;
    for (unsigned i = 0; i <= s->mask; i++)
        if (s->n[i] > 0 && !flush(s, i))
            return false;
    if (s->heavy < FAN && s->n_heavy < s->n_read / 2) {
        s->child[s->heavy].sparse = true;
        s->child[s->heavy].heavy_depth = 0;
    }
    return true;
}

typedef bool gathered_fn(struct gathering *g);

/* Calls `use` on all hashes of a node, or on those of its parts in ascending order. */
static bool visit_node(struct keyset *ks, struct worker *worker, struct node *node,
                       gathered_fn *use)
{
    struct gathering g = {.ks = ks, .worker = worker, .node = node, .fits = true};
    if (node->heavy_depth <= node->depth) {
        if (!take_node(ks, worker, node, gather, &g))
            return false;
        if (g.fits)
            return use(&g);
        node->heavy_depth = 0;
        if (!node->sparse)
            find_heavy(&g, node);
    }
    struct splitting *s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(&worker->err, "out of memory");
    s->ks = ks;
    s->worker = worker;
    bool ok = split(s, node);
    for (unsigned i = 0; i <= s->mask; i++) {
        ok = ok && visit_node(ks, worker, &s->child[i], use);
        if (i != s->heavy)
            free(s->child[i].run);
    }
    free(s);
    return ok;
}

static bool get_buffers(struct keyset *ks, struct worker *worker)
{
    size_t bytes = ks->capacity * sizeof(uint64_t);
    if (worker->gathered == NULL)
        worker->gathered = keyset_map(bytes, true);
    if (worker->sorted == NULL)
        worker->sorted = keyset_map(bytes, true);
    if (worker->buffer == NULL)
        worker->buffer = malloc(BUFFER * sizeof *worker->buffer);
    return (worker->gathered != NULL && worker->sorted != NULL && worker->buffer != NULL) ||
           fail_errno(&worker->err, "cannot get memory for keys");
}

/* Visits the hashes whose first `bits` bits are those of i. */
static bool visit_prefix(struct keyset *ks, struct worker *worker, uint64_t i, unsigned bits,
                         gathered_fn *use)
{
    unsigned each = 1u << (KEYSET_BITS - bits);
    struct node node = {.first = (unsigned)i * each,
                        .end = ((unsigned)i + 1) * each,
                        .prefix = i << 1 << (63 - bits),
                        .depth = bits,
                        .is_last = true};
    return get_buffers(ks, worker) && visit_node(ks, worker, &node, use);
}

static bool count_gathered(struct gathering *g)
{
    remove_repeats(g);
    g->worker->n_distinct += g->n / g->ks->spec.lanes;
    return true;
}

static bool visit_range(const struct gathering *g, uint64_t first, unsigned width, bool is_last,
                        const struct keyset_piece *piece, size_t n_pieces)
{
    const struct keyset *ks = g->ks;
    uint64_t last = width < 64 ? first + (((uint64_t)1 << width) - 1) : UINT64_MAX;
    struct keyset_range range = {
        .worker = (unsigned)(g->worker - ks->workers),
        .first = first,
        .last = last,
        .piece = piece,
        .n_pieces = n_pieces,
        .partition = first >> 1 >> (63 - ks->bits),
        .ends_partition = (last + 1) << ks->bits == 0 && is_last,
        .had_repeats = g->had_repeats,
    };
    return ks->visit(ks->visit_ctx, &range, &g->worker->err);
}

/* In ranges of about RANGE lanes each if the hashes are random. */
static bool visit_in_ranges(struct gathering *g)
{
    struct worker *worker = g->worker;
    const unsigned lanes = g->ks->spec.lanes;
    unsigned width = width_of(g->node);
    size_t n = g->n / lanes, start[(1 << SORT_RANGE_BITS) + 1] = {0, n};
    unsigned bits = sort_range_bits(n, RANGE / lanes, width);
    const uint64_t *hash = worker->gathered;
    if (bits > 0) {
        sort_by_range(worker->gathered, n, lanes, width, bits, worker->sorted, start);
        hash = worker->sorted;
    }
    width -= bits;
    for (uint64_t r = 0, first = g->node->prefix; r < (uint64_t)1 << bits;
         r++, first += (uint64_t)1 << width) {
        struct keyset_piece piece = {hash + start[r] * lanes, start[r + 1] - start[r]};
        if (!visit_range(g, first, width, g->node->is_last, &piece, 1))
            return false;
    }
    return true;
}

/* Lists the blocks of a partition. False if it is not all in memory or does not fit one range. */
static bool list_blocks(const struct keyset *ks, unsigned partition, struct keyset_piece *piece,
                        size_t *n_pieces)
{
    size_t n_full = 0;
    *n_pieces = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        const struct worker *of = &ks->workers[w];
        struct blocks b = blocks_in(of, partition);
        n_full += b.n / BLOCK;
        if (of->share[partition].n_spilled > 0 || n_full > RANGE_BLOCKS)
            return false;
        for (size_t i = 0, n; i < b.n; i += n, ++*n_pieces) {
            const uint64_t *hash = some_of(&b, i, b.n, &n);
            piece[*n_pieces] = (struct keyset_piece){hash, n / ks->spec.lanes};
        }
    }
    return true;
}

/* Visits n sorted hashes, all of those in a range: each prefix apart, and at most spec.part at a
 * time. */
static bool visit_parts(const struct gathering *g, const uint64_t *a, size_t n, uint64_t first,
                        unsigned width)
{
    const unsigned lanes = g->ks->spec.lanes;
    const size_t part = g->ks->spec.part > 0 ? g->ks->spec.part : SIZE_MAX;
    if (width > 64 - g->ks->bits || (n > part && width > 0)) {
        uint64_t middle = first + ((uint64_t)1 << --width);
        size_t n_low = sort_below(a, n, lanes, middle);
        return visit_parts(g, a, n_low, first, width) &&
               visit_parts(g, a + n_low * lanes, n - n_low, middle, width);
    }
    for (size_t some;; n -= some, a += some * lanes) {
        some = n < part ? n : part;
        struct keyset_piece piece = {a, some};
        if (!visit_range(g, first, width, g->node->is_last && some == n, &piece, 1))
            return false;
        if (some == n)
            return true;
    }
}

static bool visit_sorted(struct gathering *g)
{
    const unsigned lanes = g->ks->spec.lanes;
    sort_gathered(g);
    return visit_parts(g, g->worker->gathered, g->n / lanes, g->node->prefix, width_of(g->node));
}

/* ---- Passes over all units by all workers. */

static bool count_unit(struct keyset *ks, struct worker *worker, uint64_t i)
{
    return visit_prefix(ks, worker, i, KEYSET_BITS, count_gathered);
}

static bool visit_unit(struct keyset *ks, struct worker *worker, uint64_t i)
{
    size_t n_pieces;
    const struct gathering g = {.ks = ks, .worker = worker};
    if (list_blocks(ks, (unsigned)i, worker->piece, &n_pieces))
        return visit_range(&g, i << (64 - KEYSET_BITS), 64 - KEYSET_BITS, true, worker->piece,
                           n_pieces);
    return visit_prefix(ks, worker, i, KEYSET_BITS, visit_in_ranges);
}

static unsigned sorted_bits(const struct keyset *ks)
{
    return ks->bits < KEYSET_BITS ? ks->bits : KEYSET_BITS;
}

static bool sort_unit(struct keyset *ks, struct worker *worker, uint64_t i)
{
    return visit_prefix(ks, worker, i, sorted_bits(ks), visit_sorted);
}

struct pass {
    struct keyset *ks;
    bool (*unit)(struct keyset *ks, struct worker *worker, uint64_t i);
    uint64_t units;
};

/* Worker 0 shows the progress of all. */
static void do_unit(void *ctx, unsigned w, uint64_t i)
{
    struct pass *pass = ctx;
    struct keyset *ks = pass->ks;
    if (ks->stop)
        return;
    if (!pass->unit(ks, &ks->workers[w], i)) {
        /* The first to fail has the cause; others may fail because of it. */
        if (atomic_exchange(&ks->stop, true))
            return;
        ks->workers[w].failed = true;
        if (ks->gave_up != NULL)
            ks->gave_up(ks->visit_ctx);
        return;
    }
    uint64_t done = atomic_fetch_add_explicit(&ks->parts_done, 1, memory_order_relaxed) + 1;
    if (w == 0)
        progress_part(done, pass->units);
}

static bool run_pass(struct keyset *ks, uint64_t units,
                     bool (*unit)(struct keyset *ks, struct worker *worker, uint64_t i),
                     struct err *err)
{
    struct pass pass = {ks, unit, units};
    if (!keyset_close_blocks(ks, err))
        return false;
    ks->stop = false;
    ks->parts_done = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        ks->workers[w].failed = false;
        ks->workers[w].n_distinct = 0;
    }
    parallel_for(visitors_of(&ks->spec), units, do_unit, &pass);
    for (unsigned w = 0; w < ks->spec.workers; w++)
        if (ks->workers[w].failed) {
            *err = ks->workers[w].err;
            return false;
        }
    progress_part(units, units);
    return true;
}

bool keyset_finish(struct keyset *ks, uint64_t *n_distinct, struct err *err)
{
    ks->gave_up = NULL;
    if (!run_pass(ks, KEYSET_PARTITIONS, count_unit, err))
        return false;
    *n_distinct = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        *n_distinct += ks->workers[w].n_distinct;
    return true;
}

bool keyset_visit(struct keyset *ks, keyset_visitor *visit, void *ctx, struct err *err)
{
    ks->visit = visit;
    ks->gave_up = NULL;
    ks->visit_ctx = ctx;
    ks->bits = KEYSET_BITS;
    return run_pass(ks, KEYSET_PARTITIONS, visit_unit, err);
}

bool keyset_visit_sorted(struct keyset *ks, unsigned bits, keyset_visitor *visit,
                         void (*gave_up)(void *ctx), void *ctx, struct err *err)
{
    ks->visit = visit;
    ks->gave_up = gave_up;
    ks->visit_ctx = ctx;
    ks->bits = bits;
    return run_pass(ks, (uint64_t)1 << sorted_bits(ks), sort_unit, err);
}
