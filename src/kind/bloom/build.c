/* SPDX-License-Identifier: MIT */
/* Builds Bloom layers from keysets. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "port/port.h"
#include "keys/keyset.h"
#include "kind/bloom/bloom.h"
#include "kind/bloom/probe.h"
#include "kind/target.h"

/* If the census finds fewer than this part of the hashes that were presumed distinct, some were
 * repeated. It errs by less: few hashes are never presumed distinct (estimated_from). */
static const double DISTINCT = 0.995;

/* The pages of the partition that a worker fills. Their hashes come in no order. */
struct region {
    uint8_t *buf; /* zero until a hash is inserted */
    struct bloom_census census;
} __attribute__((aligned(64)));

enum { EDGES = 2 * KEYSET_PARTITIONS, PAGE_WORDS = BLOOM_PAGE / sizeof(uint64_t) };

struct bloom_builder {
    const struct target *target;
    struct bloom bloom;
    uint64_t region_len;    /* in bytes */
    struct region *regions; /* one for each worker */
    /* Of each partition the first page and the last, which others may share: edge i is in page
     * shared[i] of edges. */
    uint64_t *edges;
    unsigned shared[EDGES];
    pthread_mutex_t lock; /* of edges */
};

/* Counts, checksums and writes finished pages. */
static bool finish_pages(struct bloom_builder *b, const uint8_t *pages, uint64_t first, uint64_t n,
                         struct bloom_census *census, struct err *err)
{
    bloom_table.tally(b->target->layer, pages, 0, (size_t)(n * BLOOM_PAGE), census);
    return target_write_pages(b->target, pages, n * BLOOM_PAGE, first * BLOOM_PAGE, err);
}

/* The page that is edge number i: edges ascend. */
static uint64_t edge_page(const struct bloom_builder *b, unsigned i)
{
    uint64_t least = (uint64_t)(i / 2) << (64 - KEYSET_BITS);
    return bloom_page(&b->bloom, i % 2 == 0 ? least : least | UINT64_MAX >> KEYSET_BITS);
}

static uint64_t *edge_bits(const struct bloom_builder *b, unsigned i)
{
    return b->edges + (size_t)b->shared[i] * PAGE_WORDS;
}

static void put_aside(struct bloom_builder *b, unsigned i, const uint8_t *bits)
{
    const uint64_t *from = (const void *)bits;
    uint64_t *edge = edge_bits(b, i);
    pthread_mutex_lock(&b->lock);
    for (size_t w = 0; w < PAGE_WORDS; w++)
        edge[w] |= from[w];
    pthread_mutex_unlock(&b->lock);
}

/* Finishes the pages of a partition but for its edges, which are put aside. */
static bool release_pages(struct bloom_builder *b, struct region *region, unsigned partition,
                          struct err *err)
{
    uint64_t first = edge_page(b, 2 * partition), n = edge_page(b, 2 * partition + 1) - first + 1;
    put_aside(b, 2 * partition, region->buf);
    if (n > 1)
        put_aside(b, 2 * partition + 1, region->buf + (n - 1) * BLOOM_PAGE);
    if (n > 2 && !finish_pages(b, region->buf + BLOOM_PAGE, first + 1, n - 2, &region->census, err))
        return false;
    target_write_back(b->target, n * BLOOM_PAGE, first * BLOOM_PAGE);
    memset(region->buf, 0, (size_t)(n * BLOOM_PAGE));
    return true;
}

static bool finish_edges(struct bloom_builder *b, struct bloom_census *census, struct err *err)
{
    for (unsigned i = 0; i < EDGES; i++)
        if ((i + 1 == EDGES || b->shared[i + 1] != b->shared[i]) &&
            !finish_pages(b, (const uint8_t *)edge_bits(b, i), edge_page(b, i), 1, census, err))
            return false;
    return true;
}

static bool visit_partition(void *ctx, unsigned worker, unsigned partition, const uint64_t *hash,
                            size_t n, struct err *err)
{
    struct bloom_builder *b = ctx;
    struct region *region = &b->regions[worker];
    uint64_t first = edge_page(b, 2 * partition);
    if (n == 0)
        return release_pages(b, region, partition, err);
    for (size_t at = 0; at < n; at += LAYER_BATCH)
        bloom_insert(&b->bloom, region->buf, first, hash + at,
                     n - at < LAYER_BATCH ? n - at : LAYER_BATCH);
    return true;
}

static bool build_regions(struct bloom_builder *b, struct keyset *keys, struct err *err)
{
    errno = ENOMEM;
    bool ok = (b->edges = calloc(EDGES, BLOOM_PAGE)) != NULL;
    for (unsigned i = 1; i < EDGES; i++)
        b->shared[i] = b->shared[i - 1] + (edge_page(b, i) != edge_page(b, i - 1));
    ok = ok && b->region_len <= SIZE_MAX;
    for (unsigned w = 0; ok && w < b->target->threads; w++) /* allocated only where touched */
        ok = (b->regions[w].buf =
                  port_zeroes((size_t)b->region_len, PROT_READ | PROT_WRITE, true)) != NULL;
    if (!ok)
        return fail_errno(err, "cannot get memory for the filter");
    return keyset_visit(keys, visit_partition, b, err) &&
           finish_edges(b, &b->regions[0].census, err);
}

bool bloom_build(const struct target *target, struct keyset *keys, struct census *census,
                 struct err *err)
{
    struct bloom_builder b = {
        .target = target, .bloom = bloom_of(target->layer), .lock = PTHREAD_MUTEX_INITIALIZER};
    struct bloom_census sum = {0};
    /* A partition may begin and end within a page. */
    b.region_len = (b.bloom.pages / KEYSET_PARTITIONS + 2) * BLOOM_PAGE;
    b.regions = aligned_alloc(64, target->threads * sizeof *b.regions);
    if (b.regions == NULL)
        return fail(err, "out of memory");
    memset(b.regions, 0, target->threads * sizeof *b.regions);
    bool ok = build_regions(&b, keys, err);
    for (unsigned w = 0; w < target->threads; w++) {
        bloom_table.add(&sum, &b.regions[w].census);
        if (b.regions[w].buf != NULL)
            munmap(b.regions[w].buf, (size_t)b.region_len);
    }
    free(b.edges);
    free(b.regions);
    if (!ok)
        return false;
    bloom_table.result(target->layer, &sum, census);
    return !target->presumed || census->n >= DISTINCT * (double)target->n ||
           fail(err, "some keys are repeated");
}
