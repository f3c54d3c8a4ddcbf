#include "keys/keyset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/disk.h"
#include "keys/keyset_parts.h"
#include "keys/lanes.h"
#include "keys/sort.h"

enum { HUGE_PAGE = 2 << 20, GUARD = 64 << 10 /* whole pages on every machine */ };

/* Each mapping ends with guard pages: a write past its end, which sanitizers do not detect here,
 * ends the program. */
static size_t guard_at(size_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* Huge pages, if the kernel has them, make everything a tenth faster, but memory is then taken in
 * whole huge pages. None reaches beyond the mapping. */
void *keyset_map(size_t bytes, bool huge)
{
    char *p = mmap(NULL, guard_at(bytes) + GUARD, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    mprotect(p + guard_at(bytes), GUARD, PROT_NONE);
    size_t before = -(uintptr_t)p % HUGE_PAGE;
    if (huge && bytes >= before + HUGE_PAGE)
        madvise(p + before, (bytes - before) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return p;
}

static void unmap(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, guard_at(bytes) + GUARD);
}

/* The room, in hashes, for a part of `part` hashes. A part does not fit if its distinct hashes are
 * more than three quarters of this. */
static size_t room_for(size_t part)
{
    return part / 3 * 4 + 4;
}

unsigned keyset_lanes(unsigned lanes)
{
    unsigned all = 1;
    while (all < lanes)
        all *= 2;
    return all;
}

uint64_t keyset_part_memory(size_t part, unsigned lanes)
{
    return (uint64_t)2 * room_for(part) * keyset_lanes(lanes) * sizeof(uint64_t);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How the memory is divided:
 * - A quarter, or more if parts need it, for visiting partitions: each visitor gathers one in one
 *   buffer and sorts it into another. An eighth if memory is drained, since partitions are then
 *   small.
 * - What each worker needs for itself (blocks_of).
 * - Of the rest, a quarter for the workers' own blocks, and three quarters for the pool, whose
 *   blocks go to the first worker that asks. */
static size_t capacity_of(const struct keyset_spec *spec)
{
    uint64_t memory = least(spec->memory, SIZE_MAX / 2) / (spec->drain != NULL ? 8 : 4);
    uint64_t capacity = memory / visitors_of(spec) / (2 * sizeof(uint64_t));
    size_t lanes = lanes_of(spec), room = spec->part != 0 ? room_for(spec->part) * lanes : 0;
    return room > capacity ? room : (size_t)least(capacity, SORT_MOST) / lanes * lanes;
}

/* In bytes: struct worker and the stack while partitions are visited; buffer. */
enum { WORKER_MEMORY = 128 << 10, ORDER_MEMORY = 512 << 10 };

/* A block and its entry in a list, which may have twice the capacity that it needs. */
enum { BLOCK_COST = BLOCK_BYTES + 2 * sizeof(uint64_t *) };

/* True if a huge page is a small part of the memory of a worker. */
static bool takes_huge_pages(const struct keyset_spec *spec)
{
    return spec->memory / spec->workers >= 8 * HUGE_PAGE;
}

/* The number of blocks, limited by the address space. */
static size_t blocks_of(const struct keyset_spec *spec)
{
    uint64_t gathering = (uint64_t)capacity_of(spec) * visitors_of(spec) * 2 * sizeof(uint64_t);
    uint64_t each = WORKER_MEMORY + (spec->drain == NULL ? ORDER_MEMORY : ORDER_MEMORY / 2);
    uint64_t others = gathering + each * spec->workers;
    if (takes_huge_pages(spec))
        others += HUGE_PAGE; /* the last one may be used only in part */
    uint64_t blocks = spec->memory > others ? (spec->memory - others) / BLOCK_COST : 0;
    size_t needed = (size_t)2 * KEYSET_PARTITIONS * spec->workers;
    blocks = least(blocks, SIZE_MAX / 4 / BLOCK_BYTES);
    return blocks > needed ? (size_t)blocks : needed;
}

/* Each worker can have a block open in every partition without the pool, so n hashes never need
 * more than n / BLOCK blocks of the pool. */
static size_t own_blocks_of(const struct keyset_spec *spec)
{
    size_t quarter = blocks_of(spec) / 4 / spec->workers;
    return quarter > KEYSET_PARTITIONS ? quarter : KEYSET_PARTITIONS;
}

static size_t pool_blocks_of(const struct keyset_spec *spec)
{
    return blocks_of(spec) - own_blocks_of(spec) * spec->workers;
}

/* Rounded up to whole huge pages. */
static size_t arena_blocks_of(const struct keyset_spec *spec)
{
    size_t blocks = blocks_of(spec), unit = HUGE_PAGE / BLOCK_BYTES;
    return takes_huge_pages(spec) ? (blocks + unit - 1) / unit * unit : blocks;
}

uint64_t keyset_min_memory(unsigned workers)
{
    return (uint64_t)3 * KEYSET_PARTITIONS * BLOCK_BYTES * workers;
}

uint64_t keyset_fits(const struct keyset_spec *spec)
{
    return (uint64_t)pool_blocks_of(spec) * BLOCK / lanes_of(spec);
}

static bool get_blocks(struct keyset *ks)
{
    const struct keyset_spec *spec = &ks->spec;
    size_t own_blocks = own_blocks_of(spec);
    ks->blocks = blocks_of(spec);
    ks->arena_blocks = arena_blocks_of(spec);
    ks->arena = keyset_map(ks->arena_blocks * BLOCK_BYTES, takes_huge_pages(spec));
    if (ks->arena == NULL)
        return false;
    for (unsigned w = 0; w < spec->workers; w++) {
        struct worker *worker = &ks->workers[w];
        worker->own = ks->arena + w * own_blocks * BLOCK;
        worker->own_left = own_blocks;
        worker->piece = malloc((RANGE_BLOCKS + spec->workers) * sizeof *worker->piece);
        if (worker->piece == NULL)
            return false;
    }
    return true;
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
    ks->spec.lanes = lanes_of(spec);
    ks->lanes = spec->lanes > 1 ? spec->lanes - spec->counts : 1;
    ks->capacity = capacity_of(spec);
    ks->pool_left = pool_blocks_of(spec);
    for (unsigned w = 0; w < spec->workers; w++)
        ks->workers[w].scratch = -1;
    if (get_blocks(ks))
        return ks;
    fail_errno(err, "cannot get memory for keys");
    keyset_free(ks);
    return NULL;
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
        unmap(worker->gathered, ks->capacity * sizeof(uint64_t));
        unmap(worker->sorted, ks->capacity * sizeof(uint64_t));
        free(worker->buffer);
        free(worker->piece);
        if (worker->scratch >= 0)
            close(worker->scratch);
    }
    unmap(ks->arena, ks->arena_blocks * BLOCK_BYTES);
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

/* Appends the hashes of a share to the scratch file. */
static bool spill_share(const struct keyset *ks, struct worker *worker, unsigned partition,
                        struct run *run, struct err *err)
{
    struct share *s = &worker->share[partition];
    struct iovec piece[SPILL_BLOCKS];
    size_t n_open, n = 0;
    uint64_t *open = open_block(worker, partition, &n_open);
    *run = (struct run){worker->scratch_len, s->n_full * BLOCK + n_open};
    s->n_spilled += run->n;
    for (size_t i = 0; i <= s->n_full; i++) {
        if (i < s->n_full)
            piece[n++] = (struct iovec){s->full[i], BLOCK_BYTES};
        else if (n_open > 0)
            piece[n++] = (struct iovec){open, n_open * sizeof *open};
        if ((n == SPILL_BLOCKS || i == s->n_full) && n > 0) {
            if (!disk_write_pieces(worker->scratch, piece, n, worker->scratch_len, "scratch file",
                                   err))
                return false;
            worker->scratch_len += n * BLOCK_BYTES;
            n = 0;
        }
    }
    (void)ks;
    return true;
}

static bool spill_arena(const struct keyset *ks, struct worker *worker, struct err *err)
{
    struct run runs[KEYSET_PARTITIONS];
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        if (!spill_share(ks, worker, p, &runs[p], err))
            return false;
    if (!grow((void **)&worker->spills, &worker->room_spills, worker->n_spills,
              sizeof *worker->spills, err) ||
        !disk_write(worker->scratch, runs, sizeof runs, worker->scratch_len, "scratch file", err))
        return false;
    worker->spills[worker->n_spills++] = worker->scratch_len;
    worker->scratch_len += sizeof runs;
    return true;
}

/* Drains n lanes of a block. */
static void drain_block(const struct keyset *ks, unsigned partition, const uint64_t *block,
                        size_t n)
{
    const unsigned lanes = ks->spec.lanes;
    uint64_t lane[BLOCK];
    struct hashes hashes = {block, BLOCK / lanes, NULL};
    if (lanes > 1) {
        for (size_t i = 0; i < n; i++)
            lane[i % lanes * hashes.stride + i / lanes] = block[i];
        hashes.lane0 = lane;
    }
    ks->spec.drain(ks->spec.ctx, partition, hashes, n / lanes);
}

static void drain_arena(const struct keyset *ks, const struct worker *worker)
{
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++) {
        const struct share *s = &worker->share[p];
        size_t n_open;
        const uint64_t *open = open_block(worker, p, &n_open);
        for (size_t i = 0; i < s->n_full; i++)
            drain_block(ks, p, s->full[i], BLOCK);
        if (n_open > 0)
            drain_block(ks, p, open, n_open);
    }
}

static void spare_block(struct worker *worker, uint64_t *block)
{
    *(uint64_t **)(void *)block = worker->spare;
    worker->spare = block;
}

/* Drains or spills all blocks that a worker has taken, and empties them. */
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
        struct share *s = &worker->share[p];
        size_t n_open;
        uint64_t *open = open_block(worker, p, &n_open);
        if (open != NULL)
            spare_block(worker, open);
        while (s->n_full > 0)
            spare_block(worker, s->full[--s->n_full]);
        worker->next[p] = NULL;
    }
    worker->used_blocks = 0;
    return true;
}

bool keyset_open_scratch(const struct keyset *ks, struct worker *worker, uint64_t need,
                         struct err *err)
{
    struct err ignored;
    uint64_t left;
    if (worker->buffer == NULL &&
        (worker->buffer = malloc(BUFFER * sizeof *worker->buffer)) == NULL)
        return fail(err, "out of memory");
    if (worker->scratch < 0)
        worker->scratch = disk_scratch(ks->spec.scratch_dir, err);
    return worker->scratch >= 0 &&
           (!disk_space(ks->spec.scratch_dir, &left, &ignored) || left >= need ||
            fail(err, "cannot write scratch in '%s': %llu bytes are needed, %llu are free",
                 ks->spec.scratch_dir, (unsigned long long)need, (unsigned long long)left));
}

static bool make_room(struct keyset *ks, struct worker *worker, struct err *err)
{
    return (ks->spec.drain != NULL ||
            keyset_open_scratch(ks, worker, (uint64_t)worker->used_blocks * BLOCK_BYTES, err)) &&
           empty_arena(ks, worker, err);
}

static uint64_t *take_from_pool(struct keyset *ks)
{
    size_t left = ks->pool_left;
    while (left > 0)
        if (atomic_compare_exchange_weak(&ks->pool_left, &left, left - 1))
            return ks->arena + (ks->blocks - left) * BLOCK;
    return NULL;
}

/* An empty block, or NULL. */
static uint64_t *take_block(struct keyset *ks, struct worker *worker)
{
    uint64_t *block = worker->spare;
    if (block != NULL) {
        worker->spare = *(uint64_t **)(void *)block;
    } else if (worker->own_left > 0) {
        block = worker->own;
        worker->own += BLOCK;
        worker->own_left--;
    } else {
        block = take_from_pool(ks);
    }
    worker->used_blocks += block != NULL;
    return block;
}

/* Gives a partition an empty block. */
static bool next_block(struct keyset *ks, struct worker *worker, unsigned partition,
                       struct err *err)
{
    if (!close_block(worker, partition, err))
        return false;
    uint64_t *block = take_block(ks, worker);
    if (block == NULL) {
        if (!make_room(ks, worker, err))
            return false;
        block = take_block(ks, worker);
    }
    worker->next[partition] = block;
    return true;
}

LANES_INLINE bool put_body(struct keyset *ks, struct worker *worker, struct hashes hashes, size_t n,
                           struct err *err, unsigned lanes)
{
    const uint64_t *first = hashes.lane0;
    for (size_t i = 0; i < n; i++) {
        unsigned partition = (unsigned)(first[i] >> (64 - KEYSET_BITS));
        uint64_t *next = worker->next[partition];
        if (in_open_block(next) == 0) {
            if (!next_block(ks, worker, partition, err))
                return false;
            next = worker->next[partition];
        }
        next[0] = first[i];
        for (unsigned l = 1; l < lanes; l++)
            next[l] = l < ks->lanes ? hashes_lane(hashes, l)[i] : 0;
        __builtin_prefetch(next + 8, 1); /* the next cache line of the block */
        worker->next[partition] = next + lanes;
    }
    return true;
}

bool keyset_put(struct keyset *ks, unsigned w, struct hashes hashes, size_t n, struct err *err)
{
    struct worker *worker = &ks->workers[w];
    unsigned lanes = ks->spec.lanes;
    return lanes == 1   ? put_body(ks, worker, hashes, n, err, 1)
           : lanes == 2 ? put_body(ks, worker, hashes, n, err, 2)
                        : put_body(ks, worker, hashes, n, err, lanes);
}

bool keyset_read(const struct worker *of, void *to, size_t len, uint64_t off, struct err *err)
{
    size_t got;
    if (!disk_read(of->scratch, to, len, off, &got))
        return fail_errno(err, "cannot read scratch file");
    return got == len || fail(err, "cannot read scratch file: it ends early");
}

bool keyset_close_blocks(struct keyset *ks, struct err *err)
{
    for (unsigned w = 0; w < ks->spec.workers; w++)
        for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
            if (!close_block(&ks->workers[w], p, err))
                return false;
    return true;
}

bool keyset_drain_all(struct keyset *ks, struct err *err)
{
    for (unsigned w = 0; w < ks->spec.workers; w++)
        if (!empty_arena(ks, &ks->workers[w], err))
            return false;
    return true;
}

bool keyset_counts(const struct keyset *ks)
{
    return ks->spec.counts;
}

const char *keyset_scratch_dir(const struct keyset *ks)
{
    return ks->spec.scratch_dir;
}

uint64_t keyset_scratch(const struct keyset *ks)
{
    uint64_t len = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        len += ks->workers[w].scratch_len;
    return len;
}
