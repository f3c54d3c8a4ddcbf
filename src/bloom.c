#include "bloom.h"

#include <stdlib.h>
#include <string.h>

#include "bloom_build.h"
#include "bloom_census.h"
#include "bloom_probe.h"
#include "bloom_size.h"
#include "bytes.h"
#include "parallel.h"

#define ONE_BIT(i)    [i] = {[(i) / 64] = UINT64_C(1) << (i) % 64}
#define ONE_BIT_8(i)                                                                               \
    ONE_BIT(i), ONE_BIT(i + 1), ONE_BIT(i + 2), ONE_BIT(i + 3), ONE_BIT(i + 4), ONE_BIT(i + 5),    \
        ONE_BIT(i + 6), ONE_BIT(i + 7)
#define ONE_BIT_64(i)                                                                              \
    ONE_BIT_8(i), ONE_BIT_8(i + 8), ONE_BIT_8(i + 16), ONE_BIT_8(i + 24), ONE_BIT_8(i + 32),       \
        ONE_BIT_8(i + 40), ONE_BIT_8(i + 48), ONE_BIT_8(i + 56)

_Alignas(BLOOM_LINE) const uint64_t bloom_one_bit[512][8] = {
    ONE_BIT_64(0),   ONE_BIT_64(64),  ONE_BIT_64(128), ONE_BIT_64(192),
    ONE_BIT_64(256), ONE_BIT_64(320), ONE_BIT_64(384), ONE_BIT_64(448)};

static inline unsigned test_bit(const uint8_t *line, uint64_t probe)
{
    return (unsigned)(get_le64(line + (probe >> 6 & 7) * 8) >> (probe & 63)) & 1;
}

/* Sets the bit; returns what it was. */
static inline unsigned set_bit(uint8_t *line, uint64_t probe)
{
    uint8_t *at = line + (probe >> 6 & 7) * 8;
    uint64_t word = get_le64(at);
    put_le64(at, word | (uint64_t)1 << (probe & 63));
    return (unsigned)(word >> (probe & 63)) & 1;
}

#define INLINE BLOOM_INLINE

INLINE void find_words(uint64_t hash, unsigned k, uint64_t word[WORDS])
{
#pragma GCC unroll 4
    for (unsigned t = 0; t < WORDS; t++)
        word[t] = t * PROBES_IN_WORD < k ? bloom_word(hash, t) : 0;
}

/* The probes of all words take turns: then two that hit the same 64 bits of a line, where the
 * second must wait for the first one's store, are less often neighbours. */
#define FOR_EACH_PROBE(i, k)                                                                       \
    _Pragma("GCC unroll 7") for (unsigned j = 0; j < PROBES_IN_WORD; j++)                          \
        _Pragma("GCC unroll 4") for (unsigned t = 0, i; t < WORDS; t++)                            \
            if ((i = t * PROBES_IN_WORD + j) < (k))

INLINE bool test_all(const uint8_t *a, const uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint64_t word[WORDS];
    unsigned all = 1;
    find_words(hash, k, word);
    FOR_EACH_PROBE(i, k)
        all &= test_bit(i < k / lines ? a : b, word[t] >> PROBE_BITS * j);
    return all;
}

/* Returns whether all bits were set before. */
INLINE bool set_all(uint8_t *a, uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint64_t word[WORDS];
    unsigned all = 1;
    find_words(hash, k, word);
    FOR_EACH_PROBE(i, k)
        all &= set_bit(i < k / lines ? a : b, word[t] >> PROBE_BITS * j);
    return all;
}

#define QUERY       query_plain
#define INSERT      insert_plain
#define TEST_INSERT test_insert_plain
#define TARGET
#define TEST        test_all
#define SET         set_all
#include "bloom_body.h"

static const struct bloom_variant plain = {
    {"plain", NULL}, query_plain, insert_plain, test_insert_plain};

struct variants bloom_variants = {{
#ifdef CPU_X86
    &bloom_avx512.variant,
    &bloom_avx2.variant,
#endif
#ifdef CPU_NEON
    &bloom_neon.variant,
#endif
    &plain.variant,
}, NULL};

void bloom_query(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                 const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->query(bloom, data, first_page, hash, n, present);
}

void bloom_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                  const uint64_t *hash, size_t n)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->insert(bloom, data, first_page, hash, n, NULL);
}

void bloom_test_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                       const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->test_insert(bloom, data, first_page, hash, n, present);
}

void bloom_fold(const struct bloom *from, const uint8_t *data, const struct bloom *to,
                uint64_t first, uint64_t n, uint8_t *pages)
{
    uint64_t q = from->pages / to->pages;
    const uint8_t *in = data + first * q * BLOOM_PAGE;
    for (uint64_t page = 0; page < n; page++)
        for (uint64_t i = 0; i < q; i++, in += BLOOM_PAGE)
            for (size_t byte = 0; byte < BLOOM_PAGE; byte++)
                pages[page * BLOOM_PAGE + byte] |= in[byte];
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

static bool kind_check(const struct layer *layer, struct err *err)
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

static void kind_query(const struct layer *layer, const uint8_t *data, const uint64_t *hash,
                       size_t n, uint64_t *present)
{
    struct bloom bloom = bloom_of(layer);
    bloom_query(&bloom, data, 0, hash, n, present);
}

static void kind_prefetch(const struct layer *layer, const uint8_t *data, const uint64_t *hash,
                          size_t n)
{
    struct bloom bloom = bloom_of(layer);
    for (size_t i = 0; i < n; i++)
        bloom_prefetch(&bloom, data, 0, hash[i], bloom.lines);
}

static void kind_add(const struct layer *layer, uint8_t *data, const uint64_t *hash, size_t n,
                     uint64_t *present)
{
    struct bloom bloom = bloom_of(layer);
    bloom_test_insert(&bloom, data, 0, hash, n, present);
}

static bool kind_unite(const struct layer *a, const struct layer *b, struct layer *out)
{
    struct bloom x = bloom_of(a), y = bloom_of(b);
    if (x.k != y.k || x.lines != y.lines)
        return false;
    *out = x.pages <= y.pages ? *a : *b;
    return x.pages % y.pages == 0 || y.pages % x.pages == 0;
}

static void kind_unite_pages(const struct layer *out, uint8_t *pages, uint64_t first, uint64_t n,
                             const struct layer *in, const uint8_t *in_data, bool intersect)
{
    struct bloom from = bloom_of(in), to = bloom_of(out);
    if (!intersect) {
        bloom_fold(&from, in_data, &to, first, n, pages);
        return;
    }
    for (uint64_t i = 0; i < n * BLOOM_PAGE; i++)
        pages[i] &= in_data[first * BLOOM_PAGE + i];
}

static void kind_page(const struct layer *layer, const uint64_t *hash, size_t n, uint64_t *page)
{
    struct bloom bloom = bloom_of(layer);
    for (size_t i = 0; i < n; i++)
        page[i] = bloom_page(&bloom, hash[i]);
}

/* Pages in one piece of a census: large enough that handing out pieces costs nothing. */
enum { CENSUS_PAGES = 256 };

/* Pages that are united at once, on the stack. */
enum { UNION_PAGES = 16 };

/* A census of one layer, or of the union of several. */
struct census_job {
    struct bloom bloom;
    const struct layer *const *layer;
    const uint8_t *const *data;
    unsigned n;
    struct bloom_census *of_worker;
};

static void census_of_union(const struct census_job *job, uint64_t first, uint64_t end,
                            struct bloom_census *c)
{
    uint8_t pages[UNION_PAGES * BLOOM_PAGE];
    for (uint64_t n; first < end; first += n) {
        n = end - first < UNION_PAGES ? end - first : UNION_PAGES;
        memset(pages, 0, n * BLOOM_PAGE);
        for (unsigned i = 0; i < job->n; i++) {
            struct bloom from = bloom_of(job->layer[i]);
            bloom_fold(&from, job->data[i], &job->bloom, first, n, pages);
        }
        bloom_census_add(&job->bloom, pages, n, c);
    }
}

static void census_piece(void *ctx, unsigned worker, uint64_t i)
{
    struct census_job *job = ctx;
    uint64_t first = i * CENSUS_PAGES, left = job->bloom.pages - first;
    uint64_t n = left < CENSUS_PAGES ? left : CENSUS_PAGES;
    if (job->n == 1)
        bloom_census_add(&job->bloom, job->data[0] + first * BLOOM_PAGE, n,
                         &job->of_worker[worker]);
    else
        census_of_union(job, first, first + n, &job->of_worker[worker]);
}

static void take_census(struct census_job *job, unsigned threads, struct census *out)
{
    struct bloom_census alone = {0};
    job->of_worker = calloc(threads, sizeof *job->of_worker);
    if (job->of_worker == NULL) {
        threads = 1;
        job->of_worker = &alone;
    }
    parallel_for(threads, (job->bloom.pages + CENSUS_PAGES - 1) / CENSUS_PAGES, census_piece, job);
    for (unsigned w = 1; w < threads; w++)
        bloom_census_sum(&job->of_worker[0], &job->of_worker[w]);
    bloom_census_result(&job->bloom, &job->of_worker[0], out);
    if (job->of_worker != &alone)
        free(job->of_worker);
}

static void kind_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                        struct census *out)
{
    struct census_job job = {.bloom = bloom_of(layer), .layer = &layer, .data = &data, .n = 1};
    take_census(&job, threads, out);
}

static bool kind_alike(const struct layer *a, const struct layer *b)
{
    struct bloom x = bloom_of(a), y = bloom_of(b);
    return x.k == y.k && x.lines == y.lines;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Of the largest size that all of them fold to. */
static void kind_census_union(const struct layer *const *layer, const uint8_t *const *data,
                              unsigned n, unsigned threads, struct census *out)
{
    struct census_job job = {.bloom = bloom_of(layer[0]), .layer = layer, .data = data, .n = n};
    for (unsigned i = 1; i < n; i++)
        job.bloom.pages = common_divisor(job.bloom.pages, bloom_of(layer[i]).pages);
    take_census(&job, threads, out);
}

static double kind_union_part(const struct layer *layer, const uint8_t *const *data, unsigned n)
{
    struct bloom bloom = bloom_of(layer);
    return bloom_union_part(&bloom, data, n);
}

static double kind_fpr_at(const struct layer *layer, double n)
{
    struct bloom bloom = bloom_of(layer);
    return bloom_fpr(&bloom, n);
}

static struct shape kind_shape(const struct layer *layer)
{
    struct bloom bloom = bloom_of(layer);
    return (struct shape){.pages = bloom.pages, .lines = bloom.lines, .k = bloom.k};
}

const struct kind kind_bloom = {
    .id = 1,
    .name = "bloom",
    .check = kind_check,
    .query = kind_query,
    .prefetch = kind_prefetch,
    .add = kind_add,
    .unite = kind_unite,
    .unite_pages = kind_unite_pages,
    .page = kind_page,
    .census = kind_census,
    .alike = kind_alike,
    .census_union = kind_census_union,
    .union_part = kind_union_part,
    .shape = kind_shape,
    .fpr_at = kind_fpr_at,
    .build = bloom_build,
};
