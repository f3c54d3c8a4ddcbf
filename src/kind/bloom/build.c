/* Builds Bloom layers from keysets. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "kind/bloom/bloom.h"
#include "kind/bloom/probe.h"
#include "kind/target.h"

/* Pages written at a time: 4 MiB. */
enum { REGION = 1024, REGION_BYTES = REGION * BLOOM_PAGE };

/* Pages made at a time. A keyset's range usually needs fewer. It needs more if the filter has room
 * for many more keys than there are; then each worker builds 1 MiB at a time, which fits the cache.
 */
uint64_t bloom_build_region = REGION / 4;

/* Suspects are keys of a range whose bits were all set already: by a repeat, or by chance. */
enum { SUSPECTS = 64 };

struct region {
    uint8_t *buf;   /* REGION pages; zero until something is inserted */
    uint64_t first; /* the page at buf[0] */
    uint64_t suspect[SUSPECTS];
    unsigned n_suspects;
    bool open;            /* buf[0] holds bits of an earlier range */
    uint64_t seen, scans; /* in the current range: hashes inserted, scans made */
    struct bloom_census census;
} __attribute__((aligned(64)));

/* A page in which one partition ends and another begins: both insert there. */
struct shared_page {
    uint64_t page;
    unsigned users; /* partitions that have not yet released it */
    uint8_t *bits;  /* bits of partitions that have released it; NULL: none */
};

struct bits {
    struct bloom bloom;
    uint8_t *data;
    pthread_mutex_t lock[KEYSET_PARTITIONS + 1];
};

struct build {
    const struct target *target;
    struct bloom bloom;
    uint64_t region_pages;
    struct region *regions; /* one for each worker */
    struct shared_page shared[KEYSET_PARTITIONS + 1];
    unsigned n_shared;
    pthread_mutex_t shared_lock;
};

/* Zeroed memory, allocated only where touched. */
static uint8_t *map_zeroes(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Counts, checksums and writes finished pages. */
static bool finish_pages(struct build *b, const uint8_t *pages, uint64_t first, uint64_t n,
                         struct bloom_census *census, struct err *err)
{
    bloom_table.tally(target_layer(b->target), pages, 0, n * BLOOM_PAGE, census);
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

/* Releases the first n pages of a region: finishes them, except shared pages still in use by other
 * partitions. */
static bool release_pages(struct build *b, struct region *region, uint64_t n, struct err *err)
{
    uint64_t from = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct shared_page *shared = shared_page(b, region->first + i);
        if (shared == NULL)
            continue;
        if (i > from && !finish_pages(b, region->buf + from * BLOOM_PAGE, region->first + from,
                                      i - from, &region->census, err))
            return false;
        from = i + 1;
        if (!release_shared_page(b, region, shared, region->buf + i * BLOOM_PAGE, err))
            return false;
    }
    if (n > from && !finish_pages(b, region->buf + from * BLOOM_PAGE, region->first + from,
                                  n - from, &region->census, err))
        return false;
    if (n > 0)
        target_write_back(b->target, n * BLOOM_PAGE, region->first * BLOOM_PAGE);
    return true;
}

static uint64_t count_hashes(const struct keyset_range *range)
{
    uint64_t n = 0;
    for (size_t p = 0; p < range->n_pieces; p++)
        n += range->piece[p].n;
    return n;
}

/* Does a suspect occur twice in its range of n hashes? A comparison of low bits rules out all but
 * one in 256 of the other hashes. Chosen hashes can defeat this; so after a limited number of full
 * comparisons, the answer is yes. */
enum { MARK_BITS = 14 };

static bool may_be_repeated(const struct region *region, const struct keyset_range *range,
                            uint64_t n)
{
    uint64_t marks[(1 << MARK_BITS) / 64] = {0};
    unsigned times[SUSPECTS] = {0};
    uint64_t looks = SUSPECTS + n / 32;
    for (unsigned s = 0; s < region->n_suspects; s++)
        bit_set(marks, region->suspect[s] % (1 << MARK_BITS));
    for (const struct keyset_piece *p = range->piece; p < range->piece + range->n_pieces; p++)
        for (size_t i = 0; i < p->n; i++) {
            if (!bit_of(marks, p->hash[i] % (1 << MARK_BITS)))
                continue;
            if (looks-- == 0)
                return true;
            for (unsigned s = 0; s < region->n_suspects; s++)
                if (region->suspect[s] == p->hash[i] && ++times[s] == 2)
                    return true;
        }
    return false;
}

/* One scan of the range settles SUSPECTS suspects. By chance, at most one hash in 50 is a suspect,
 * since a filter whose keys are presumed distinct has an FPR of at most 1/50. With twice as many
 * suspects, hashes are repeated or were chosen to crowd a few lines; then it is cheaper to count
 * keys. The first hashes vary widely by chance, so four scans of a usual range, of at most 2^16
 * hashes, are free. */
enum { SEEN_PER_SUSPECT = 25, FREE_SCANS = 4, FREE_WORK = FREE_SCANS << 16 };

/* Were the bits of all suspects, if any, set by chance? */
static bool settle_suspects(struct region *region, const struct keyset_range *range)
{
    if (region->n_suspects == 0)
        return true;
    region->scans++;
    uint64_t n = count_hashes(range), by_chance = region->seen / (SEEN_PER_SUSPECT * SUSPECTS);
    uint64_t more = region->scans > by_chance ? region->scans - by_chance : 0;
    bool ok = more <= FREE_SCANS && more * n <= FREE_WORK && !may_be_repeated(region, range, n);
    region->n_suspects = 0;
    return ok;
}

/* Inserts some of a range's hashes, at most LAYER_BATCH. False if they are presumed distinct but
 * seem to be repeated. */
static bool insert_batch(struct build *b, struct region *region, const uint64_t *hash, size_t n,
                         const struct keyset_range *range)
{
    uint64_t present[LAYER_BATCH / 64] = {0};
    region->seen += n;
    bloom_insert_cached(&b->bloom, region->buf, region->first, hash, n, present);
    for (size_t w = 0; b->target->presumed && w < LAYER_BATCH / 64; w++)
        for (uint64_t bits = present[w]; bits != 0; bits &= bits - 1) {
            region->suspect[region->n_suspects++] = hash[w * 64 + (unsigned)__builtin_ctzll(bits)];
            if (region->n_suspects == SUSPECTS && !settle_suspects(region, range))
                return false;
        }
    return true;
}

/* Selects the hashes that fall into the first `pages` pages of the region. */
static size_t choose(const struct build *b, const struct region *region, uint64_t pages,
                     const uint64_t *hash, size_t n, uint64_t *chosen)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        chosen[count] = hash[i];
        count += bloom_page(&b->bloom, hash[i]) - region->first < pages;
    }
    return count;
}

/* Inserts all hashes of a range, or only those that fall into the first `pages` pages of the
 * region. */
static bool insert(struct build *b, struct region *region, uint64_t pages, bool all,
                   const struct keyset_range *range, struct err *err)
{
    uint64_t chosen[LAYER_BATCH];
    bool distinct = !b->target->presumed || !range->had_repeats;
    region->seen = region->scans = 0;
    for (size_t p = 0; p < range->n_pieces; p++) {
        const struct keyset_piece *piece = &range->piece[p];
        for (size_t i = 0; i < piece->n && distinct; i += LAYER_BATCH) {
            const uint64_t *hash = piece->hash + i;
            size_t n = piece->n - i < LAYER_BATCH ? piece->n - i : LAYER_BATCH;
            if (!all) {
                n = choose(b, region, pages, hash, n, chosen);
                hash = chosen;
            }
            distinct = insert_batch(b, region, hash, n, range);
        }
    }
    return (distinct && settle_suspects(region, range)) || fail(err, "some keys are repeated");
}

/* Releases n pages and moves the region past them. With `keep`, the last page is not released and
 * takes more keys. */
static bool advance(struct build *b, struct region *region, uint64_t n, bool keep, struct err *err)
{
    if (!release_pages(b, region, n - keep, err))
        return false;
    if (keep && n > 1)
        memcpy(region->buf, region->buf + (n - 1) * BLOOM_PAGE, BLOOM_PAGE);
    memset(region->buf + keep * BLOOM_PAGE, 0, (n - keep) * BLOOM_PAGE);
    region->first += n - keep;
    region->open = keep;
    return true;
}

static bool visit_range(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct build *b = ctx;
    struct region *region = &b->regions[range->worker];
    if (!region->open)
        region->first = bloom_page(&b->bloom, range->first);
    uint64_t end = bloom_page(&b->bloom, range->last) + 1;
    if (end - region->first <= b->region_pages)
        return insert(b, region, b->region_pages, true, range, err) &&
               advance(b, region, end - region->first, !range->ends_partition, err);
    while (region->first < end) {
        uint64_t left = end - region->first, n = left < b->region_pages ? left : b->region_pages;
        bool keep = n == left && !range->ends_partition;
        if (!insert(b, region, n, false, range, err) || !advance(b, region, n, keep, err))
            return false;
        if (keep)
            break;
    }
    return true;
}

static bool build_ranges(struct build *b, struct keyset *keys, struct err *err)
{
    for (unsigned w = 0; w < b->target->threads; w++)
        if ((b->regions[w].buf = map_zeroes(REGION_BYTES)) == NULL)
            return fail_errno(err, "cannot get memory for the filter");
    find_shared_pages(b);
    return keyset_visit(keys, visit_range, b, err);
}

/* Sums the workers' censuses and frees memory. */
static void end(struct build *b, struct bloom_census *census)
{
    for (unsigned w = 0; w < b->target->threads; w++) {
        bloom_table.add(census, &b->regions[w].census);
        if (b->regions[w].buf != NULL)
            munmap(b->regions[w].buf, REGION_BYTES);
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
                      .region_pages = bloom_build_region,
                      .shared_lock = PTHREAD_MUTEX_INITIALIZER};
    struct bloom_census sum = {0};
    b.regions = aligned_alloc(64, target->threads * sizeof *b.regions);
    if (b.regions == NULL)
        return fail(err, "out of memory");
    memset(b.regions, 0, target->threads * sizeof *b.regions);
    bool ok = build_ranges(&b, keys, err);
    end(&b, &sum);
    if (ok)
        bloom_table.result(target_layer(target), &sum, census);
    return ok;
}

static void *begin_bits(const struct layer *layer)
{
    struct bits *bits = layer->data_len <= SIZE_MAX ? calloc(1, sizeof *bits) : NULL;
    if (bits == NULL)
        return NULL;
    bits->bloom = bloom_of(layer);
    bits->data = map_zeroes((size_t)layer->data_len);
    if (bits->data == NULL) {
        free(bits);
        return NULL;
    }
    madvise(bits->data, (size_t)layer->data_len, MADV_HUGEPAGE);
    for (unsigned p = 0; p <= KEYSET_PARTITIONS; p++)
        pthread_mutex_init(&bits->lock[p], NULL);
    return bits;
}

static bool write_bits(const struct target *target, const void *bits, struct census *census,
                       struct err *err)
{
    return table_write(target, ((const struct bits *)bits)->data, census, err);
}

static void end_bits(void *p)
{
    struct bits *bits = p;
    if (bits == NULL)
        return;
    munmap(bits->data, (size_t)bits->bloom.pages * BLOOM_PAGE);
    free(bits);
}

/* A partition may share its last page with the next one, so this takes the next one's lock too.
 * With few pages, all partitions share one lock. */
static void put_bits(void *ctx, unsigned partition, struct hashes hashes, size_t n)
{
    struct bits *bits = ctx;
    if (bits->bloom.pages < 2 * KEYSET_PARTITIONS)
        partition = 0;
    pthread_mutex_lock(&bits->lock[partition]);
    pthread_mutex_lock(&bits->lock[partition + 1]);
    bloom_insert(&bits->bloom, bits->data, 0, hashes.lane0, n);
    pthread_mutex_unlock(&bits->lock[partition + 1]);
    pthread_mutex_unlock(&bits->lock[partition]);
}

const struct kind_bits bloom_bits = {
    .begin = begin_bits,
    .put = put_bits,
    .write = write_bits,
    .end = end_bits,
};
