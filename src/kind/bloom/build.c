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

/* A page in which one partition ends and another begins: both insert there. */
struct shared_page {
    uint64_t page;
    unsigned users; /* partitions that have not yet released it */
    uint8_t *bits;  /* bits of partitions that have released it; NULL: none */
};

struct build {
    const struct target *target;
    struct bloom bloom;
    uint64_t region_len;    /* in bytes */
    struct region *regions; /* one for each worker */
    struct shared_page shared[KEYSET_PARTITIONS + 1];
    unsigned n_shared;
    pthread_mutex_t shared_lock;
};

/* Zeroed memory, allocated only where touched. */
static uint8_t *map_zeroes(uint64_t bytes)
{
    errno = ENOMEM;
    return bytes > SIZE_MAX ? NULL : port_zeroes((size_t)bytes, PROT_READ | PROT_WRITE, true);
}

/* Counts, checksums and writes finished pages. */
static bool finish_pages(struct build *b, const uint8_t *pages, uint64_t first, uint64_t n,
                         struct bloom_census *census, struct err *err)
{
    bloom_table.tally(target_layer(b->target), pages, 0, (size_t)(n * BLOOM_PAGE), census);
    return target_write_pages(b->target, pages, n * BLOOM_PAGE, first * BLOOM_PAGE, err);
}

static struct shared_page *shared_page(struct build *b, uint64_t page)
{
    unsigned low = 0, high = b->n_shared;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (b->shared[mid].page < page)
            low = mid + 1;
        else
            high = mid;
    }
    return low < b->n_shared && b->shared[low].page == page ? &b->shared[low] : NULL;
}

/* Finds every page in which a partition's range of hashes begins; the previous one may end there.
 */
static void find_shared_pages(struct build *b)
{
    for (uint64_t p = 0; p < KEYSET_PARTITIONS; p++) {
        uint64_t first = p << (64 - KEYSET_BITS), page = bloom_page(&b->bloom, first);
        if (b->n_shared == 0 || b->shared[b->n_shared - 1].page != page)
            b->shared[b->n_shared++] = (struct shared_page){
                .page = page, .users = p > 0 && bloom_page(&b->bloom, first - 1) == page};
        b->shared[b->n_shared - 1].users++;
    }
}

static bool put_aside(struct shared_page *shared, const uint8_t *bits)
{
    if (shared->bits == NULL) {
        shared->bits = aligned_alloc(64, BLOOM_PAGE);
        if (shared->bits == NULL)
            return false;
        memset(shared->bits, 0, BLOOM_PAGE);
    }
    for (size_t byte = 0; byte < BLOOM_PAGE; byte++)
        shared->bits[byte] |= bits[byte];
    return true;
}

/* Releases a shared page; the last partition to do so finishes it. */
static bool release_shared_page(struct build *b, struct region *region, struct shared_page *shared,
                                const uint8_t *bits, struct err *err)
{
    pthread_mutex_lock(&b->shared_lock);
    bool ok = put_aside(shared, bits), complete = --shared->users == 0;
    pthread_mutex_unlock(&b->shared_lock);
    if (!ok)
        return fail(err, "out of memory");
    if (!complete)
        return true;
    ok = finish_pages(b, shared->bits, shared->page, 1, &region->census, err);
    free(shared->bits);
    shared->bits = NULL;
    return ok;
}

/* Releases n pages, from page `first` on: finishes them, except shared pages still in use by other
 * partitions. */
static bool release_pages(struct build *b, struct region *region, uint64_t first, uint64_t n,
                          struct err *err)
{
    uint64_t from = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct shared_page *shared = shared_page(b, first + i);
        if (shared == NULL)
            continue;
        if (i > from && !finish_pages(b, region->buf + from * BLOOM_PAGE, first + from, i - from,
                                      &region->census, err))
            return false;
        from = i + 1;
        if (!release_shared_page(b, region, shared, region->buf + i * BLOOM_PAGE, err))
            return false;
    }
    if (n > from && !finish_pages(b, region->buf + from * BLOOM_PAGE, first + from, n - from,
                                  &region->census, err))
        return false;
    target_write_back(b->target, n * BLOOM_PAGE, first * BLOOM_PAGE);
    memset(region->buf, 0, (size_t)(n * BLOOM_PAGE));
    return true;
}

static bool visit(void *ctx, unsigned worker, unsigned partition, const uint64_t *hash, size_t n,
                  struct err *err)
{
    struct build *b = ctx;
    struct region *region = &b->regions[worker];
    uint64_t least = (uint64_t)partition << (64 - KEYSET_BITS);
    uint64_t first = bloom_page(&b->bloom, least);
    if (n == 0)
        return release_pages(b, region, first,
                             bloom_page(&b->bloom, least | UINT64_MAX >> KEYSET_BITS) + 1 - first,
                             err);
    for (size_t at = 0; at < n; at += LAYER_BATCH)
        bloom_insert(&b->bloom, region->buf, first, hash + at,
                     n - at < LAYER_BATCH ? n - at : LAYER_BATCH);
    return true;
}

static bool build_regions(struct build *b, struct keyset *keys, struct err *err)
{
    for (unsigned w = 0; w < b->target->threads; w++)
        if ((b->regions[w].buf = map_zeroes(b->region_len)) == NULL)
            return fail_errno(err, "cannot get memory for the filter");
    find_shared_pages(b);
    return keyset_visit(keys, visit, b, err);
}

/* Sums the workers' censuses and frees memory. */
static void end(struct build *b, struct bloom_census *census)
{
    for (unsigned w = 0; w < b->target->threads; w++) {
        bloom_table.add(census, &b->regions[w].census);
        if (b->regions[w].buf != NULL)
            munmap(b->regions[w].buf, (size_t)b->region_len);
    }
    for (unsigned i = 0; i < b->n_shared; i++)
        free(b->shared[i].bits);
    free(b->regions);
}

bool bloom_build(const struct target *target, struct keyset *keys, struct census *census,
                 struct err *err)
{
    struct build b = {.target = target,
                      .bloom = bloom_of(target_layer(target)),
                      .shared_lock = PTHREAD_MUTEX_INITIALIZER};
    struct bloom_census sum = {0};
    /* A partition may begin and end within a page. */
    b.region_len = (b.bloom.pages / KEYSET_PARTITIONS + 2) * BLOOM_PAGE;
    b.regions = aligned_alloc(64, target->threads * sizeof *b.regions);
    if (b.regions == NULL)
        return fail(err, "out of memory");
    memset(b.regions, 0, target->threads * sizeof *b.regions);
    bool ok = build_regions(&b, keys, err);
    end(&b, &sum);
    if (!ok)
        return false;
    bloom_table.result(target_layer(target), &sum, census);
    return !target->presumed || census->n >= DISTINCT * (double)target->n ||
           fail(err, "some keys are repeated");
}
