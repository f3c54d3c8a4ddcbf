/* SPDX-License-Identifier: MIT
 * The parts of a keyset. keyset.c collects hashes in memory, spills them to scratch files when
 * memory is full, and gives back those of a partition. keyset_visit.c sorts them. Private to these
 * files.
 */
#ifndef KEYS_KEYSET_PARTS_H
#define KEYS_KEYSET_PARTS_H

#include <stdatomic.h>

#include "keys/keyset.h"

/* One worker's hashes. */
struct worker {
    /* Where the next hash of a partition goes, in its open block; NULL: it has no block. Blocks are
     * aligned to their size, so an address that is a multiple of it is the end of a full one. */
    uint64_t *next[KEYSET_PARTITIONS];
    uint64_t closed[KEYSET_PARTITIONS]; /* hashes in its other blocks and in scratch */
    uint64_t *own;                      /* blocks of the last slab that the worker has taken ... */
    size_t own_left;                    /* ... and how many of them are unused */
    uint64_t *spare;                    /* the last of the emptied blocks */
    size_t used_blocks;
    int scratch; /* one file per worker: writers to the same file wait for each other */
    uint64_t scratch_len;
    uint64_t last_spill; /* offset of the table of its last spill; 0: none */
} __attribute__((aligned(64)));

struct keyset {
    struct keyset_spec spec;
    struct worker *workers;
    uint64_t *arena;           /* all slabs; NULL: all is in scratch, for good */
    uint64_t **earlier;        /* for each block, the one before it in its list; NULL: none */
    size_t slabs;              /* their number */
    _Atomic size_t slabs_left; /* the last slabs_left are free for any worker */
};

/* Maps zeroed memory, in huge pages if the kernel has them and `huge`. NULL: out of memory. */
void *keyset_map(size_t bytes, bool huge);
void keyset_unmap(void *p, size_t bytes);

/* The bytes that visitors of sorted hashes may use. When all is spilled, these include the blocks'.
 */
uint64_t keyset_free_memory(const struct keyset *ks);

/* The --memory with which that is at least so much. */
uint64_t keyset_memory_to_sort(const struct keyset *ks, uint64_t bytes);

/* Spills all hashes and gives their memory back. */
bool keyset_spill_all(struct keyset *ks, struct err *err);

/* The number of hashes of a partition. */
uint64_t keyset_partition_size(const struct keyset *ks, unsigned partition);

/* Passes them on, but does not tell the end. */
bool keyset_pass_partition(const struct keyset *ks, unsigned worker, unsigned partition,
                           keyset_visitor *visit, void *ctx, struct err *err);

static inline unsigned visitors_of(const struct keyset_spec *spec)
{
    return spec->visitors != 0 && spec->visitors < spec->workers ? spec->visitors : spec->workers;
}

#endif
