/*
 * The parts of a keyset. keyset.c collects hashes in memory and spills them to scratch files when
 * memory is full. keyset_visit.c reads them back.
 * Private to these files.
 *
 * In memory and in scratch, hashes are stored in arrays as in lanes.h. Numbers of hashes and
 * offsets in these arrays are counted in lanes. They are multiples of the number of lanes of a
 * hash, which is a power of two, so no hash straddles two blocks.
 */
#ifndef KEYS_KEYSET_PARTS_H
#define KEYS_KEYSET_PARTS_H

#include <stdatomic.h>

#include "keys/keyset.h"
#include "keys/lanes.h"

/* Hashes are collected in blocks: small enough that a worker can have one open for each partition
 * (1 MiB in all), large enough that closing one costs nothing. */
enum { BLOCK = 512, BLOCK_BYTES = BLOCK * sizeof(uint64_t) };

/* About the lanes in one visited range: its part of a filter stays in the second-level cache. */
enum { RANGE = 1 << 16, RANGE_BLOCKS = RANGE / BLOCK };

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
    uint64_t *own;   /* blocks that only this worker may take, one after another */
    size_t own_left; /* number of own blocks not taken yet */
    uint64_t *spare; /* list of emptied blocks: each begins with the address of the next */
    size_t used_blocks;
    int scratch; /* one file per worker: writers to the same file wait for each other */
    uint64_t scratch_len;
    uint64_t *spills; /* for each spill, the offset of its struct run[KEYSET_PARTITIONS] */
    size_t n_spills, room_spills;
    uint64_t *buffer;            /* to read scratch: BUFFER lanes */
    uint64_t *gathered, *sorted; /* `capacity` hashes each */
    struct keyset_piece *piece;  /* RANGE_BLOCKS, and one per worker */
    struct err err;
    bool failed;
    uint64_t n_distinct;
} __attribute__((aligned(64)));

struct keyset {
    struct keyset_spec spec; /* spec.lanes: lanes that a stored hash takes (keyset_lanes) */
    unsigned lanes;          /* lanes that are put */
    struct worker *workers;
    size_t capacity;             /* of gathered and sorted */
    uint64_t *arena;             /* all blocks: the own blocks of each worker, then the pool */
    size_t arena_blocks, blocks; /* mapped, in whole huge pages; used */
    _Atomic size_t pool_left;    /* the last pool_left blocks are free for any worker */
    atomic_bool stop;
    _Atomic uint64_t parts_done; /* in the current pass, for progress */
    keyset_visitor *visit;
    void (*gave_up)(void *ctx);
    void *visit_ctx;
    unsigned bits; /* length of the visited prefixes */
};

static inline unsigned lanes_of(const struct keyset_spec *spec)
{
    return keyset_lanes(spec->lanes);
}

/* Maps zeroed memory; NULL: out of memory. `huge`: in huge pages, if the kernel has them. */
void *keyset_map(size_t bytes, bool huge);

/* Ends putting: full blocks no longer count as open. */
bool keyset_close_blocks(struct keyset *ks, struct err *err);

/* Makes sure that a worker has a scratch file with room for `need` bytes more. */
bool keyset_open_scratch(const struct keyset *ks, struct worker *worker, uint64_t need,
                         struct err *err);

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

/* Hashes of a share in memory, block by block. */
struct blocks {
    uint64_t *const *full;
    uint64_t *open;
    size_t n; /* lanes */
};

static inline struct blocks blocks_in(const struct worker *of, unsigned partition)
{
    const struct share *s = &of->share[partition];
    struct blocks b = {.full = s->full};
    size_t n_open;
    b.open = open_block(of, partition, &n_open);
    b.n = s->n_full * BLOCK + n_open;
    return b;
}

/* The lanes in [i, end) that are contiguous in memory from lane i on. */
static inline uint64_t *some_of(const struct blocks *b, size_t i, size_t end, size_t *n)
{
    size_t block = i / BLOCK, left = BLOCK - i % BLOCK;
    *n = end - i < left ? end - i : left;
    return (block < b->n / BLOCK ? b->full[block] : b->open) + i % BLOCK;
}

#endif
