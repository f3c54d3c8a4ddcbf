/* SPDX-License-Identifier: MIT */
/* Queries of counted sets. The fast variant is the plain one with one instruction, which ones_in
 * chooses by a constant argument: a query takes 1/6 less time. */
#include "base/ahead.h"
#include "base/bits.h"
#include "kind/counted/parts.h"

/* A word of eight bytes: a 1 or a high bit in each. */
#define ONES  0x0101010101010101
#define HIGHS 0x8080808080808080

/* The number of ones in each byte of x, as bytes. */
static inline uint64_t ones_of_bytes(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
}

/* How many of the bytes of `sums`, each at most 64, are at most i? */
static inline unsigned count_at_most(uint64_t sums, unsigned i)
{
    uint64_t few = ((i * ONES) | HIGHS) - sums;
    return (unsigned)(((few & HIGHS) >> 7) * ONES >> 56);
}

/* The position of the one with index i, from 0, in x. x has more than i ones. */
static inline unsigned select_one(uint64_t x, unsigned i)
{
    /* Byte b is the number of ones in bytes 0 to b. The wanted one is in the first byte above i. */
    uint64_t sums = ones_of_bytes(x) * ONES;
    unsigned at = 8 * count_at_most(sums, i);
    i -= (unsigned)(sums << 8 >> at & 0xff);
    /* The same with the bits of that byte, as bytes. */
    uint64_t bits = ((x >> at & 0xff) * ONES) & 0x8040201008040201;
    bits = ((bits + (HIGHS - ONES)) | bits) >> 7 & ONES;
    return at + count_at_most(bits * ONES, i);
}

/* The number of ones in x; if `fast` with the instruction POPCNT. (PDEP would select, too, but
 * takes some AMD CPUs a hundred cycles.) */
COUNTED_INLINE unsigned ones_in(uint64_t x, bool fast)
{
#ifdef CPU_X86
    if (fast) {
        __asm__("popcnt %0, %0" : "+r"(x) : : "cc");
        return (unsigned)x;
    }
#endif
    (void)fast;
    return (unsigned)(ones_of_bytes(x) * ONES >> 56);
}

/* The entries of a bucket: n > 0 from number `first` of their block on. */
struct bucket_place {
    uint64_t bit; /* where their remainders begin in the data */
    uint32_t first, n;
};

/* Finds the entries of v's bucket in its block, which has some. False: there are none, or the block
 * is not valid. Whatever its bits are, a place is in the block, and no more than the slack behind
 * it is read. */
COUNTED_INLINE bool find_bucket(const struct counted_set *set, uint64_t v,
                                const struct counted_block *b, struct bucket_place *p, bool fast)
{
    const uint8_t *bits = set->data + b->begin;
    const unsigned low = set->counted.low, bucket = v >> low & (COUNTED_BUCKETS - 1);
    const unsigned marks = COUNTED_BUCKETS + b->n;
    unsigned skip = bucket, n = 0, ones;
    /* Find the 1 that ends the bucket before. Skip whole words, up to three without a branch. */
    unsigned ones0 = ones_in(get_le64(bits), fast);
    unsigned ones1 = ones0 + ones_in(get_le64(bits + 8), fast);
    unsigned ones2 = ones1 + ones_in(get_le64(bits + 16), fast);
    unsigned w = (unsigned)(ones0 < skip) + (unsigned)(ones1 < skip) + (unsigned)(ones2 < skip);
    skip -= w == 0 ? 0 : w == 1 ? ones0 : w == 2 ? ones1 : ones2;
    unsigned at = 64 * w;
    uint64_t word = get_le64(bits + at / 8), rest;
    while (__builtin_expect((ones = ones_in(word, fast)) < skip, 0)) {
        skip -= ones;
        at += 64;
        if (at >= marks)
            return false;
        word = get_le64(bits + at / 8);
    }
    at = skip > 0 ? at + select_one(word, skip - 1) + 1 : at;
    if (__builtin_expect(at >= marks, 0))
        return false;
    p->first = at - bucket;
    /* Then a 0 for each entry. */
    while (__builtin_expect((rest = get_le64(bits + at / 8) >> (at & 7)) == 0, 0) && at < marks) {
        n += 64 - (at & 7);
        at += 64 - (at & 7);
    }
    p->n = rest != 0 ? n + (unsigned)__builtin_ctzll(rest) : 0;
    p->bit = 8 * b->begin + marks + (uint64_t)p->first * low;
    return (p->n > 0) & (p->first + p->n <= b->n);
}

/* Finds v among the entries of its bucket; then p->first is the number of its entry. */
COUNTED_INLINE bool find_entry(const struct counted_set *set, uint64_t v, struct bucket_place *p)
{
    enum { LINEAR = 8 }; /* entries that are all compared */
    const unsigned low = set->counted.low;
    uint64_t wanted = v & counted_mask(low), bit = p->bit;
    unsigned n = p->n, at = 0;
    bool found = false;
    for (; __builtin_expect(n > LINEAR, 0); n -= n / 2)
        if (counted_bits(set->data, bit + (uint64_t)(at + n / 2) * low, low) <= wanted)
            at += n / 2;
    bit += (uint64_t)at * low;
    for (; n > 0; n--, at++, bit += low) {
        bool same = counted_bits(set->data, bit, low) == wanted;
        found |= same;
        p->first += same ? at : 0;
    }
    return found;
}

enum { BATCH = 256 };

/* A key takes up to three dependent reads: the directory, which is small and mostly cached; the
 * marks of its bucket; and the remainders of the bucket, if it has entries. All keys of a batch, n
 * at most BATCH, do one step before the next, and each step prefetches what the next one reads. */
COUNTED_INLINE void query_with(const struct counted_set *given, const uint64_t *hash, size_t n,
                               uint64_t *present, bool fast)
{
    const struct counted_set copy = *given, *set = &copy; /* stores to `present` cannot alias it */
    const struct counted *c = &set->counted;
    struct counted_block block[BATCH];
    struct bucket_place place[BATCH];
    uint64_t v[BATCH];
    uint16_t key[BATCH];
    size_t left = 0, some = 0;
    for (size_t i = 0; i < n; i++) {
        v[i] = counted_fingerprint(c, hash[i]);
        ahead_fetch(set->data + COUNTED_LINE * counted_block_of(c, v[i]));
    }
    for (size_t i = 0; i < n; i++) {
        bool good = counted_find_block(set, counted_block_of(c, v[i]), &block[left]);
        const uint8_t *marks = ahead_of(set->data, (size_t)block[left].begin);
        key[left] = (uint16_t)i;
        /* They are about two bits a bucket. */
        ahead_fetch(marks);
        ahead_fetch(ahead_of(marks, (size_t)(v[i] >> c->low & (COUNTED_BUCKETS - 1)) / 4 + 8));
        left += good & (block[left].n > 0);
    }
    for (size_t k = 0; k < left; k++) {
        uint16_t i = key[k];
        bool good = find_bucket(set, v[i], &block[k], &place[some], fast);
        ahead_fetch(ahead_of(set->data, (size_t)(place[some].bit / 8)));
        key[some] = i;
        some += good;
    }
    for (size_t k = 0; k < some; k++) {
        uint16_t i = key[k];
        present[i / 64] |= (uint64_t)find_entry(set, v[i], &place[k]) << i % 64;
    }
}

static void query_plain(const struct counted_set *set, const uint64_t *hash, size_t n,
                        uint64_t *present)
{
    query_with(set, hash, n, present, false);
}

struct counted_variant {
    struct variant variant;
    void (*query)(const struct counted_set *set, const uint64_t *hash, size_t n, uint64_t *present);
};

static const struct counted_variant plain_query = {{"plain", NULL}, query_plain};

#ifdef CPU_X86

static void query_popcnt(const struct counted_set *set, const uint64_t *hash, size_t n,
                         uint64_t *present)
{
    query_with(set, hash, n, present, true);
}

static const struct counted_variant popcnt = {{"popcnt", cpu_has_popcnt}, query_popcnt};

#endif

struct variants counted_variants = {{
#ifdef CPU_X86
                                        &popcnt.variant,
#endif
                                        &plain_query.variant,
                                    },
                                    NULL};

void counted_query(const struct counted_set *set, const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct counted_variant *variant = (const void *)variant_in_use(&counted_variants);
    for (size_t i = 0; i < n; i += BATCH)
        variant->query(set, hash + i, n - i < BATCH ? n - i : BATCH, present + i / 64);
}

/* The count of v, 0 if it is not in the set. */
static uint64_t count_of(const struct counted_set *set, uint64_t v)
{
    struct counted_block b;
    struct bucket_place p;
    return counted_find_block(set, counted_block_of(&set->counted, v), &b) && b.n > 0 &&
                   find_bucket(set, v, &b, &p, false) && find_entry(set, v, &p)
               ? counted_get_count(set, &b, p.first)
               : 0;
}

void counted_query_counts(const struct counted_set *set, const uint64_t *hash, size_t n,
                          uint64_t *count)
{
    const struct counted *c = &set->counted;
    bool all_one = c->total == c->entries;
    for (size_t i = 0; i < n; i += BATCH) {
        size_t batch = n - i < BATCH ? n - i : BATCH;
        uint64_t present[BATCH / 64] = {0};
        counted_query(set, hash + i, batch, present);
        for (size_t k = 0; k < batch; k++) {
            count[i + k] = bit_of(present, k);
            if (count[i + k] > 0 && !all_one)
                count[i + k] = count_of(set, counted_fingerprint(c, hash[i + k]));
        }
    }
}

/* Announces pages before a lookup reads them. */
struct page_needs {
    bool (*need)(void *ctx, uint64_t page);
    void *ctx;
    uint64_t last; /* the last announced page */
};

/* Bytes [begin, end), which are in the data. */
static bool announce(struct page_needs *needs, uint64_t begin, uint64_t end)
{
    for (uint64_t page = begin / 4096; page * 4096 < end; page++) {
        if (page != needs->last && !needs->need(needs->ctx, page))
            return false;
        needs->last = page;
    }
    return true;
}

bool counted_pages(const struct counted_set *set, const uint64_t *hash, size_t n,
                   bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    struct page_needs needs = {.need = need, .ctx = ctx, .last = UINT64_MAX};
    for (size_t i = 0; i < n; i++) {
        uint64_t block =
            counted_block_of(&set->counted, counted_fingerprint(&set->counted, hash[i]));
        uint64_t lines = COUNTED_LINE * block; /* its own, and the one before */
        struct counted_block b;
        if (!announce(&needs, block > 0 ? lines - COUNTED_LINE : 0, lines + COUNTED_LINE) ||
            (counted_find_block(set, block, &b) && !announce(&needs, b.begin, b.end)))
            return false;
    }
    return true;
}
