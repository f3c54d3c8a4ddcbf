/* The counted set as a kind of layer. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "kind/counted/layer.h"
#include "kind/counted/parts.h"

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
    return counted_pages(&set, keys.lane0, n, false, need, ctx);
}

static bool check_page(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err)
{
    const struct counted_set set = set_of(layer, data);
    return counted_check_page(&set, page, err);
}

static void census(const struct layer *layer, const uint8_t *data, unsigned threads,
                   struct census *out)
{
    struct counted c = counted_of(layer);
    (void)data, (void)threads;
    counted_census(&c, out);
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

static bool check_fpr(double p, struct err *err)
{
    char text[NUM_TEXT];
    return p < 1 || fail(err, "an FPR of %s is too large", num_show_fpr(text, p));
}

/* The fewest bits with which n / 2^bits is at most p. An FPR that needs more than 64 bits was
 * refused before. */
static unsigned bits_for(uint64_t n, double p)
{
    unsigned bits = 1;
    while (bits < 64 && ldexp((double)n, -(int)bits) > p)
        bits++;
    return bits;
}

static bool size(uint64_t n, double p, struct layer *out)
{
    struct counted c = {.bits = bits_for(n > 0 ? n : 1, p)};
    if (n > COUNTED_MAX_ENTRIES)
        return false;
    counted_design(&c, n);
    counted_to(&c, out);
    out->data_len = counted_expected_len(&c, n);
    return true;
}

/* Memory of `seen create`, in bytes: the limit without --memory; per key, while all keys are in
 * memory; for input. */
static const uint64_t BUILD_MEMORY = (uint64_t)256 << 20, KEY_MEMORY = 64, INPUT_MEMORY = 16 << 20;

/* CPU nanoseconds per key, measured on one machine. Includes reading and hashing of short keys. */
static const double BUILD_TIME = 50;

static void cost(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out)
{
    uint64_t memory = file_len + KEY_MEMORY * n + INPUT_MEMORY;
    *out = (struct cost){.bits = 8 * layer->data_len,
                         .k = counted_of(layer).bits,
                         .lines = 3, /* of the directory, of buckets, of remainders */
                         .build_memory = memory < BUILD_MEMORY ? memory : BUILD_MEMORY,
                         .build_time = BUILD_TIME};
}

static void query_counts(const struct layer *layer, const uint8_t *data, struct hashes keys,
                         size_t n, uint64_t *count)
{
    const struct counted_set set = set_of(layer, data);
    counted_query_counts(&set, keys.lane0, n, count);
}

static bool counts_pages(const struct layer *layer, const uint8_t *data, struct hashes keys,
                         size_t n, bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    const struct counted_set set = set_of(layer, data);
    return counted_pages(&set, keys.lane0, n, true, need, ctx);
}

static unsigned bits(const struct layer *layer)
{
    return counted_of(layer).bits;
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
    .pages = counts_pages,
    .bits = bits,
    .combine = counted_combine,
    .narrow = narrow,
    .hashes = hashes,
};

const struct kind kind_counted = {
    .id = 3,
    .name = "counted",
    .variants = &counted_variants,
    .check = counted_check,
    .query = query,
    .pages = pages,
    .check_page = check_page,
    .check_whole = check_whole,
    .census = census,
    .shape = shape,
    .fpr_at = fpr_at,
    .check_fpr = check_fpr,
    .hash_share = 1,
    .size = size,
    .fpr_min = 0x1p-64,
    .fpr_max = 0.5,
    .len_max = COUNTED_MAX_LEN,
    .cost = cost,
    .lanes = 1,
    .build = counted_build,
    .build_memory = counted_build_memory,
    .build_part = COUNTED_PART,
    .presuming_fpr = 1,
    .counts = &counts,
};
