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

/* In bytes: struct worker, its buffer, and its stack while partitions are visited. */
enum { WORKER_MEMORY = 640 << 10 };

/* A block and its entry in a list, which may have twice the capacity that it needs. */
enum { BLOCK_COST = BLOCK_BYTES + 2 * sizeof(uint64_t *) };

/* True if a huge page is a small part of the memory of a worker. */
static bool takes_huge_pages(const struct keyset_spec *spec)
{
    return spec->memory >= (uint64_t)8 * HUGE_PAGE * spec->workers;
}

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
    ks->arena = keyset_map(ks->slabs * SLAB_BYTES, takes_huge_pages(spec));
    for (unsigned w = 0; w < spec->workers; w++) {
        ks->workers[w].scratch = -1;
        take_slab(ks, &ks->workers[w]);
    }
    if (ks->arena != NULL)
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
    for (unsigned w = 0; w < ks->spec.workers; w++) {
        struct worker *worker = &ks->workers[w];
        for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
            free(worker->share[p].full);
        free(worker->spills);
        free(worker->buffer);
        spilled |= worker->scratch >= 0;
    }
    /* The kernel frees their pages: 100 ms a GB. */
    parallel_for(spilled ? ks->spec.workers : 1, ks->spec.workers, close_scratch, ks);
    keyset_unmap(ks->arena, ks->slabs * SLAB_BYTES);
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
static bool spill_share(struct worker *worker, unsigned partition, struct run *run, struct err *err)
{
    const struct share *s = &worker->share[partition];
    struct iovec piece[SPILL_BLOCKS];
    size_t n_open, n = 0;
    uint64_t *open = open_block(worker, partition, &n_open);
    *run = (struct run){worker->scratch_len, s->n_full * BLOCK + n_open};
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
    return true;
}

static bool spill_blocks(struct worker *worker, struct err *err)
{
    struct run runs[KEYSET_PARTITIONS];
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        if (!spill_share(worker, p, &runs[p], err))
            return false;
    if (!grow((void **)&worker->spills, &worker->room_spills, worker->n_spills,
              sizeof *worker->spills, err) ||
        !disk_write(worker->scratch, runs, sizeof runs, worker->scratch_len, "scratch file", err))
        return false;
    worker->spills[worker->n_spills++] = worker->scratch_len;
    worker->scratch_len += sizeof runs;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        worker->share[p].n_spilled += runs[p].n;
    return true;
}

static void spare_block(struct worker *worker, uint64_t *block)
{
    *(uint64_t **)(void *)block = worker->spare;
    worker->spare = block;
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
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++)
        if (!close_block(worker, p, err))
            return false;
    if (!open_scratch(ks, worker, (uint64_t)worker->used_blocks * BLOCK_BYTES, err) ||
        !spill_blocks(worker, err))
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
        worker->spare = *(uint64_t **)(void *)block;
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

/* Gives a partition an empty block. */
static bool next_block(struct keyset *ks, struct worker *worker, unsigned partition,
                       struct err *err)
{
    if (!close_block(worker, partition, err))
        return false;
    uint64_t *block = take_block(ks, worker);
    if (block == NULL) {
        if (!spill(ks, worker, err))
            return false;
        block = take_block(ks, worker);
    }
    worker->next[partition] = block;
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

bool keyset_counts(const struct keyset *ks)
{
    return ks->spec.counts;
}

const char *keyset_scratch_dir(const struct keyset *ks)
{
    return ks->spec.scratch_dir;
}
