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

/* A binary search for a fingerprint in a large block: for the last entry that is not above it. The
 * steps have no branches, and their number depends on the number of entries only. */
struct search {
    uint64_t at;           /* where the entries begin that are left */
    unsigned size, counts; /* bytes of an entry, of a count */
    uint64_t n;            /* entries left, at least 1 */
    uint64_t wanted, mask; /* the fingerprint; the bits that it can have */
};

COUNTED_INLINE uint64_t next_probe(const struct search *s)
{
    return s->at + s->n / 2 * s->size;
}

COUNTED_INLINE void step(const struct counted_set *set, struct search *s)
{
    uint64_t at = next_probe(s), got = counted_load(set, at) & s->mask;
    s->at += (at - s->at) & -(uint64_t)(got <= s->wanted);
    s->n -= s->n / 2;
    ahead_fetch(set->data + next_probe(s));
}

static bool is_found(const struct counted_set *set, const struct search *s)
{
    return (counted_load(set, s->at) & s->mask) == s->wanted;
}

/* Starts the search for v. False: the block is not valid, or a page was refused. */
static bool begin_search(const struct counted_set *set, const struct counted_block *where,
                         uint64_t v, struct needs *needs, struct search *s)
{
    const struct counted *c = &set->counted;
    if (where->begin >= where->end || where->end > set->len || !need(needs, set, where->begin, 1))
        return false;
    unsigned wide = counted_wide(c);
    s->counts = set->data[where->begin];
    s->size = wide + s->counts;
    s->at = where->begin + 1;
    s->n = (where->end - s->at) / s->size;
    s->wanted = v - counted_block_first(c, v >> c->low >> COUNTED_BUCKET_BITS);
    s->mask = counted_mask(8 * wide);
    return s->counts <= 8 && s->n > 0;
}

/* Ends n searches. All do one step before the next, so that their reads overlap. */
static void end_searches(const struct counted_set *set, struct search *s, size_t n)
{
    uint64_t most = 0;
    for (size_t k = 0; k < n; k++)
        most = s[k].n > most ? s[k].n : most;
    for (; most > 1; most -= most / 2)
        for (size_t k = 0; k < n; k++)
            step(set, &s[k]);
}

/* Announces the pages that n searches read: those of the first steps, then all that is left. */
static void need_all(const struct counted_set *set, struct search *s, size_t n, struct needs *needs)
{
    for (bool on = true; on && !needs->refused;) {
        on = false;
        for (size_t k = 0; k < n; k++)
            if (s[k].n * s[k].size > 4096 && need(needs, set, next_probe(&s[k]), s[k].size)) {
                step(set, &s[k]);
                on = true;
            }
    }
    for (size_t k = 0; k < n; k++)
        need(needs, set, s[k].at, s[k].n * s[k].size);
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

/* Finds the block of v. False: a page was refused. */
static bool find_block(const struct counted_set *set, uint64_t v, struct needs *needs,
                       struct counted_block *where)
{
    const struct counted *c = &set->counted;
    uint64_t block = v >> c->low >> COUNTED_BUCKET_BITS, group = block / COUNTED_BLOCKS;
    if (!need(needs, set, group * COUNTED_LINE, COUNTED_LINE))
        return false;
    uint64_t base = counted_load(set, group * COUNTED_LINE);
    if (base & COUNTED_LARGE && !need(needs, set, (base & ~COUNTED_LARGE) + set->directory_len,
                                      8 * counted_group_blocks(c, group)))
        return false;
    *where = counted_find_block(set, block);
    return true;
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

static uint64_t look_up_large(const struct counted_set *set, const struct counted_block *where,
                              uint64_t v)
{
    struct needs needs = {.page = NULL};
    struct search s;
    if (!begin_search(set, where, v, &needs, &s))
        return 0;
    end_searches(set, &s, 1);
    uint64_t count = counted_bits(set, 8 * (s.at + s.size - s.counts), 8 * s.counts);
    return is_found(set, &s) && count < UINT64_MAX ? count + 1 : 0;
}

/* The count of a fingerprint, 0 if it is not in the set. */
static uint64_t find_count(const struct counted_set *set, uint64_t v)
{
    struct needs needs = {.page = NULL};
    struct counted_block where;
    if (!find_block(set, v, &needs, &where))
        return 0;
    return where.large ? look_up_large(set, &where, v)
                       : look_up_small(set, &where, v, true, &needs);
}

void counted_query_counts(const struct counted_set *set, const uint64_t *hash, size_t n,
                          uint64_t *count)
{
    const struct counted *c = &set->counted;
    bool all_one = c->total == c->entries;
    for (size_t i = 0; i < n; i += COUNTED_BATCH) {
        size_t batch = n - i < COUNTED_BATCH ? n - i : COUNTED_BATCH;
        uint64_t present[COUNTED_BATCH / 64] = {0};
        counted_query(set, hash + i, batch, present);
        for (size_t k = 0; k < batch; k++) {
            count[i + k] = bit_of(present, k);
            if (count[i + k] > 0 && !all_one)
                count[i + k] = find_count(set, counted_fingerprint(c, hash[i + k]));
        }
    }
}

void counted_query_some(const struct counted_set *set, const uint64_t *v,
                        const struct counted_block *where, const uint16_t *key, size_t n,
                        uint64_t *present)
{
    struct needs needs = {.page = NULL};
    struct search search[COUNTED_BATCH];
    uint16_t searched[COUNTED_BATCH];
    size_t left = 0;
    for (size_t k = 0; k < n; k++) {
        size_t i = key[k];
        searched[left] = (uint16_t)i;
        if (where[k].large)
            left += begin_search(set, &where[k], v[i], &needs, &search[left]);
        else
            present[i / 64] |= (uint64_t)(look_up_small(set, &where[k], v[i], false, &needs) > 0)
                               << i % 64;
    }
    end_searches(set, search, left);
    for (size_t k = 0; k < left; k++)
        present[searched[k] / 64] |= (uint64_t)is_found(set, &search[k]) << searched[k] % 64;
}

bool counted_pages(const struct counted_set *set, const uint64_t *hash, size_t n, bool counts,
                   bool (*page)(void *ctx, uint64_t page), void *ctx)
{
    struct needs needs = {.page = page, .ctx = ctx, .last = UINT64_MAX};
    struct search search[COUNTED_BATCH];
    size_t left = 0;
    for (size_t i = 0; i < n && !needs.refused; i++) {
        uint64_t v = counted_fingerprint(&set->counted, hash[i]);
        struct counted_block where;
        if (!find_block(set, v, &needs, &where))
            return false;
        if (where.large)
            left += begin_search(set, &where, v, &needs, &search[left]);
        else
            look_up_small(set, &where, v, counts, &needs);
        if (left == COUNTED_BATCH || i + 1 == n) {
            need_all(set, search, left, &needs);
            left = 0;
        }
    }
    return !needs.refused;
}
