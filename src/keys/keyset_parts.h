/* SPDX-License-Identifier: MIT
 * The parts of a keyset. keyset.c collects hashes in memory and spills them to scratch files when
 * memory is full. keyset_visit.c visits them. Private to these files.
 */
#ifndef KEYS_KEYSET_PARTS_H
#define KEYS_KEYSET_PARTS_H

#include <stdatomic.h>

#include "keys/keyset.h"

/* Hashes are collected in blocks: small enough that a worker can have one open for each partition
 * (1 MiB in all), large enough that closing one costs nothing. */
enum { BLOCK = 512, BLOCK_BYTES = BLOCK * sizeof(uint64_t) };

/* Blocks that a worker takes at a time. Its first slab has one for each partition. */
enum { SLAB = KEYSET_PARTITIONS, SLAB_BYTES = SLAB * BLOCK_BYTES };

/* A spill appends all hashes of a worker to its scratch file: a run for each partition, then a
 * table of the runs. Memory holds next to nothing about spilled hashes. */
enum { SPILL_BLOCKS = 64, BUFFER = 8 * BLOCK };

struct run {
    uint64_t off, n;
};

/* One worker's share of one partition, apart from the block being filled. */
struct share {
    uint64_t **full; /* full blocks */
    size_t n_full, room_full;
    uint64_t n_spilled; /* hashes in scratch */
};

struct worker {
    /* Where the next hash of a partition goes. Blocks are aligned to their size, so an address that
     * is a multiple of BLOCK_BYTES means that no block has room: it is the end of one, or NULL. */
    uint64_t *next[KEYSET_PARTITIONS];
    struct share share[KEYSET_PARTITIONS];
    uint64_t *own;   /* blocks of the last slab that the worker has taken ... */
    size_t own_left; /* ... and how many of them are unused */
    uint64_t *spare; /* list of emptied blocks: each begins with the address of the next */
    size_t used_blocks;
    int scratch; /* one file per worker: writers to the same file wait for each other */
    uint64_t scratch_len;
    uint64_t *spills; /* for each spill, the offset of its struct run[KEYSET_PARTITIONS] */
    size_t n_spills, room_spills;
    uint64_t *buffer;            /* to read scratch: BUFFER hashes */
    uint64_t *gathered, *sorted; /* keyset.room numbers each */
    uint64_t n_distinct;
} __attribute__((aligned(64)));

struct keyset {
    struct keyset_spec spec;
    struct worker *workers;
    uint64_t *arena;           /* all slabs */
    size_t slabs;              /* their number */
    _Atomic size_t slabs_left; /* the last slabs_left are free for any worker */
    unsigned bits;             /* the length of the visited prefixes */
    unsigned visitors;         /* workers that visit at once, and ... */
    size_t room;               /* ... the numbers that each has room for */
    keyset_visitor *visit;
    keyset_range_visitor *visit_range;
    void *visit_ctx;
    void (*gave_up)(void *ctx);
    atomic_bool stop;
    _Atomic uint64_t parts_done; /* in the current pass, for progress */
};

/* Maps zeroed memory; NULL: out of memory. `huge`: in huge pages, if the kernel has them. */
void *keyset_map(size_t bytes, bool huge);
void keyset_unmap(void *p, size_t bytes);

/* Ends putting: full blocks no longer count as open. */
bool keyset_close_blocks(struct keyset *ks, struct err *err);

/* The bytes that visitors of sorted hashes may use. When all is spilled, these include the blocks'.
 */
uint64_t keyset_free_memory(const struct keyset *ks);

/* The --memory with which that is at least so much. */
uint64_t keyset_memory_to_sort(const struct keyset *ks, uint64_t bytes);

/* Spills all hashes and gives their memory back. */
bool keyset_spill_all(struct keyset *ks, struct err *err);

/* Reads from the scratch file of a worker. */
bool keyset_read(const struct worker *of, void *to, size_t len, uint64_t off, struct err *err);

static inline unsigned visitors_of(const struct keyset_spec *spec)
{
    return spec->visitors != 0 && spec->visitors < spec->workers ? spec->visitors : spec->workers;
}

static inline size_t in_open_block(const uint64_t *next)
{
    return (uintptr_t)next % BLOCK_BYTES / sizeof *next;
}

/* The partition's block that is not full, and how many hashes it holds. */
static inline uint64_t *open_block(const struct worker *worker, unsigned partition, size_t *n)
{
    uint64_t *next = worker->next[partition];
    *n = next != NULL ? in_open_block(next) : 0;
    return next != NULL ? next - *n : NULL;
}

#endif
