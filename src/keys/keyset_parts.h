/*
 * What a keyset is made of. keyset.c collects hashes in memory and puts what there is no room for
 * into scratch files, keyset_visit.c reads them back, range by range, keyset_each.c in no order.
 * For these only.
 *
 * All hashes are in arrays as lanes.h has them, in memory and in scratch. Numbers of hashes, and
 * places in these arrays, are counted in lanes: all are multiples of the number of lanes, which is
 * a power of two, so that no hash is in two blocks.
 */
#ifndef KEYS_KEYSET_PARTS_H
#define KEYS_KEYSET_PARTS_H

#include <stdatomic.h>

#include "keys/keyset.h"
#include "keys/lanes.h"

/* Hashes are collected in blocks: small enough that a worker can have one open for each partition
 * (1 MiB in all), large enough that closing one costs nothing. */
enum { BLOCK = 512, BLOCK_BYTES = BLOCK * sizeof(uint64_t) };

/* Lanes in one visited range, about: their part of a filter stays in the second-level cache. */
enum { RANGE = 1 << 16, RANGE_BLOCKS = RANGE / BLOCK };

/* A spill puts all hashes of a worker into its scratch file, partition by partition: those of each
 * in a run, and a table of the runs behind them. While partitions are small, a run is just hashes.
 * Of large ones it is in extents that are in order of the partition's SUBRANGES, so that one of
 * them can be read without the others: EXTENT hashes, fewer only in the last, and an index behind
 * them. An extent whose hashes crowd in one subrange is sorted. Runs and extents begin on whole
 * pages of the file: the kernel would have to fill in the rest of others. So memory holds next to
 * nothing of what was spilled.
 *
 * Chosen hashes may all be in one partition, and in a small part of it. A partition that does not
 * fit the buffers is looked through range by range, and would be read as a whole for each of them.
 * So its hashes in memory are sorted first, in groups that fit the buffers; then no more is read
 * than a range has. */
enum {
    PARTITION_WIDTH = 64 - KEYSET_BITS,
    SUB_BITS = 4,
    SUBRANGES = 1 << SUB_BITS,
    SUB_WIDTH = PARTITION_WIDTH - SUB_BITS,
    EXTENT_BLOCKS = 63, /* with the index mostly 64 pages: what is put in order at once */
    EXTENT = EXTENT_BLOCKS * BLOCK,
};

struct run {
    uint64_t off, n;
    uint64_t in_extents; /* 1: it is */
};

/* Behind the hashes of an extent. */
struct extent_index {
    uint32_t begin[SUBRANGES + 1]; /* of each subrange */
    uint32_t is_sorted;
    uint64_t first[EXTENT_BLOCKS * LANES_MOST]; /* if sorted: hash of each BLOCK */
};

/* In the file it ends with the hash of the last block. */
static inline size_t index_bytes(unsigned lanes)
{
    return offsetof(struct extent_index, first) + EXTENT_BLOCKS * lanes * sizeof(uint64_t);
}

static inline uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* Of an extent in the file, if it is not the last. */
static inline uint64_t extent_bytes(unsigned lanes)
{
    return EXTENT_BLOCKS * BLOCK_BYTES + whole_pages(index_bytes(lanes));
}

/* One worker's share of one partition, apart from the block being filled. */
struct share {
    uint64_t **full; /* full blocks */
    size_t n_full, room_full;
    uint64_t n_spilled, n_sorted; /* hashes, and those of them in sorted extents */
    bool in_sorted_groups;        /* those in memory: keyset_visit.c */
};

struct worker {
    /* Where the next hash of a partition goes. Blocks are aligned to their size, so this is at the
     * beginning of one exactly when there is no block with room: at its end, or NULL. */
    uint64_t *next[KEYSET_PARTITIONS];
    struct share share[KEYSET_PARTITIONS];
    uint64_t *own;   /* blocks that only this worker may take, one after another */
    size_t own_left; /* how many of them it has not taken yet */
    uint64_t *spare; /* blocks that were emptied: each begins with the address of the next */
    size_t used_blocks;
    int scratch; /* a file of its own: two that write to one wait for each other */
    uint64_t scratch_len;
    uint64_t *spills; /* of each the offset of its struct run[KEYSET_PARTITIONS] */
    size_t n_spills, room_spills;
    uint64_t *in_order;          /* EXTENT hashes, and as many for sorting */
    uint64_t *gathered, *sorted; /* `capacity` hashes each */
    struct keyset_piece *piece;  /* RANGE_BLOCKS, and one a worker */
    struct err err;
    bool failed;
    uint64_t n_distinct;
} __attribute__((aligned(64)));

struct keyset {
    struct keyset_spec spec; /* with the lanes that a hash takes */
    unsigned lanes;          /* that a hash has */
    struct worker *workers;
    size_t capacity; /* of gathered and sorted */
    uint64_t *arena; /* all blocks: own ones of each worker, then those of the pool */
    size_t arena_blocks, blocks; /* whole huge pages of them; those that are used */
    _Atomic size_t pool_left; /* the last so many blocks; each belongs to whoever takes it first */
    atomic_bool stop;
    _Atomic uint64_t parts_done; /* of the present pass, for progress */
    keyset_visitor *visit;
    void (*gave_up)(void *ctx);
    void *visit_ctx;
    unsigned bits; /* of the prefixes that are visited */
};

static inline unsigned lanes_of(const struct keyset_spec *spec)
{
    return keyset_lanes(spec->lanes);
}

/* Zero memory, NULL if there is none; `huge`: in huge pages, where the kernel gives them. */
void *keyset_map(size_t bytes, bool huge);

/* Ends putting: no block is full but open. */
bool keyset_close_blocks(struct keyset *ks, struct err *err);

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

/* The lanes from number i on that lie behind one another, `end` at most. */
static inline uint64_t *some_of(const struct blocks *b, size_t i, size_t end, size_t *n)
{
    size_t block = i / BLOCK, left = BLOCK - i % BLOCK;
    *n = end - i < left ? end - i : left;
    return (block < b->n / BLOCK ? b->full[block] : b->open) + i % BLOCK;
}

static inline unsigned subrange_of(uint64_t hash)
{
    return hash >> SUB_WIDTH & (SUBRANGES - 1);
}

#endif
