/* SPDX-License-Identifier: MIT */
/* Classic Bloom filters: checks, queries, insertion. */
#include "foreign/classic.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ahead.h"
#include "base/bytes.h"
#include "base/exact.h"
#include "base/num.h"

enum {
    PAGE_BITS = 8 * LAYER_PAGE,
    /* Positions that are computed before the first one is read. This many cache lines fit in the
     * L1 cache. */
    POSITIONS = 256,
    ROOM = (int)CLASSIC_MAX_K > (int)POSITIONS ? (int)CLASSIC_MAX_K : (int)POSITIONS,
};

struct classic classic_of(const struct layer *layer)
{
    const uint64_t *g = layer->geometry;
    return (struct classic){.m = g[0],
                            .k = (unsigned)(g[1] & ((1U << CLASSIC_K_BITS) - 1)),
                            .variant = g[1] >> CLASSIC_K_BITS,
                            .extra = g[2]};
}

void classic_to(const struct classic *c, struct layer *layer)
{
    layer->geometry[0] = c->m;
    layer->geometry[1] = c->k | c->variant << CLASSIC_K_BITS;
    layer->geometry[2] = c->extra;
    layer->data_len = classic_bytes(c->m) + c->extra;
}

bool classic_check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    if (c.m < 1 || c.m > CLASSIC_MAX_M)
        return fail(err, "its number of bits is out of range");
    if (c.k < 1 || c.k > CLASSIC_MAX_K)
        return fail(err, "its number of positions is out of range");
    uint64_t bytes = classic_bytes(c.m);
    return (layer->data_len >= bytes && layer->data_len - bytes == c.extra) ||
           fail(err, "its number of bits does not fit its length");
}

bool classic_check_numbers(uint64_t m, uint64_t k, struct err *err)
{
    if (k < 1 || k > CLASSIC_MAX_K)
        return fail(err, "its number of positions is %" PRIu64 ", not from 1 to %d", k,
                    CLASSIC_MAX_K);
    return (m >= 1 && m <= CLASSIC_MAX_M) ||
           fail(err, "its number of bits is %" PRIu64 ", not from 1 to 2^45", m);
}

bool classic_given(const struct layout_spec *spec, unsigned bits, unsigned positions,
                   uint64_t max_m, struct classic *c, struct err *err)
{
    uint64_t k = 0;
    *c = (struct classic){0};
    if (!layout_number(spec, bits, max_m, &c->m, err) ||
        !layout_number(spec, positions, CLASSIC_MAX_K, &k, err))
        return false;
    c->k = (unsigned)k;
    return true;
}

void classic_begin(const struct layout_spec *spec, const struct classic *c,
                   struct layout_filter *out)
{
    layout_begin(spec, out);
    classic_to(c, &out->layer[0]);
}

/* The number of keys that set half of the bits. */
static uint64_t half_full(const struct classic *c)
{
    double n = (double)c->m * M_LN2 / c->k;
    return n >= 1 ? (uint64_t)n : 1;
}

void classic_design(const struct classic *c, const struct layout_spec *spec,
                    struct layout_filter *out)
{
    out->assumed = spec->n == 0 || spec->p <= 0;
    layout_set_design(out, spec->n != 0 ? spec->n : half_full(c),
                      spec->p > 0 ? spec->p : fmax(ldexp(1, -(int)c->k), DBL_MIN));
}

/* Relative tolerance for rounding errors of the formula; negligible for any requested FPR. */
static const double SLACK = 1e-6;

bool classic_design_for(const struct classic *c, uint64_t n, double p, struct layout_filter *out,
                        struct err *err)
{
    char real[NUM_TEXT], wanted[NUM_TEXT];
    out->assumed = n == 0;
    if (n == 0)
        n = half_full(c);
    /* The FPR is stored in the file, so it must be the same on every machine. */
    double clear = exact_exp_negative(-(double)c->k * (double)n / (double)c->m);
    double fpr = fmin(exact_power(1 - clear, c->k), 1 - DBL_EPSILON);
    fpr = fmax(DBL_MIN, fpr);
    if (p > 0 && fpr > p * (1 + SLACK))
        return fail(err,
                    "%" PRIu64 " bits with %u positions a key have an FPR of %s for %" PRIu64
                    " keys, which is more than %s",
                    c->m, c->k, num_show_least_fpr(real, fpr), n, num_show_fpr(wanted, p));
    layout_set_design(out, n, p > 0 ? p : fpr);
    return true;
}

double classic_best_m(double n, double p)
{
    return -n * log(p) / (M_LN2 * M_LN2);
}

double classic_best_k(double m, double n)
{
    return m / n * M_LN2;
}

bool classic_size(const char *program, uint64_t n, double p, uint64_t most, double *m,
                  struct err *err)
{
    char rate[NUM_TEXT];
    *m = trunc(classic_best_m((double)n, p));
    if (*m < 1)
        return fail(err, "%s cannot make a filter for so few keys at an FPR of %s", program,
                    num_show_fpr(rate, p));
    return *m <= (double)most ||
           fail(err, "%s cannot make a filter of more than %" PRIu64 " bits", program, most);
}

const struct layout_redis classic_redis = {0};

bool classic_read_bitmap(const struct layout_foreign *in, uint64_t m, struct layout_bits *bits,
                         struct err *err)
{
    *bits = (struct layout_bits){.data = in->data[0], .len = in->len[0], .order = ORDER_HIGH_FIRST};
    if (bits->len == (m + 7) / 8 + 1 && bits->data[bits->len - 1] == '\n')
        return fail(err, "redis-cli wrote a newline after it: 'head -c %" PRIu64 "' drops that",
                    bits->len - 1);
    return classic_check_bits(bits, m, err) &&
           (bits->len <= classic_bytes(m) ||
            fail(err, "it has %" PRIu64 " bytes, more than %" PRIu64 " bits take", bits->len, m));
}

bool classic_write_bitmap(const struct layout_filter *filter, const uint8_t *const *data,
                          const struct layout_sink *sink, struct err *err)
{
    uint64_t len = classic_bitmap_len(filter);
    return layout_put(sink, 0, data[0], sink->pad ? len : layout_trimmed(data[0], len),
                      ORDER_HIGH_FIRST, err);
}

uint64_t classic_bitmap_len(const struct layout_filter *filter)
{
    return (classic_of(&filter->layer[0]).m + 7) / 8;
}

bool classic_check_size(uint64_t m, uint64_t set, uint64_t end, struct err *err)
{
    static const double IMPROBABLE = 1e-9;
    return end >= m || set == 0 || (double)set * log((double)end / (double)m) > log(IMPROBABLE) ||
           fail(err,
                "all %" PRIu64 " set bits are among the first %" PRIu64 " of %" PRIu64
                ": the filter was made with fewer bits",
                set, end, m);
}

bool classic_read_sized(const struct layout_spec *spec, const struct layout_foreign *in, uint64_t m,
                        struct layout_bits *bits, struct err *err)
{
    struct err why;
    uint64_t set = 0, len = layout_trimmed(in->data[0], in->len[0]);
    for (uint64_t i = 0; i < len; i++)
        set += (unsigned)__builtin_popcount(in->data[0][i]);
    return classic_read_bitmap(in, m, bits, err) &&
           (spec->forced || classic_check_size(m, set, 8 * len, &why) ||
            fail(err, "%s ('seen import --force' imports it)", why.text));
}

bool classic_check_bits(const struct layout_bits *bits, uint64_t m, struct err *err)
{
    uint8_t word[8];
    for (uint64_t at = m / 64 * 8; at < bits->len; at += 8) {
        layout_take(bits, at, word, sizeof word);
        uint64_t w = get_le64(word);
        if (at == m / 64 * 8)
            w &= ~(uint64_t)0 << m % 64;
        if (w != 0)
            return fail(err, "bit %" PRIu64 " is set, but there are %" PRIu64 " bits",
                        at * 8 + (unsigned)__builtin_ctzll(w), m);
    }
    return true;
}

/* Keys whose positions are computed together. */
struct group {
    size_t n;
    uint64_t position[ROOM];
};

static void locate(const struct layer *layer, struct hashes keys, size_t n, struct group *g)
{
    g->n = n;
    layer->kind->layout->positions(layer, keys, n, g->position);
}

static void locate_next(const struct layer *layer, unsigned k, struct hashes keys, size_t left,
                        struct group *g)
{
    size_t most = k < POSITIONS ? POSITIONS / k : 1;
    locate(layer, keys, left < most ? left : most, g);
}

/* Smaller filters stay in the cache, and fetching would only cost time. */
enum { CACHED = 1 << 18 };

AHEAD_INLINE void fetch(const uint8_t *data, const uint64_t *position, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ahead_fetch(data + position[i] / 8);
}

AHEAD_INLINE void fetch_to_write(const uint8_t *data, const uint64_t *position, size_t n)
{
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(data + position[i] / 8, 1);
}

static bool all_set(const uint8_t *data, const uint64_t *position, size_t n)
{
    size_t i = 0;
    while (i < n && (data[position[i] / 8] >> position[i] % 8 & 1) != 0)
        i++;
    return i == n;
}

/* Positions that are read first. For an absent key, one of them is mostly clear. The others are
 * fetched only if the first ones are all set. */
enum { FIRST = 3 };

static void query_group(const struct group *g, const uint8_t *data, unsigned k, size_t first,
                        uint64_t *present)
{
    uint16_t left[POSITIONS];
    size_t n_left = 0;
    for (size_t i = 0; i < g->n; i++) {
        const uint64_t *position = g->position + i * k;
        left[n_left] = (uint16_t)i;
        if (!all_set(data, position, FIRST))
            continue;
        fetch(data, position + FIRST, k - FIRST);
        n_left++;
    }
    for (size_t i = 0; i < n_left; i++) {
        size_t key = first + left[i];
        if (all_set(data, g->position + left[i] * k + FIRST, k - FIRST))
            present[key / 64] |= (uint64_t)1 << key % 64;
    }
}

void classic_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                   uint64_t *present)
{
    struct classic c = classic_of(layer);
    struct group g;
    for (size_t at = 0; at < n; at += g.n) {
        locate_next(layer, c.k, hashes_from(keys, at), n - at, &g);
        if (layer->data_len > CACHED && c.k > FIRST) {
            for (size_t i = 0; i < g.n; i++)
                fetch(data, g.position + i * c.k, FIRST);
            query_group(&g, data, c.k, at, present);
            continue;
        }
        for (size_t i = 0; i < g.n; i++)
            present[(at + i) / 64] |= (uint64_t)all_set(data, g.position + i * c.k, c.k)
                                      << (at + i) % 64;
    }
}

/* Sets all bits. True if all of them were set before. */
static bool set_all(uint8_t *data, const uint64_t *position, size_t n)
{
    bool had = true;
    for (size_t i = 0; i < n; i++) {
        uint8_t *byte = data + position[i] / 8, bit = (uint8_t)(1U << position[i] % 8);
        had &= (*byte & bit) != 0;
        *byte |= bit;
    }
    return had;
}

/* While the keys of a group are added, the bits of the next one are fetched. */
void classic_add(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                 uint64_t *present)
{
    struct classic c = classic_of(layer);
    struct group groups[2], *g = &groups[0], *next = &groups[1];
    bool is_large = layer->data_len > CACHED;
    locate_next(layer, c.k, keys, n, g);
    if (is_large)
        fetch_to_write(data, g->position, g->n * c.k);
    for (size_t at = 0; at < n; at += g->n, g = next, next = &groups[g == &groups[0]]) {
        size_t end = at + g->n;
        next->n = 0;
        if (end < n)
            locate_next(layer, c.k, hashes_from(keys, end), n - end, next);
        for (size_t i = 0; i < g->n; i++) {
            if (is_large && i < next->n)
                fetch_to_write(data, next->position + i * c.k, c.k);
            bool had = set_all(data, g->position + i * c.k, c.k);
            present[(at + i) / 64] |= (uint64_t)had << (at + i) % 64;
        }
    }
}

bool classic_pages(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                   bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    struct classic c = classic_of(layer);
    struct group g;
    (void)data;
    for (size_t i = 0; i < n; i++) {
        locate(layer, hashes_from(keys, i), 1, &g);
        for (unsigned j = 0; j < c.k; j++)
            if (!need(ctx, g.position[j] / PAGE_BITS))
                return false;
    }
    return true;
}

struct shape classic_shape(const struct layer *layer)
{
    return (struct shape){.m = classic_of(layer).m, .k = classic_of(layer).k};
}
