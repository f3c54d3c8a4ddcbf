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
    if (g[0] < 1 || g[0] > 64 || g[1] > 63)
        return fail(err, "its number of fingerprint bits is out of range");
    struct counted c = counted_of(layer);
    if (layer->data_len >= COUNTED_MAX_LEN || counted_directory_len(&c) > layer->data_len)
        return fail(err, "its directory does not fit its length");
    /* An entry takes at least one bit, so a byte holds at most 8. */
    if (c.entries > COUNTED_MAX_ENTRIES || c.entries > c.total ||
        (c.entries > 0 && c.entries - 1 > counted_top(&c)) || c.entries / 8 > layer->data_len ||
        (c.entries == 0 && c.total != 0))
        return fail(err, "its number of keys is out of range");
    return true;
}

uint64_t counted_expected_len(const struct counted *c, uint64_t entries)
{
    struct counted design = *c;
    counted_design(&design, entries);
    double n = (double)entries, buckets = (double)counted_last_bucket(&design) + 1;
    double blocks = (double)counted_blocks(&design), bits = n * (1 + design.low) + buckets;
    return counted_directory_len(&design) + (uint64_t)((bits + 3.5 * blocks) / 8 + 0.5);
}

struct counted_set counted_set(const struct counted *c, const uint8_t *data, uint64_t len)
{
    return (struct counted_set){.counted = *c,
                                .data = data,
                                .len = len,
                                .fast = len >= 8 ? len - 7 : 0,
                                .directory_len = counted_directory_len(c)};
}

uint64_t counted_load_end(const struct counted_set *set, uint64_t at)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < 8; i++)
        if (at < set->len && i < set->len - at)
            v |= (uint64_t)set->data[at + i] << 8 * i;
    return v;
}

struct counted_block counted_find_block(const struct counted_set *set, uint64_t block)
{
    uint64_t line = block / COUNTED_BLOCKS * COUNTED_LINE, begin = 0, end;
    unsigned slot = (unsigned)(block % COUNTED_BLOCKS);
    uint64_t base = counted_load(set, line), ends = line + 8;
    bool large = base & COUNTED_LARGE;
    base = (base & ~COUNTED_LARGE) + set->directory_len;
    if (large) {
        unsigned blocks = counted_group_blocks(&set->counted, block / COUNTED_BLOCKS);
        begin = slot > 0 ? counted_load(set, base + 8 * (slot - 1)) : 8 * blocks;
        end = counted_load(set, base + 8 * slot);
        large = end & COUNTED_LARGE;
    } else {
        if (slot > 0)
            begin = counted_load(set, ends + 2 * (slot - 1)) & 0xffff;
        end = counted_load(set, ends + 2 * slot) & 0xffff;
    }
    return (struct counted_block){.begin = base + (begin & ~COUNTED_LARGE),
                                  .end = base + (end & ~COUNTED_LARGE),
                                  .large = large};
}

/* Validates the line of a group. *begin, *end: where the group begins and ends, counted from the
 * first group; for a large group, *end is the end of its table. */
static bool check_line(const struct counted_set *set, uint64_t group, uint64_t *begin,
                       uint64_t *end)
{
    uint64_t line = group * COUNTED_LINE, base = counted_load(set, line), room;
    unsigned blocks = counted_group_blocks(&set->counted, group), last = 0;
    bool large = base & COUNTED_LARGE;
    *begin = base & ~COUNTED_LARGE;
    room = set->len - set->directory_len;
    if (*begin > room)
        return false;
    for (unsigned i = 0; i < blocks; i++) {
        unsigned at = counted_load(set, line + 8 + 2 * i) & 0xffff;
        if (at < last || (large && at != 0))
            return false;
        last = at;
    }
    if (large)
        last = 8 * blocks;
    *end = *begin + last;
    return last <= room - *begin;
}

/* Where a group ends. `begin` and `end` are from check_line. */
static uint64_t group_end(const struct counted_set *set, uint64_t group, uint64_t begin,
                          uint64_t end)
{
    if (!(counted_load(set, group * COUNTED_LINE) & COUNTED_LARGE))
        return end;
    return begin + (counted_load(set, set->directory_len + end - 8) & ~COUNTED_LARGE);
}

bool counted_check_directory(const struct counted_set *set, struct err *err)
{
    uint64_t groups = counted_groups(&set->counted), expected = 0, begin, end;
    for (uint64_t group = 0; group < groups; group++) {
        if (!check_line(set, group, &begin, &end) || begin != expected)
            return fail(err, "line %llu of its directory is not valid", (unsigned long long)group);
        expected = group_end(set, group, begin, end);
        if (expected < end || expected > set->len - set->directory_len)
            return fail(err, "the table of group %llu is not valid", (unsigned long long)group);
    }
    return expected == set->len - set->directory_len ||
           fail(err, "its groups do not end where its data does");
}

bool counted_check_page(const struct counted_set *set, uint64_t page, struct err *err)
{
    uint64_t per_page = 4096 / COUNTED_LINE, groups = counted_groups(&set->counted);
    uint64_t group = page * per_page, previous = 0, begin, end;
    for (unsigned i = 0; i < per_page && group < groups; i++, group++) {
        if (!check_line(set, group, &begin, &end) || begin < previous || (group == 0 && begin != 0))
            return fail(err, "line %llu of its directory is not valid", (unsigned long long)group);
        previous = end;
    }
    return true;
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

/* The fewest bits with which n / 2^bits is at most p. An FPR that needs more than 64 bits was
 * refused before. */
static unsigned width_for(uint64_t n, double p)
{
    unsigned bits = 1;
    while (bits < 64 && ldexp((double)n, -(int)bits) > p)
        bits++;
    return bits;
}

static bool size(uint64_t n, double p, struct layer *out)
{
    struct counted c = {.bits = width_for(n > 0 ? n : 1, p)};
    if (n > COUNTED_MAX_ENTRIES)
        return false;
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

static bool hashes(const struct layer *layer, const uint8_t *data, uint64_t first, uint64_t last,
                   bool (*take)(void *ctx, const uint64_t *hash, const uint64_t *count, size_t n,
                                struct err *err),
                   void *ctx, struct err *err)
{
    const struct counted_set set = set_of(layer, data);
    unsigned shift = 64 - set.counted.bits;
    uint64_t hash[COUNTED_RUN];
    struct counted_run run = {.n = 1};
    bool ok = true;
    /* Select the fingerprints whose lowest hash is in the range. */
    uint64_t from = (first >> shift) + ((first & counted_mask(shift)) != 0);
    if (from > last >> shift)
        return true;
    struct counted_reader *r = malloc(sizeof *r);
    if (r == NULL)
        return fail(err, "out of memory");
    counted_read_range(r, &set, from, last >> shift);
    while (ok && (ok = counted_next(&r->stream, &run, err)) && run.n > 0) {
        for (size_t i = 0; i < run.n; i++)
            hash[i] = run.value[i] << shift;
        ok = take(ctx, hash, run.count, run.n, err);
    }
    free(r);
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
