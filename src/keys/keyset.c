/* SPDX-License-Identifier: MIT */
#include "keys/keyset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"
#include "base/parallel.h"
#include "keys/keyset_parts.h"

/* Hashes are collected in blocks: small enough that a worker can have one open for each partition
 * (1 MiB in all), large enough that beginning one costs nothing. */
enum { BLOCK = 512, BLOCK_BYTES = BLOCK * sizeof(uint64_t) };

/* Blocks that a worker takes at a time. Its first slab has one for each partition. */
enum { SLAB = KEYSET_PARTITIONS, SLAB_BYTES = SLAB * BLOCK_BYTES };

/* A spill appends all hashes of a worker to its scratch file: a run for each partition, then a
 * table of the runs. Memory holds next to nothing about spilled hashes. */
enum { SPILL_BLOCKS = 64, BUFFER = 8 * BLOCK };

struct spill_run {
    uint64_t off, n;
    uint64_t earlier; /* offset of the table of the spill before; 0: none */
};

enum { HUGE_PAGE = 2 << 20, GUARD = 64 << 10 /* whole pages on every machine */ };

/* Each mapping ends with guard pages: a write past its end, which sanitizers do not detect here,
 * ends the program. */
static size_t guard_at(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Huge pages, if the kernel has them, make everything a tenth faster, but memory is then taken in
 * whole huge pages. None reaches beyond the mapping. */
void *keyset_map(size_t bytes, bool huge)
{
    char *p = port_zeroes(guard_at(bytes) + GUARD, PROT_READ | PROT_WRITE, false);
    if (p == NULL)
        return NULL;
    mprotect(p + guard_at(bytes), GUARD, PROT_NONE);
    size_t before = -(uintptr_t)p % HUGE_PAGE;
    if (huge && bytes >= before + HUGE_PAGE)
        port_huge(p + before, (bytes - before) / HUGE_PAGE * HUGE_PAGE);
    return p;
}

void keyset_unmap(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, guard_at(bytes) + GUARD);
}

uint64_t keyset_part_memory(size_t part, bool counts)
{
    /* Distinct hashes fill at most three quarters of this room. */
    uint64_t room = part / 3 * 4 + 4;
    return 2 * room * (counts ? 2 : 1) * sizeof(uint64_t);
}

/* How the memory is divided:
 * - What each worker needs for itself (WORKER_MEMORY).
 * - A quarter, or more if parts need it, for visiting sorted partitions: each visitor gathers one
 *   in one buffer and sorts it into another. If this is not enough, the blocks are given back
 *   first.
 * - The rest is for blocks. They are taken a slab at a time; each worker has one from the start. */
static uint64_t sorting_memory(const struct keyset_spec *spec)
{
    uint64_t parts =
        spec->part > 0 ? visitors_of(spec) * keyset_part_memory(spec->part, spec->counts) : 0;
    return parts > spec->memory / 4 ? parts : spec->memory / 4;
}

/* In bytes: struct worker, and its stack while partitions are visited. */
enum { WORKER_MEMORY = 640 << 10 };

/* A block and its entry in `earlier`. */
enum { BLOCK_COST = BLOCK_BYTES + sizeof(uint64_t *) };

/* The number of slabs, limited by the address space. */
static size_t slabs_of(const struct keyset_spec *spec)
{
    uint64_t others = sorting_memory(spec) + (uint64_t)WORKER_MEMORY * spec->workers;
    size_t least = (size_t)2 * spec->workers;
    uint64_t slabs = spec->memory > others ? (spec->memory - others) / BLOCK_COST / SLAB : 0;
    if (slabs > SIZE_MAX / 4 / SLAB_BYTES)
        slabs = SIZE_MAX / 4 / SLAB_BYTES;
    return slabs > least ? (size_t)slabs : least;
}

uint64_t keyset_min_memory(unsigned workers)
{
    return (uint64_t)3 * KEYSET_PARTITIONS * BLOCK_BYTES * workers;
}

static bool take_slab(struct keyset *ks, struct worker *worker)
{
    size_t left = ks->slabs_left;
    while (left > 0 && !atomic_compare_exchange_weak(&ks->slabs_left, &left, left - 1))
        ;
    if (left == 0)
        return false;
    worker->own = ks->arena + (ks->slabs - left) * SLAB * BLOCK;
    worker->own_left = SLAB;
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
    ks->slabs = slabs_of(spec);
    ks->slabs_left = ks->slabs;
    /* Huge pages if one is a small part of the memory of a worker. */
    bool huge = spec->memory >= (uint64_t)8 * HUGE_PAGE * spec->workers;
    ks->arena = keyset_map(ks->slabs * SLAB_BYTES, huge);
    ks->earlier = calloc(ks->slabs * SLAB, sizeof *ks->earlier);
    for (unsigned w = 0; w < spec->workers; w++) {
        ks->workers[w].scratch = -1;
        take_slab(ks, &ks->workers[w]);
    }
    if (ks->arena != NULL && ks->earlier != NULL)
        return ks;
    fail_errno(err, "cannot get memory for keys");
    keyset_free(ks);
    return NULL;
}

static void close_scratch(void *ctx, unsigned thread, uint64_t w)
{
    const struct keyset *ks = ctx;
    (void)thread;
    if (ks->workers[w].scratch >= 0)
        close(ks->workers[w].scratch);
}

void keyset_free(struct keyset *ks)
{
    if (ks == NULL)
        return;
    bool spilled = false;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        spilled |= ks->workers[w].scratch >= 0;
    /* The kernel frees their pages: 100 ms a GB. */
    parallel_for(spilled ? ks->spec.workers : 1, ks->spec.workers, close_scratch, ks);
    keyset_unmap(ks->arena, ks->slabs * SLAB_BYTES);
    free(ks->earlier);
    free(ks->workers);
    free(ks);
}

static size_t in_block(const uint64_t *p)
{
    return (uintptr_t)p % BLOCK_BYTES / sizeof *p;
}

/* The open block of a partition, the last of its list, and how many hashes it has; all others are
 * full. NULL: there are none. */
static uint64_t *open_block(const struct worker *worker, unsigned partition, size_t *n)
{
    uint64_t *next = worker->next[partition];
    *n = next != NULL ? in_block(next - 1) + 1 : 0;
    return next != NULL ? next - *n : NULL;
}

static uint64_t **earlier(const struct keyset *ks, const uint64_t *block)
{
    return &ks->earlier[(block - ks->arena) / BLOCK];
}

/* Appends the hashes of a partition that are in memory to the scratch file. */
static bool spill_partition(const struct keyset *ks, struct worker *worker, unsigned partition,
                            struct spill_run *run, struct err *err)
{
    struct iovec piece[SPILL_BLOCKS];
    size_t n, pieces = 0;
    uint64_t *next, *block = open_block(worker, partition, &n);
    *run = (struct spill_run){worker->scratch_len, 0, worker->last_spill};
    for (; block != NULL; block = next, n = BLOCK) {
        next = *earlier(ks, block);
        piece[pieces++] = (struct iovec){block, n * sizeof *block};
        run->n += n;
        if (pieces < SPILL_BLOCKS && next != NULL)
            continue;
        if (!disk_write_pieces(worker->scratch, piece, pieces, worker->scratch_len, "scratch file",
                               err))
            return false;
        worker->scratch_len = run->off + run->n * sizeof *block;
        pieces = 0;
    }
    return true;
}

/* Moves the blocks of a partition to the list of spare ones. */
static void empty_partition(const struct keyset *ks, struct worker *worker, unsigned partition)
{
    size_t n;
    uint64_t *next, *block = open_block(worker, partition, &n);
    worker->closed[partition] += n;
    worker->next[partition] = NULL;
    for (; block != NULL; block = next) {
        next = *earlier(ks, block);
        *earlier(ks, block) = worker->spare;
        worker->spare = block;
    }
}

/* Makes sure that a worker has a scratch file with room for `need` bytes more. */
static bool open_scratch(const struct keyset *ks, struct worker *worker, uint64_t need,
                         struct err *err)
{
    struct err ignored;
    uint64_t left;
    if (worker->scratch < 0)
        worker->scratch = disk_scratch(ks->spec.scratch_dir, err);
    return worker->scratch >= 0 &&
           (!disk_space(ks->spec.scratch_dir, &left, &ignored) || left >= need ||
            fail(err, "cannot write scratch in '%s': %llu bytes are needed, %llu are free",
                 ks->spec.scratch_dir, (unsigned long long)need, (unsigned long long)left));
}

/* Spills all blocks that a worker has taken, and empties them. */
static bool spill(const struct keyset *ks, struct worker *worker, struct err *err)
{
    struct spill_run runs[KEYSET_PARTITIONS];
    if (!open_scratch(ks, worker, (uint64_t)worker->used_blocks * BLOCK_BYTES, err))
        return false;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        if (!spill_partition(ks, worker, p, &runs[p], err))
            return false;
    if (!disk_write(worker->scratch, runs, sizeof runs, worker->scratch_len, "scratch file", err))
        return false;
    worker->last_spill = worker->scratch_len;
    worker->scratch_len += sizeof runs;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        empty_partition(ks, worker, p);
    worker->used_blocks = 0;
    return true;
}

static bool spill_worker(void *ctx, unsigned thread, uint64_t w, struct err *err)
{
    const struct keyset *ks = ctx;
    (void)thread;
    return ks->workers[w].used_blocks == 0 || spill(ks, &ks->workers[w], err);
}

bool keyset_spill_all(struct keyset *ks, struct err *err)
{
    if (!parallel_try(ks->spec.workers, ks->spec.workers, spill_worker, ks, err))
        return false;
    keyset_unmap(ks->arena, ks->slabs * SLAB_BYTES);
    ks->arena = NULL;
    return true;
}

uint64_t keyset_memory_to_sort(const struct keyset *ks, uint64_t bytes)
{
    /* The lists of blocks take less than a 128th. */
    return ks->spec.others + (uint64_t)WORKER_MEMORY * ks->spec.workers + HUGE_PAGE + bytes +
           bytes / 128;
}

uint64_t keyset_free_memory(const struct keyset *ks)
{
    return sorting_memory(&ks->spec) + (ks->arena == NULL ? (uint64_t)ks->slabs * SLAB_BYTES : 0);
}

/* An empty block, or NULL. */
static uint64_t *take_block(struct keyset *ks, struct worker *worker)
{
    uint64_t *block = worker->spare;
    if (block != NULL) {
        worker->spare = *earlier(ks, block);
    } else {
        if (worker->own_left == 0 && !take_slab(ks, worker))
            return NULL;
        block = worker->own;
        worker->own += BLOCK;
        worker->own_left--;
    }
    worker->used_blocks++;
    return block;
}

/* Gives a partition an empty block, which is its open one from now on. */
static bool next_block(struct keyset *ks, struct worker *worker, unsigned partition,
                       struct err *err)
{
    size_t n;
    uint64_t *block = take_block(ks, worker);
    if (block == NULL) {
        if (!spill(ks, worker, err))
            return false;
        block = take_block(ks, worker);
    }
    *earlier(ks, block) = open_block(worker, partition, &n);
    worker->closed[partition] += n;
    worker->next[partition] = block;
    return true;
}

bool keyset_put(struct keyset *ks, unsigned w, const uint64_t *hash, size_t n, struct err *err)
{
    struct worker *worker = &ks->workers[w];
    for (size_t i = 0; i < n; i++) {
        unsigned partition = (unsigned)(hash[i] >> (64 - KEYSET_BITS));
        uint64_t *next = worker->next[partition];
        if (in_block(next) == 0) {
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

uint64_t keyset_partition_size(const struct keyset *ks, unsigned partition)
{
    uint64_t size = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        size_t n;
        open_block(&ks->workers[w], partition, &n);
        size += ks->workers[w].closed[partition] + n;
    }
    return size;
}

/* Hashes of a partition that a worker passes on to `visit`. */
struct passing {
    unsigned worker, partition;
    keyset_visitor *visit;
    void *ctx;
};

static bool pass_on(const struct passing *p, const uint64_t *hash, size_t n, struct err *err)
{
    return p->visit(p->ctx, p->worker, p->partition, hash, n, err);
}

static bool read_scratch(const struct worker *of, void *to, size_t len, uint64_t off,
                         struct err *err)
{
    size_t got;
    if (!disk_read(of->scratch, to, len, off, &got))
        return fail_errno(err, "cannot read scratch file");
    return got == len || fail(err, "cannot read scratch file: it ends early");
}

static bool pass_run(const struct passing *p, const struct worker *of, struct spill_run run,
                     struct err *err)
{
    uint64_t buffer[BUFFER];
    for (size_t n; run.n > 0; run.n -= n, run.off += n * sizeof *buffer) {
        n = run.n < BUFFER ? (size_t)run.n : BUFFER;
        if (!read_scratch(of, buffer, n * sizeof *buffer, run.off, err) ||
            !pass_on(p, buffer, n, err))
            return false;
    }
    return true;
}

bool keyset_pass_partition(const struct keyset *ks, unsigned worker, unsigned partition,
                           keyset_visitor *visit, void *ctx, struct err *err)
{
    const struct passing p = {worker, partition, visit, ctx};
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        const struct worker *of = &ks->workers[w];
        struct spill_run run = {.earlier = of->last_spill};
        size_t n;
        const uint64_t *block = open_block(of, partition, &n);
        for (; block != NULL; block = *earlier(ks, block), n = BLOCK)
            if (!pass_on(&p, block, n, err))
                return false;
        while (run.earlier != 0)
            if (!read_scratch(of, &run, sizeof run, run.earlier + partition * sizeof run, err) ||
                !pass_run(&p, of, run, err))
                return false;
    }
    return true;
}

const struct keyset_spec *keyset_spec(const struct keyset *ks)
{
    return &ks->spec;
}
