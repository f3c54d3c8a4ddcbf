#include "keyset.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "disk.h"
#include "distinct.h"
#include "parallel.h"
#include "sort.h"

/* Hashes are collected in blocks: small enough that a worker can have one open for each partition
 * (1 MiB in all), large enough that closing one costs nothing. */
enum { BLOCK = 512 };

/* Hashes in one visited range, about: their part of a filter stays in the second-level cache. */
enum { RANGE = 1 << 16, RANGE_BLOCKS = RANGE / BLOCK };

/* A spill puts all hashes of a worker into its scratch file, partition by partition: those of each
 * in a run, and a table of the runs behind them. While partitions are small, a run is just hashes.
 * Of large ones it is in extents that are in order of the partition's SUBRANGES, so that one of
 * them can be read without the others: EXTENT hashes, fewer only in the last, and where each
 * subrange begins behind them. Runs and extents begin on whole pages of the file: the kernel would
 * have to fill in the rest of others. So memory holds next to nothing of what was spilled. */
enum {
    PARTITION_WIDTH = 64 - KEYSET_BITS,
    SUB_BITS = 4,
    SUBRANGES = 1 << SUB_BITS,
    SUB_WIDTH = PARTITION_WIDTH - SUB_BITS,
    EXTENT_BLOCKS = 63, /* with the subranges' begins, 64 pages: what is put in order at once */
    EXTENT = EXTENT_BLOCKS * BLOCK,
};

struct run {
    uint64_t off, n;
};

struct spill {
    uint64_t runs; /* offset of struct run[KEYSET_PARTITIONS] */
    bool ordered;
};

/* One worker's share of one partition, apart from the block being filled. */
struct share {
    uint64_t **full; /* full blocks */
    size_t n_full, room_full;
    uint64_t n_spilled; /* hashes */
};

struct worker {
    /* Where the next hash of a partition goes. Blocks are aligned to their size, so this is at the
     * beginning of one exactly when there is no block with room: at its end, or NULL. */
    uint64_t *next[KEYSET_PARTITIONS];
    struct share share[KEYSET_PARTITIONS];
    uint64_t *arena; /* blocks are cut from it one after another */
    size_t arena_blocks, used_blocks, pool_blocks;
    int scratch; /* a file of its own: two that write to one wait for each other */
    uint64_t scratch_len;
    struct spill *spills;
    size_t n_spills, room_spills;
    uint64_t *in_order;          /* EXTENT hashes */
    uint64_t *gathered, *sorted; /* `capacity` hashes each */
    struct keyset_piece *piece;  /* RANGE_BLOCKS, and one a worker */
    struct err err;
    bool failed;
    uint64_t n_distinct;
} __attribute__((aligned(64)));

struct keyset {
    struct keyset_spec spec;
    struct worker *workers;
    size_t capacity; /* of gathered and sorted */
    size_t own_blocks;
    _Atomic size_t pool_left;
    atomic_bool stop;
    keyset_visitor *visit;
    void (*gave_up)(void *ctx);
    void *visit_ctx;
    unsigned bits; /* of the prefixes that are visited */
};

enum { HUGE_PAGE = 2 << 20 };

/* With huge pages all is a tenth faster, where the kernel gives them; but then memory is taken up
 * to the end of one. None reaches beyond what is mapped. */
static void *map_memory(size_t bytes, bool huge)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)p % HUGE_PAGE;
    if (huge && bytes >= before + HUGE_PAGE)
        madvise(p + before, (bytes - before) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return p;
}

static void unmap_memory(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, bytes);
}

enum { BLOCK_BYTES = BLOCK * sizeof(uint64_t) };

static unsigned visitors_of(const struct keyset_spec *spec)
{
    return spec->visitors != 0 && spec->visitors < spec->workers ? spec->visitors : spec->workers;
}

/* A part that has no room after repeats were removed has more distinct hashes than three quarters
 * of this. */
static size_t room_for(size_t part)
{
    return part / 3 * 4 + 4;
}

uint64_t keyset_part_memory(size_t part)
{
    return (uint64_t)2 * room_for(part) * sizeof(uint64_t);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How the memory is divided: what parts take, or a quarter, for looking through partitions (each
 * visitor gathers one in one buffer and sorts it into another); half of that where partitions are
 * small, since memory is drained; then what each worker takes for itself; and of the rest a
 * quarter for blocks that each worker is sure to get, and three for those that go to whoever asks
 * first. */
static size_t capacity_of(const struct keyset_spec *spec)
{
    uint64_t memory = least(spec->memory, SIZE_MAX / 2) / (spec->drain != NULL ? 8 : 4);
    uint64_t capacity = memory / visitors_of(spec) / (2 * sizeof(uint64_t));
    size_t room = spec->part != 0 ? room_for(spec->part) : 0;
    return room > capacity ? room : (size_t)least(capacity, SORT_MOST);
}

/* In bytes: struct worker, in_order, and the stack while partitions are looked through. */
enum { WORKER_MEMORY = 384 << 10 };

/* A block, and its place in a list that is up to twice as long as it need be. */
enum { BLOCK_COST = BLOCK_BYTES + 2 * sizeof(uint64_t *) };

/* Where huge pages are a small part of what a worker has. */
static bool takes_huge_pages(const struct keyset_spec *spec)
{
    return spec->memory / spec->workers >= 8 * HUGE_PAGE;
}

/* No more than there are addresses for: each worker maps the pool. */
static size_t blocks_of(const struct keyset_spec *spec)
{
    uint64_t gathering = (uint64_t)capacity_of(spec) * visitors_of(spec) * 2 * sizeof(uint64_t);
    uint64_t each = WORKER_MEMORY + (takes_huge_pages(spec) ? HUGE_PAGE : 0);
    uint64_t others = gathering + each * spec->workers;
    uint64_t blocks = spec->memory > others ? (spec->memory - others) / BLOCK_COST : 0;
    size_t needed = (size_t)2 * KEYSET_PARTITIONS * spec->workers;
    blocks = least(blocks, SIZE_MAX / 4 / BLOCK_BYTES / spec->workers);
    return blocks > needed ? (size_t)blocks : needed;
}

/* Each worker can have a block open in every partition without asking the pool; so n hashes never
 * need more of the pool than n / BLOCK. */
static size_t own_blocks_of(const struct keyset_spec *spec)
{
    size_t quarter = blocks_of(spec) / 4 / spec->workers;
    return quarter > KEYSET_PARTITIONS ? quarter : KEYSET_PARTITIONS;
}

static size_t pool_blocks_of(const struct keyset_spec *spec)
{
    return blocks_of(spec) - own_blocks_of(spec) * spec->workers;
}

/* Addresses for whole huge pages: those the kernel puts where a huge page begins. */
static size_t arena_blocks_of(const struct keyset_spec *spec)
{
    size_t blocks = own_blocks_of(spec) + pool_blocks_of(spec), unit = HUGE_PAGE / BLOCK_BYTES;
    return takes_huge_pages(spec) ? (blocks + unit - 1) / unit * unit : blocks;
}

uint64_t keyset_min_memory(unsigned workers)
{
    return (uint64_t)3 * KEYSET_PARTITIONS * BLOCK_BYTES * workers;
}

uint64_t keyset_fits(const struct keyset_spec *spec)
{
    return (uint64_t)pool_blocks_of(spec) * BLOCK;
}

struct keyset *keyset_new(const struct keyset_spec *spec, struct err *err)
{
    struct keyset *ks = calloc(1, sizeof *ks);
    if (ks != NULL)
        ks->workers = aligned_alloc(64, spec->workers * sizeof *ks->workers);
    if (ks == NULL || ks->workers == NULL) {
        free(ks);
        fail(err, "out of memory");
        return NULL;
    }
    memset(ks->workers, 0, spec->workers * sizeof *ks->workers);
    ks->spec = *spec;
    ks->capacity = capacity_of(spec);
    ks->own_blocks = own_blocks_of(spec);
    ks->pool_left = pool_blocks_of(spec);
    for (unsigned w = 0; w < spec->workers; w++)
        ks->workers[w].scratch = -1;
    for (unsigned w = 0; w < spec->workers; w++) {
        struct worker *worker = &ks->workers[w];
        worker->arena_blocks = arena_blocks_of(spec);
        worker->arena = map_memory(worker->arena_blocks * BLOCK_BYTES, takes_huge_pages(spec));
        worker->piece = malloc((RANGE_BLOCKS + spec->workers) * sizeof *worker->piece);
        if (worker->arena == NULL || worker->piece == NULL) {
            fail_errno(err, "cannot get memory for keys");
            keyset_free(ks);
            return NULL;
        }
    }
    return ks;
}

void keyset_free(struct keyset *ks)
{
    if (ks == NULL)
        return;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        struct worker *worker = &ks->workers[w];
        for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
            free(worker->share[p].full);
        free(worker->spills);
        unmap_memory(worker->arena, worker->arena_blocks * BLOCK_BYTES);
        unmap_memory(worker->gathered, ks->capacity * sizeof(uint64_t));
        unmap_memory(worker->sorted, ks->capacity * sizeof(uint64_t));
        free(worker->in_order);
        free(worker->piece);
        if (worker->scratch >= 0)
            close(worker->scratch);
    }
    free(ks->workers);
    free(ks);
}

static bool grow(void **array, size_t *room, size_t n, size_t size, struct err *err)
{
    if (n < *room)
        return true;
    size_t larger = *room ? *room * 2 : 16;
    void *p = realloc(*array, larger * size);
    if (p == NULL)
        return fail(err, "out of memory");
    *array = p;
    *room = larger;
    return true;
}

static size_t in_open_block(const uint64_t *next)
{
    return (uintptr_t)next % BLOCK_BYTES / sizeof *next;
}

/* The partition's block that is not full, and how many hashes it holds. */
static uint64_t *open_block(const struct worker *worker, unsigned partition, size_t *n)
{
    uint64_t *next = worker->next[partition];
    *n = next != NULL ? in_open_block(next) : 0;
    return next != NULL ? next - *n : NULL;
}

/* A block that is full counts as open until the next one is begun. */
static bool close_block(struct worker *worker, unsigned partition, struct err *err)
{
    struct share *s = &worker->share[partition];
    if (worker->next[partition] == NULL || in_open_block(worker->next[partition]) != 0)
        return true;
    if (!grow((void **)&s->full, &s->room_full, s->n_full, sizeof *s->full, err))
        return false;
    s->full[s->n_full++] = worker->next[partition] - BLOCK;
    worker->next[partition] = NULL;
    return true;
}

static unsigned subrange_of(uint64_t hash)
{
    return hash >> SUB_WIDTH & (SUBRANGES - 1);
}

/* Sorts the hashes in those pieces into worker->in_order by subrange. */
static void put_in_order(struct worker *worker, const struct iovec *piece, size_t n,
                         uint32_t begin[SUBRANGES + 1])
{
    uint32_t at[SUBRANGES];
    memset(begin, 0, (SUBRANGES + 1) * sizeof *begin);
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < piece[p].iov_len / sizeof(uint64_t); i++)
            begin[subrange_of(((const uint64_t *)piece[p].iov_base)[i]) + 1]++;
    for (unsigned r = 0; r < SUBRANGES; r++) {
        at[r] = begin[r];
        begin[r + 1] += begin[r];
    }
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < piece[p].iov_len / sizeof(uint64_t); i++) {
            uint64_t h = ((const uint64_t *)piece[p].iov_base)[i];
            worker->in_order[at[subrange_of(h)]++] = h;
        }
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

enum { EXTENT_BYTES = (EXTENT_BLOCKS + 1) * BLOCK_BYTES }; /* in the file, if it is not the last */

/* Appends the hashes of some blocks of a share, EXTENT_BLOCKS at most, to the scratch file. */
static bool spill_blocks(struct worker *worker, struct iovec *piece, size_t n, bool ordered,
                         struct err *err)
{
    uint32_t begin[SUBRANGES + 1];
    uint64_t off = worker->scratch_len;
    size_t len = 0;
    for (size_t p = 0; p < n; p++)
        len += piece[p].iov_len;
    if (ordered) {
        put_in_order(worker, piece, n, begin);
        piece[0] = (struct iovec){worker->in_order, len};
        piece[1] = (struct iovec){begin, sizeof begin};
        n = 2;
        len += sizeof begin;
    }
    worker->scratch_len += whole_pages(len);
    return disk_write_pieces(worker->scratch, piece, n, off, "scratch file", err);
}

/* While partitions are small they are read as a whole, so order would be wasted. */
static bool order_pays(const struct keyset *ks, const struct worker *worker)
{
    uint64_t in_each = worker->scratch_len / sizeof(uint64_t) / KEYSET_PARTITIONS;
    return in_each * ks->spec.workers > ks->capacity / 4;
}

static bool spill_share(struct worker *worker, unsigned partition, bool ordered, struct run *run,
                        struct err *err)
{
    struct share *s = &worker->share[partition];
    struct iovec piece[EXTENT_BLOCKS];
    size_t n_open, n = 0;
    uint64_t *open = open_block(worker, partition, &n_open);
    *run = (struct run){worker->scratch_len, s->n_full * BLOCK + n_open};
    s->n_spilled += run->n;
    for (size_t i = 0; i < s->n_full; i++) {
        piece[n++] = (struct iovec){s->full[i], BLOCK_BYTES};
        if (n == EXTENT_BLOCKS) {
            if (!spill_blocks(worker, piece, n, ordered, err))
                return false;
            n = 0;
        }
    }
    if (n_open > 0)
        piece[n++] = (struct iovec){open, n_open * sizeof *open};
    return n == 0 || spill_blocks(worker, piece, n, ordered, err);
}

static bool spill_arena(const struct keyset *ks, struct worker *worker, struct err *err)
{
    struct run runs[KEYSET_PARTITIONS];
    bool ordered = order_pays(ks, worker);
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        if (!spill_share(worker, p, ordered, &runs[p], err))
            return false;
    if (!grow((void **)&worker->spills, &worker->room_spills, worker->n_spills,
              sizeof *worker->spills, err) ||
        !disk_write(worker->scratch, runs, sizeof runs, worker->scratch_len, "scratch file", err))
        return false;
    worker->spills[worker->n_spills++] = (struct spill){worker->scratch_len, ordered};
    worker->scratch_len += whole_pages(sizeof runs);
    return true;
}

static void drain_arena(const struct keyset *ks, const struct worker *worker)
{
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++) {
        const struct share *s = &worker->share[p];
        size_t n_open;
        const uint64_t *open = open_block(worker, p, &n_open);
        for (size_t i = 0; i < s->n_full; i++)
            ks->spec.drain(ks->spec.ctx, p, s->full[i], BLOCK);
        if (n_open > 0)
            ks->spec.drain(ks->spec.ctx, p, open, n_open);
    }
}

/* Makes a worker's arena empty again. */
static bool empty_arena(struct keyset *ks, struct worker *worker, struct err *err)
{
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        if (!close_block(worker, p, err))
            return false;
    if (ks->spec.drain != NULL)
        drain_arena(ks, worker);
    else if (!spill_arena(ks, worker, err))
        return false;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++) {
        worker->share[p].n_full = 0;
        worker->next[p] = NULL;
    }
    worker->used_blocks = 0;
    return true;
}

static bool open_scratch(const struct keyset *ks, struct worker *worker, struct err *err)
{
    if (worker->in_order == NULL &&
        (worker->in_order = malloc(EXTENT * sizeof *worker->in_order)) == NULL)
        return fail(err, "out of memory");
    if (worker->scratch < 0)
        worker->scratch = disk_scratch(ks->spec.scratch_dir, err);
    return worker->scratch >= 0;
}

/* Asked first, so that the disk is not filled only to find that it is full. */
static bool scratch_has_room(const struct keyset *ks, const struct worker *worker, struct err *err)
{
    size_t blocks = worker->used_blocks;
    uint64_t need = (uint64_t)(blocks + blocks / EXTENT_BLOCKS) * BLOCK_BYTES, left;
    struct err ignored;
    if (!disk_space(ks->spec.scratch_dir, &left, &ignored) || left >= need)
        return true;
    return fail(err, "cannot write scratch in '%s': %llu bytes are needed, %llu are free",
                ks->spec.scratch_dir, (unsigned long long)need, (unsigned long long)left);
}

static bool make_room(struct keyset *ks, struct worker *worker, struct err *err)
{
    return (ks->spec.drain != NULL ||
            (open_scratch(ks, worker, err) && scratch_has_room(ks, worker, err))) &&
           empty_arena(ks, worker, err);
}

static bool take_from_pool(struct keyset *ks, struct worker *worker)
{
    size_t left = ks->pool_left;
    while (left > 0)
        if (atomic_compare_exchange_weak(&ks->pool_left, &left, left - 1)) {
            worker->pool_blocks++;
            return true;
        }
    return false;
}

/* Gives a partition an empty block. */
static bool next_block(struct keyset *ks, struct worker *worker, unsigned partition,
                       struct err *err)
{
    if (!close_block(worker, partition, err))
        return false;
    if (worker->used_blocks >= ks->own_blocks + worker->pool_blocks &&
        !take_from_pool(ks, worker) && !make_room(ks, worker, err))
        return false;
    worker->next[partition] = worker->arena + worker->used_blocks++ * BLOCK;
    return true;
}

bool keyset_put(struct keyset *ks, unsigned w, const uint64_t *hash, size_t n, struct err *err)
{
    struct worker *worker = &ks->workers[w];
    for (size_t i = 0; i < n; i++) {
        unsigned partition = (unsigned)(hash[i] >> (64 - KEYSET_BITS));
        uint64_t *next = worker->next[partition];
        if (in_open_block(next) == 0) {
            if (!next_block(ks, worker, partition, err))
                return false;
            next = worker->next[partition];
        }
        *next = hash[i];
        __builtin_prefetch(next + 8, 1); /* the next cache line of the block */
        worker->next[partition] = next + 1;
    }
    return true;
}

bool keyset_drain_all(struct keyset *ks, struct err *err)
{
    for (unsigned w = 0; w < ks->spec.workers; w++)
        if (!empty_arena(ks, &ks->workers[w], err))
            return false;
    return true;
}

uint64_t keyset_scratch(const struct keyset *ks)
{
    uint64_t len = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        len += ks->workers[w].scratch_len;
    return len;
}

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
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(of->scratch, (char *)to + done, len - done, (off_t)(off + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? fail_errno(&reader->err, "cannot read scratch file")
                           : fail(&reader->err, "cannot read scratch file: it ends early");
        done += (size_t)got;
    }
    return true;
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
        worker->gathered = map_memory(bytes, true);
    if (worker->sorted == NULL)
        worker->sorted = map_memory(bytes, true);
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

/* Ends putting: no block is full but open. */
static bool close_blocks(struct keyset *ks, struct err *err)
{
    for (unsigned w = 0; w < ks->spec.workers; w++)
        for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
            if (!close_block(&ks->workers[w], p, err))
                return false;
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
    if (!close_blocks(ks, err))
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
    if (!close_blocks(ks, err))
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
    if (!close_blocks(ks, err))
        return false;
    ks->visit = visit;
    ks->gave_up = gave_up;
    ks->visit_ctx = ctx;
    ks->bits = bits;
    begin_pass(ks);
    parallel_for(visitors_of(&ks->spec), (uint64_t)1 << bits, pass_prefix, ks);
    return pass_result(ks, err);
}
