/* SPDX-License-Identifier: MIT */
/* Geometry and directory of counted sets. */
#include "kind/counted/counted.h"

#include <math.h>
#include <stdlib.h>

#include "kind/counted/layer.h"
#include "kind/counted/parts.h"
#include "kind/overlap.h"

struct counted counted_of(const struct layer *layer)
{
    const uint64_t *g = layer->geometry;
    return (struct counted){
        .bits = (unsigned)g[0], .low = (unsigned)g[1], .entries = g[2], .total = g[3]};
}

void counted_to(const struct counted *c, struct layer *layer)
{
    layer->geometry[0] = c->bits;
    layer->geometry[1] = c->low;
    layer->geometry[2] = c->entries;
    layer->geometry[3] = c->total;
}

void counted_design(struct counted *c, uint64_t entries)
{
    uint64_t most = (entries > 0 ? entries : 1) * 7 / 4;
    c->low = 0;
    while (c->low < 63 && counted_last_bucket(c) >= most)
        c->low++;
}

bool counted_check(const struct layer *layer, struct err *err)
{
    const uint64_t *g = layer->geometry;
    if (g[0] < 1 || g[0] > 64)
        return fail(err, "its number of fingerprint bits is out of range");
    /* An entry takes at least one bit, so a byte holds at most 8. */
    if (g[2] > COUNTED_MAX_ENTRIES || g[2] > g[3] || (g[2] == 0 && g[3] != 0) ||
        (g[2] > 0 && g[2] - 1 > UINT64_MAX >> (64 - g[0])) || g[2] / 8 > layer->data_len)
        return fail(err, "its number of keys is out of range");
    struct counted c = {.bits = (unsigned)g[0]};
    counted_design(&c, g[2]);
    if (c.low != g[1])
        return fail(err, "its number of buckets is not that for its keys");
    if (layer->data_len > COUNTED_MAX_LEN || layer->data_len < COUNTED_SLACK ||
        counted_directory_len(&c) > layer->data_len - COUNTED_SLACK)
        return fail(err, "its directory does not fit its length");
    return true;
}

uint64_t counted_expected_len(const struct counted *c, uint64_t entries)
{
    struct counted design = *c;
    counted_design(&design, entries);
    double n = (double)entries, blocks = (double)counted_blocks(&design);
    double bits = n * (1 + design.low) + blocks * (COUNTED_BUCKETS + 3.5);
    return counted_directory_len(&design) + (entries > 0 ? (uint64_t)(bits / 8 + 0.5) : 0) +
           COUNTED_SLACK;
}

struct counted_set counted_set(const struct counted *c, const uint8_t *data, uint64_t len)
{
    return (struct counted_set){
        .counted = *c, .data = data, .len = len, .directory_len = counted_directory_len(c)};
}

/* Validates the stretches with lines [first, end) of the directory, and adds up their entries.
 * Reads no line before them. */
static bool check_lines(const struct counted_set *set, uint64_t first, uint64_t end,
                        uint64_t *entries, struct err *err)
{
    const uint64_t room = set->len - set->directory_len - COUNTED_SLACK;
    uint64_t crowd = 0;
    for (uint64_t number = first; number < end; number++) {
        const uint64_t line = get_le64(set->data + COUNTED_LINE * number);
        const uint64_t n = line >> COUNTED_END_BITS;
        struct counted_block b;
        bool good = number > first || number == 0
                        ? counted_find_block(set, number, &b) && (n == 0) == (b.begin == b.end)
                        : counted_line_end(line) <= room;
        crowd = number % COUNTED_STRETCH == 0 ? n : crowd + n;
        if (!good || crowd > COUNTED_CROWD)
            return fail(err, "line %llu of its directory is not valid", (unsigned long long)number);
        *entries += n;
    }
    return true;
}

bool counted_check_directory(const struct counted_set *set, struct err *err)
{
    const uint64_t blocks = counted_blocks(&set->counted), slack = set->len - COUNTED_SLACK;
    uint64_t entries = 0;
    struct counted_block last;
    if (!check_lines(set, 0, blocks, &entries, err))
        return false;
    if (entries != set->counted.entries)
        return fail(err, "its directory is not that of its keys");
    return (counted_find_block(set, blocks - 1, &last) && last.end == slack &&
            bytes_zero(set->data + slack, COUNTED_SLACK)) ||
           fail(err, "its blocks do not end where its data does");
}

bool counted_check_page(const struct counted_set *set, uint64_t page, struct err *err)
{
    const uint64_t blocks = counted_blocks(&set->counted), first = page * (4096 / COUNTED_LINE);
    const uint64_t end = first + 4096 / COUNTED_LINE;
    uint64_t entries = 0;
    return check_lines(set, first, end < blocks ? end : blocks, &entries, err);
}

/* ---- The counted set as a kind of layer. */

static struct counted_set set_of(const struct layer *layer, const uint8_t *data)
{
    struct counted c = counted_of(layer);
    return counted_set(&c, data, layer->data_len);
}

static void query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present)
{
    const struct counted_set set = set_of(layer, data);
    counted_query(&set, keys.lane0, n, present);
}

static bool pages(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    const struct counted_set set = set_of(layer, data);
    return counted_pages(&set, keys.lane0, n, need, ctx);
}

static bool check_page(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err)
{
    const struct counted_set set = set_of(layer, data);
    return counted_check_page(&set, page, err);
}

void counted_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                    struct census *out)
{
    struct counted c = counted_of(layer);
    double n = (double)c.entries;
    (void)data, (void)threads;
    *out = (struct census){
        .fpr = ldexp(n, -(int)c.bits), .n = n, .n_low = n, .n_high = n, .n_exact = c.bits == 64};
    if (!out->n_exact)
        overlap_census(ldexp(1, (int)c.bits), 1, n, out);
}

/* Reads all of the set. */
static bool check_whole(const struct layer *layer, const uint8_t *data, unsigned threads,
                        struct err *err)
{
    struct counts_seen seen;
    return counted_combine(COUNTS_ADD, &layer, &data, 1, NULL, threads, &seen, err);
}

static struct shape shape(const struct layer *layer)
{
    struct counted c = counted_of(layer);
    return (struct shape){.pages = layer_pages(layer),
                          .fingerprint = c.bits,
                          .fingerprints = c.entries,
                          .total = c.total};
}

/* The expected fraction of all fingerprints that n keys occupy. */
static double fpr_at(const struct layer *layer, double n)
{
    return -expm1(n * log1p(-ldexp(1, -(int)counted_of(layer).bits)));
}

static bool size(uint64_t n, double p, struct layer *out)
{
    struct counted c = {.bits = 1};
    if (n > COUNTED_MAX_ENTRIES)
        return false;
    /* The fewest bits with which n / 2^bits is at most p. An FPR that needs more than 64 bits was
     * refused before. */
    while (c.bits < 64 && ldexp(n > 0 ? (double)n : 1, -(int)c.bits) > p)
        c.bits++;
    counted_design(&c, n);
    counted_to(&c, out);
    out->data_len = counted_expected_len(&c, n);
    return true;
}

/* CPU nanoseconds per key, measured on one machine. Includes reading and hashing of short keys. */
static const double BUILD_TIME = 50;

static void cost(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out)
{
    *out = (struct cost){.bits = 8 * layer->data_len,
                         .k = counted_of(layer).bits,
                         .lines = 3, /* of the directory, of buckets, of remainders */
                         .build_memory = layer_keys_memory(n, file_len),
                         .build_time = BUILD_TIME};
}

static void query_counts(const struct layer *layer, const uint8_t *data, struct hashes keys,
                         size_t n, uint64_t *count)
{
    const struct counted_set set = set_of(layer, data);
    counted_query_counts(&set, keys.lane0, n, count);
}

static void narrow(const struct layer *layer, unsigned to, struct layer *out)
{
    struct counted c = counted_of(layer);
    uint64_t entries = c.entries;
    *out = *layer;
    c.bits = to;
    c.entries = c.total = 0;
    counted_design(&c, entries);
    counted_to(&c, out);
    out->data_len = counted_expected_len(&c, entries);
}

static bool hashes(const struct layer *layer, const uint8_t *data,
                   bool (*take)(void *ctx, const uint64_t *hash, size_t n, struct err *err),
                   void *ctx, struct err *err)
{
    enum { RUN = 1024 };
    const struct counted_set set = set_of(layer, data);
    const struct counted *c = &set.counted;
    const uint64_t width = counted_mask(c->low + COUNTED_BUCKET_BITS);
    struct counted_entries e = {0};
    struct counted_sums read = {0};
    bool ok = true;
    for (uint64_t block = 0; ok && block < counted_blocks(c); block++) {
        const uint64_t first = counted_block_first(c, block);
        uint64_t hash[RUN];
        e.n = 0;
        ok = counted_read_range(&set, first, first | width, 0, &e, &read, err);
        for (size_t at = 0, n; ok && at < e.n; at += n) {
            n = e.n - at < RUN ? e.n - at : RUN;
            for (size_t i = 0; i < n; i++)
                hash[i] = e.at[at + i].value << (64 - c->bits);
            ok = take(ctx, hash, n, err);
        }
    }
    free(e.at);
    return ok;
}

static const struct kind_counts counts = {
    .query = query_counts,
    .combine = counted_combine,
    .narrow = narrow,
    .hashes = hashes,
};

static const struct kind_sizing sizing = {
    .hash_share = 1,
    .size = size,
    .fpr_min = 0x1p-64,
    .fpr_max = 0.5,
    .len_max = COUNTED_MAX_LEN,
    .cost = cost,
};

static const struct kind_building building = {
    .build = counted_build,
    .memory = counted_build_memory,
    .part = COUNTED_PART,
};

const struct kind kind_counted = {
    .id = 3,
    .name = "counted",
    .lanes = 1,
    .variants = &counted_variants,
    .sizing = &sizing,
    .building = &building,
    .counts = &counts,
    .check = counted_check,
    .query = query,
    .pages = pages,
    .check_page = check_page,
    .check_whole = check_whole,
    .census = counted_census,
    .shape = shape,
    .fpr_at = fpr_at,
};
