/* SPDX-License-Identifier: MIT */
/* Queries of counted sets. */
#include "base/ahead.h"
#include "base/bits.h"
#include "kind/counted/parts.h"

/* The number of ones in each byte of x, as bytes. */
static uint64_t ones_of_bytes(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
}

static unsigned count_ones(uint64_t x)
{
    return (unsigned)(ones_of_bytes(x) * 0x0101010101010101 >> 56);
}

/* The position of the one with index i, from 0, in x. x has more than i ones. */
static unsigned select_one(uint64_t x, unsigned i)
{
    /* Byte b of `sums` is the number of ones in bytes 0 to b of x, at most 64. The wanted one
     * comes after all bytes whose sum is at most i. */
    uint64_t sums = ones_of_bytes(x) * 0x0101010101010101;
    uint64_t few = ((i * 0x0101010101010101) | 0x8080808080808080) - sums;
    unsigned at = count_ones(few & 0x8080808080808080) * 8;
    i -= (unsigned)(sums << 8 >> at & 0xff);
    for (x >>= at; i > 0; i--)
        x &= x - 1;
    return at + (unsigned)__builtin_ctzll(x);
}

#define QUERY query_plain
#define TARGET
#define COUNT_ONES count_ones
#define SELECT     select_one
#include "kind/counted/query_body.h"

static const struct counted_variant plain_query = {{"plain", NULL}, query_plain};

struct variants counted_variants = {{
#ifdef CPU_X86
                                        &counted_bmi2.variant,
#endif
                                        &plain_query.variant,
                                    },
                                    NULL};

void counted_query(const struct counted_set *set, const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct counted_variant *v = (const void *)variant_in_use(&counted_variants);
    for (size_t i = 0; i < n; i += COUNTED_BATCH)
        v->query(set, hash + i, n - i < COUNTED_BATCH ? n - i : COUNTED_BATCH, present + i / 64);
}

/* Announces pages before a lookup reads them. */
struct needs {
    bool (*page)(void *ctx, uint64_t page); /* NULL: all pages are available */
    void *ctx;
    uint64_t last; /* the last announced page */
    bool refused;
};

static bool need(struct needs *needs, const struct counted_set *set, uint64_t at, uint64_t len)
{
    if (needs->page == NULL || len == 0)
        return true;
    uint64_t end = at < set->len && len < set->len - at ? at + len : set->len;
    for (uint64_t page = at / 4096; page * 4096 < end && !needs->refused; page++) {
        if (page != needs->last)
            needs->refused = !needs->page(needs->ctx, page);
        needs->last = page;
    }
    return !needs->refused;
}

/* The number of entries in buckets 0 to `bucket` of a block. More than COUNTED_ENTRIES: the block
 * is not valid. */
static unsigned entries_before(const struct counted_set *set, uint64_t begin, unsigned bucket)
{
    unsigned before = 0;
    for (unsigned w = 0; w < (COUNTED_BUCKETS + COUNTED_ENTRIES) / 64; w++) {
        uint64_t word = counted_load(set, begin + 8 * w);
        unsigned ones = count_ones(word);
        if (before + ones > bucket)
            return 64 * w + select_one(word, bucket - before) - bucket;
        before += ones;
    }
    return COUNTED_ENTRIES + 1;
}

/* The count of entry i of a block that is not large. */
static uint64_t count_of(const struct counted_set *set, const struct counted_block *where,
                         unsigned buckets, unsigned i)
{
    unsigned low = set->counted.low, n = entries_before(set, where->begin, buckets - 1);
    uint64_t bit = 8 * where->begin + buckets + n, end = 8 * where->end - (uint64_t)n * low;
    if (i >= n || n > COUNTED_ENTRIES || bit > end)
        return 0;
    if (where->end - where->begin <= counted_block_len(&set->counted, buckets, n))
        return 1;
    return counted_get_count(set, bit, end, n, i);
}

/* The count of v, which is in a block that is not large. 0: it is not in the set, the block is not
 * valid, or a page was refused. */
static uint64_t look_up_small(const struct counted_set *set, const struct counted_block *where,
                              uint64_t v, bool counts, struct needs *needs)
{
    const struct counted *c = &set->counted;
    if (where->begin >= where->end || where->end > set->len ||
        where->end - where->begin > COUNTED_LONGEST ||
        !need(needs, set, where->begin, where->end - where->begin))
        return 0;
    unsigned buckets = counted_block_buckets(c, v >> c->low >> COUNTED_BUCKET_BITS);
    unsigned bucket = v >> c->low & (COUNTED_BUCKETS - 1);
    unsigned first = bucket > 0 ? entries_before(set, where->begin, bucket - 1) : 0;
    unsigned last = entries_before(set, where->begin, bucket);
    if (first >= last || last > COUNTED_ENTRIES)
        return 0;
    uint64_t wanted = v & counted_mask(c->low), bit = 8 * where->end - (uint64_t)last * c->low;
    unsigned at = counted_find(set, bit, last - first, c->low, wanted);
    if (counted_bits(set, bit + (uint64_t)at * c->low, c->low) != wanted)
        return 0;
    return counts ? count_of(set, where, buckets, last - 1 - at) : 1;
}

/* The same for a large block. A binary search for the last entry that is not above v. */
static uint64_t look_up_large(const struct counted_set *set, const struct counted_block *where,
                              uint64_t v, struct needs *needs)
{
    const struct counted *c = &set->counted;
    if (where->begin >= where->end || where->end > set->len || !need(needs, set, where->begin, 1))
        return 0;
    unsigned wide = counted_wide(c), bytes = set->data[where->begin], size = wide + bytes;
    uint64_t at = where->begin + 1, n = (where->end - at) / size, mask = counted_mask(8 * wide);
    uint64_t wanted = v - counted_block_first(c, v >> c->low >> COUNTED_BUCKET_BITS);
    for (; n > 1; n -= n / 2) {
        uint64_t next = at + n / 2 * size;
        if (!need(needs, set, next, wide))
            return 0;
        at = (counted_load(set, next) & mask) <= wanted ? next : at;
    }
    if (bytes > 8 || n == 0 || !need(needs, set, at, size) ||
        (counted_load(set, at) & mask) != wanted)
        return 0;
    uint64_t less = counted_bits(set, 8 * (at + wide), 8 * bytes);
    return less < UINT64_MAX ? less + 1 : 0;
}

/* The count of v, 0 if it is not in the set. Without `counts`, 1 may stand for any count, and the
 * same pages are announced: those of the whole block if it is not large. */
static uint64_t find_count(const struct counted_set *set, uint64_t v, bool counts,
                           struct needs *needs)
{
    const struct counted *c = &set->counted;
    uint64_t block = v >> c->low >> COUNTED_BUCKET_BITS, group = block / COUNTED_BLOCKS;
    if (!need(needs, set, group * COUNTED_LINE, COUNTED_LINE))
        return 0;
    uint64_t base = counted_load(set, group * COUNTED_LINE);
    if (base & COUNTED_LARGE && !need(needs, set, (base & ~COUNTED_LARGE) + set->directory_len,
                                      8 * counted_group_blocks(c, group)))
        return 0;
    struct counted_block where = counted_find_block(set, block);
    return where.large ? look_up_large(set, &where, v, needs)
                       : look_up_small(set, &where, v, counts, needs);
}

bool counted_has(const struct counted_set *set, uint64_t v)
{
    struct needs needs = {.page = NULL};
    return find_count(set, v, false, &needs) > 0;
}

void counted_query_counts(const struct counted_set *set, const uint64_t *hash, size_t n,
                          uint64_t *count)
{
    const struct counted *c = &set->counted;
    bool all_one = c->total == c->entries;
    struct needs needs = {.page = NULL};
    for (size_t i = 0; i < n; i += COUNTED_BATCH) {
        size_t batch = n - i < COUNTED_BATCH ? n - i : COUNTED_BATCH;
        uint64_t present[COUNTED_BATCH / 64] = {0};
        counted_query(set, hash + i, batch, present);
        for (size_t k = 0; k < batch; k++) {
            count[i + k] = bit_of(present, k);
            if (count[i + k] > 0 && !all_one)
                count[i + k] = find_count(set, counted_fingerprint(c, hash[i + k]), true, &needs);
        }
    }
}

bool counted_pages(const struct counted_set *set, const uint64_t *hash, size_t n,
                   bool (*page)(void *ctx, uint64_t page), void *ctx)
{
    struct needs needs = {.page = page, .ctx = ctx, .last = UINT64_MAX};
    for (size_t i = 0; i < n && !needs.refused; i++)
        find_count(set, counted_fingerprint(&set->counted, hash[i]), false, &needs);
    return !needs.refused;
}
