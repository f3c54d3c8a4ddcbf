/* SPDX-License-Identifier: MIT */
#include "kind/bloom/bloom.h"

#include <string.h>

#include "kind/bloom/probe.h"

#define ONE_BIT(i) [i] = {[(i) / 64] = UINT64_C(1) << (i) % 64}
#define ONE_BIT_8(i)                                                                               \
    ONE_BIT(i), ONE_BIT(i + 1), ONE_BIT(i + 2), ONE_BIT(i + 3), ONE_BIT(i + 4), ONE_BIT(i + 5),    \
        ONE_BIT(i + 6), ONE_BIT(i + 7)
#define ONE_BIT_64(i)                                                                              \
    ONE_BIT_8(i), ONE_BIT_8(i + 8), ONE_BIT_8(i + 16), ONE_BIT_8(i + 24), ONE_BIT_8(i + 32),       \
        ONE_BIT_8(i + 40), ONE_BIT_8(i + 48), ONE_BIT_8(i + 56)

_Alignas(BLOOM_LINE) const uint64_t bloom_one_bit[512][8] = {
    ONE_BIT_64(0),   ONE_BIT_64(64),  ONE_BIT_64(128), ONE_BIT_64(192),
    ONE_BIT_64(256), ONE_BIT_64(320), ONE_BIT_64(384), ONE_BIT_64(448)};

struct variants bloom_variants = {{
#ifdef CPU_X86
                                      &bloom_avx512.variant,
                                      &bloom_avx2.variant,
#endif
#ifdef CPU_NEON
                                      &bloom_neon.variant,
#endif
                                      &bloom_plain.variant,
                                  },
                                  NULL};

void bloom_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                  const uint64_t *hash, size_t n)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->insert(bloom, data, first_page, hash, n, NULL);
}

struct bloom bloom_of(const struct layer *layer)
{
    return (struct bloom){.pages = layer->geometry[0],
                          .k = (unsigned)layer->geometry[1],
                          .lines = (unsigned)layer->geometry[2]};
}

void bloom_to(const struct bloom *bloom, struct layer *layer)
{
    layer->kind = &kind_bloom;
    layer->geometry[0] = bloom->pages;
    layer->geometry[1] = bloom->k;
    layer->geometry[2] = bloom->lines;
    layer->geometry[3] = 0;
    layer->data_len = bloom->pages * BLOOM_PAGE;
}

/* ---- The page-blocked Bloom filter as a kind of layer. */

static bool check(const struct layer *layer, struct err *err)
{
    const uint64_t *g = layer->geometry;
    if (g[0] == 0 || g[0] != layer->data_len / BLOOM_PAGE || layer->data_len % BLOOM_PAGE != 0)
        return fail(err, "its page count does not fit its length");
    if (g[1] < 1 || g[1] > BLOOM_MAX_K)
        return fail(err, "its number of probes is out of range");
    if (g[2] < 1 || g[2] > 2 || g[1] % g[2] != 0)
        return fail(err, "its number of lines is out of range");
    if (g[3] != 0)
        return fail(err, "its geometry has an unknown field");
    return true;
}

/* Step s of a query: 64 keys after others in a layer, then those that are left in the next. */
static struct bloom_step query_step(const struct layer *const *layer, const uint8_t *const *data,
                                    const uint64_t *hash, size_t n, uint64_t *present, size_t s)
{
    const size_t words = (n + 63) / 64, word = s % words, left = n - word * 64;
    const uint64_t keys = left < 64 ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
    return (struct bloom_step){.bloom = bloom_of(layer[s / words]),
                               .data = data[s / words],
                               .hash = hash + word * 64,
                               .keys = keys & ~present[word],
                               .present = present + word};
}

/* Takes the keys of a step as found, if they are in their second lines, too. */
static void end_step(const struct bloom_variant *v, struct bloom_step *step)
{
    if (step->keys != 0)
        *step->present |= step->bloom.lines == 2 ? v->test_second(*step) : step->keys;
    step->keys = 0;
}

/* While a step tests lines, those of the next are fetched. With two lines, hardly any absent key
 * has all its bits in the first: the second is fetched for those that do, and tested a step later.
 */
static void query_layers(const struct layer *const *layer, const uint8_t *const *data,
                         unsigned n_layers, struct hashes keys, size_t n, uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    const size_t steps = (n + 63) / 64 * n_layers;
    const uint8_t *line[3][64]; /* of next, now and before */
    struct bloom_step now = {0}, next = {0}, before = {0};
    for (size_t s = 0; s <= steps; s++) {
        now = next;
        next = (struct bloom_step){0};
        if (s < steps)
            next = query_step(layer, data, keys.lane0, n, present, s);
        next.line = line[s % 3];
        if (before.present == now.present) /* few keys: no other step came between */
            end_step(v, &before);
        if (now.present != NULL)
            now.keys &= ~*now.present;
        now.keys &= v->test_first(now, next);
        end_step(v, &before);
        if (now.bloom.lines == 2)
            bloom_fetch_second(&now);
        before = now;
    }
    end_step(v, &before);
}

static void query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present)
{
    query_layers(&layer, &data, 1, keys, n, present);
}

static void add(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    struct bloom bloom = bloom_of(layer);
    v->test_insert(&bloom, data, 0, keys.lane0, n, present);
}

static void find_pages(const struct layer *layer, struct hashes keys, size_t n, uint64_t *page)
{
    struct bloom bloom = bloom_of(layer);
    for (size_t i = 0; i < n; i++)
        page[i] = bloom_page(&bloom, keys.lane0[i]);
}

static double fpr_at(const struct layer *layer, double n)
{
    struct bloom bloom = bloom_of(layer);
    return bloom_fpr(&bloom, n);
}

static struct shape shape_of(const struct layer *layer)
{
    struct bloom bloom = bloom_of(layer);
    return (struct shape){.pages = bloom.pages, .lines = bloom.lines, .k = bloom.k};
}

static bool size(uint64_t n, double p, struct layer *out)
{
    struct bloom bloom;
    if (!bloom_size(n, p, &bloom))
        return false;
    bloom_to(&bloom, out);
    return true;
}

static uint64_t pages_of(uint64_t data_len)
{
    uint64_t pages = data_len / BLOOM_PAGE;
    return pages < BLOOM_MAX_PAGES ? pages : BLOOM_MAX_PAGES;
}

static double best(uint64_t n, uint64_t data_len, struct layer *out)
{
    struct bloom bloom;
    bloom_best(n, pages_of(data_len), &bloom);
    bloom_to(&bloom, out);
    return bloom_fpr(&bloom, (double)n);
}

static uint64_t capacity(uint64_t data_len, double p, struct layer *out)
{
    struct bloom bloom;
    uint64_t n = bloom_capacity(pages_of(data_len), p, &bloom);
    if (n > 0)
        bloom_to(&bloom, out);
    return n;
}

/* Memory of `seen create` besides the filter: for input and for hashes in transit. */
static const uint64_t BUILD_MEMORY = (uint64_t)64 << 20;

/* Measured on one machine; includes reading and hashing of short keys. */
static const double BUILD_TIME = 20;

static void cost(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out)
{
    struct bloom bloom = bloom_of(layer);
    (void)n;
    *out = (struct cost){.bits = 8 * layer->data_len,
                         .k = bloom.k,
                         .lines = bloom.lines,
                         .build_memory = file_len + BUILD_MEMORY,
                         .build_time = BUILD_TIME};
}

static void fold(const struct layer *layer, double n, double p, uint64_t above, struct layer *out)
{
    struct bloom bloom = bloom_of(layer);
    uint64_t all = bloom.pages;
    for (bloom.pages = above / BLOOM_PAGE + 1; bloom.pages < all; bloom.pages++)
        if (all % bloom.pages == 0 && bloom_fpr(&bloom, n) <= p)
            break;
    *out = *layer;
    if (bloom.pages < all)
        bloom_to(&bloom, out);
}

static void round_to_fold(struct layer *layer, unsigned parts)
{
    struct bloom bloom = bloom_of(layer);
    uint64_t step = parts;
    if (parts == 0)
        /* Repeated halving leaves 16 to 31 pages. */
        for (step = 1; bloom.pages / step > 31; step *= 2)
            continue;
    else if (bloom.pages < 40 * (uint64_t)parts)
        return;
    bloom.pages = (bloom.pages + step - 1) / step * step;
    bloom_to(&bloom, layer);
}

static const struct kind_sizing sizing = {
    .hash_share = 0.1,
    .size = size,
    .fpr_min = BLOOM_MIN_FPR,
    .fpr_max = 1,
    .len_max = BLOOM_MAX_PAGES * BLOOM_PAGE,
    .cost = cost,
    .best = best,
    .capacity = capacity,
};

static const struct kind_building building = {
    .build = bloom_build,
    /* From here on the census errs by less than a thousandth. Fewer hashes are counted, which is
       fast. */
    .estimated_from = 2 << 20,
};

static const struct kind_uniting uniting = {.fold = fold, .round_to_fold = round_to_fold};

const struct kind kind_bloom = {
    .id = 1,
    .name = "bloom",
    .lanes = 1,
    .table = &bloom_table,
    .variants = &bloom_variants,
    .sizing = &sizing,
    .building = &building,
    .uniting = &uniting,
    .check = check,
    .query = query,
    .query_layers = query_layers,
    .add = add,
    .page = find_pages,
    .census = table_census,
    .shape = shape_of,
    .fpr_at = fpr_at,
};
