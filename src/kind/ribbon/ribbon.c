/* SPDX-License-Identifier: MIT */
#include "kind/ribbon/ribbon.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "kind/ribbon/key.h"

struct ribbon ribbon_of(const struct layer *layer)
{
    return (struct ribbon){.bits = (unsigned)layer->geometry[0],
                           .columns = (unsigned)layer->geometry[2],
                           .wide = (uint32_t)layer->geometry[3]};
}

void ribbon_to(const struct ribbon *ribbon, struct layer *layer)
{
    layer->kind = &kind_ribbon;
    layer->geometry[0] = ribbon->bits;
    layer->geometry[1] = (uint64_t)1 << ribbon->bits;
    layer->geometry[2] = ribbon->columns;
    layer->geometry[3] = ribbon->wide;
}

/* Finds the largest r with 2^-r >= p. Then computes w, the part of the starts with r + 1 columns,
 * such that (1 - w) 2^-r + w 2^-(r+1) = p. All steps are exact in binary floating point except the
 * last, which rounds up. */
void ribbon_columns(double p, unsigned *columns, uint32_t *wide)
{
    unsigned r = 1;
    while (r < RIBBON_MAX_COLUMNS && ldexp(p, (int)r + 1) <= 1)
        r++;
    double part = 2 * (1 - ldexp(p, (int)r));
    *columns = r;
    *wide = part > 0 ? (uint32_t)fmin(ceil(ldexp(part, 32)), UINT32_MAX) : 0;
}

double ribbon_fpr(unsigned columns, uint32_t wide)
{
    return ldexp(1 - ldexp(wide, -33), -(int)columns);
}

unsigned ribbon_bits(uint64_t n)
{
    unsigned bits = 0;
    while (bits < RIBBON_MAX_BITS && n > (uint64_t)RIBBON_PARTITION << bits)
        bits++;
    return bits;
}

/* Margin for the random excess of the FPR over p, as a part of p: five standard deviations. One is
 * 0.27 / sqrt(n), measured with 600,000 and 1,500,000 keys at three FPRs. */
static const double RATE_SPREAD = 5 * 0.27;

void ribbon_design(uint64_t n, double p, struct ribbon *ribbon)
{
    ribbon->bits = ribbon_bits(n);
    ribbon_columns(p, &ribbon->columns, &ribbon->wide);
    if (ribbon->bits == 0 || ribbon->wide == 0)
        return;
    double less = p * (1 - RATE_SPREAD / sqrt((double)n));
    unsigned columns;
    ribbon_columns(fmax(less, ldexp(1, -(int)ribbon->columns - 1)), &columns, &ribbon->wide);
    ribbon->columns = columns;
}

/* With `wide` 2^32, all segments are wide: that is one more column. */
static struct ribbon with_wide(const struct ribbon *ribbon, uint64_t wide)
{
    struct ribbon r = *ribbon;
    r.columns += (unsigned)(wide >> 32);
    r.wide = (uint32_t)wide;
    return r;
}

void ribbon_keep_rate(struct ribbon *ribbon, double p,
                      double (*fpr)(void *ctx, const struct ribbon *ribbon), void *ctx)
{
    uint64_t low = ribbon->wide, high = (uint64_t)1 << 32;
    if (low == 0 || fpr(ctx, ribbon) <= p)
        return;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        struct ribbon r = with_wide(ribbon, middle);
        if (fpr(ctx, &r) <= p)
            high = middle;
        else
            low = middle;
    }
    *ribbon = with_wide(ribbon, high);
}

uint64_t ribbon_narrow(const struct ribbon *ribbon, uint64_t segments)
{
    if (segments == 0 || ribbon->wide == 0)
        return segments;
    uint64_t starts = RIBBON_WIDTH * segments - (RIBBON_WIDTH - 1);
    return (((uint64_t)1 << 32) - ribbon->wide) * starts >> 38;
}

uint64_t ribbon_words(const struct ribbon *ribbon, uint64_t narrow, uint64_t segments)
{
    return segments * ribbon->columns + (segments > narrow ? segments - narrow : 0);
}

uint64_t ribbon_head_len(const struct ribbon_entry *e)
{
    uint64_t thresholds = 0;
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        thresholds += ribbon_thresholds_len(e->segments[t]);
    return (thresholds + 7) / 8 * 8 + (uint64_t)8 * e->listed;
}

uint64_t ribbon_block_len(const struct ribbon *ribbon, const struct ribbon_entry *e)
{
    uint64_t len = ribbon_head_len(e);
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        len += 8 * ribbon_words(ribbon, ribbon_narrow(ribbon, e->segments[t]), e->segments[t]);
    return len;
}

/* Offsets in an entry. */
enum {
    ENTRY_AT = 0,
    ENTRY_SEGMENTS = 8,
    ENTRY_LISTED = 20,
    ENTRY_KEYS = 24,
    ENTRY_SEED = 28,
    ENTRY_ZERO = 29,
};

void ribbon_get_entry(const uint8_t *from, struct ribbon_entry *e)
{
    e->at = get_le64(from + ENTRY_AT);
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        e->segments[t] = get_le32(from + ENTRY_SEGMENTS + 4 * t);
    e->listed = get_le32(from + ENTRY_LISTED);
    e->keys = get_le32(from + ENTRY_KEYS);
    e->seed = from[ENTRY_SEED];
}

void ribbon_put_entry(const struct ribbon_entry *e, uint8_t *to)
{
    put_le64(to + ENTRY_AT, e->at);
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        put_le32(to + ENTRY_SEGMENTS + 4 * t, e->segments[t]);
    put_le32(to + ENTRY_LISTED, e->listed);
    put_le32(to + ENTRY_KEYS, e->keys);
    to[ENTRY_SEED] = e->seed;
    memset(to + ENTRY_ZERO, 0, RIBBON_ENTRY - ENTRY_ZERO);
}

static bool check(const struct layer *layer, struct err *err)
{
    const uint64_t *g = layer->geometry;
    if (g[0] > RIBBON_MAX_BITS)
        return fail(err, "its number of prefix bits is out of range");
    if (g[1] != (uint64_t)1 << g[0] || g[1] > layer->data_len / RIBBON_ENTRY ||
        layer->data_len % 8 != 0)
        return fail(err, "its directory does not fit its length");
    if (g[2] < 1 || g[2] > RIBBON_MAX_COLUMNS || g[3] > UINT32_MAX ||
        (g[2] == RIBBON_MAX_COLUMNS && g[3] != 0))
        return fail(err, "its number of columns is out of range");
    return true;
}

static bool check_entry(const struct ribbon *ribbon, uint64_t blocks_len, const uint8_t *from)
{
    struct ribbon_entry e;
    ribbon_get_entry(from, &e);
    if (!bytes_zero(from + ENTRY_ZERO, RIBBON_ENTRY - ENTRY_ZERO))
        return false;
    bool ended = false;
    for (unsigned t = 0; t < RIBBON_TABLES; t++) {
        if (e.segments[t] > RIBBON_MAX_SEGMENTS || (ended && e.segments[t] != 0))
            return false;
        ended = e.segments[t] == 0;
    }
    return e.at % 8 == 0 && e.at <= blocks_len && ribbon_block_len(ribbon, &e) <= blocks_len - e.at;
}

/* An entry that crosses a page boundary is checked with the second page. */
static bool check_page(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err)
{
    struct ribbon ribbon = ribbon_of(layer);
    uint64_t directory = layer->data_len - ribbon_directory_len(&ribbon);
    uint64_t end = page * LAYER_PAGE + LAYER_PAGE;
    if (end > layer->data_len)
        end = layer->data_len;
    if (end <= directory)
        return true;
    uint64_t begin = page * LAYER_PAGE, first = 0;
    if (begin > directory)
        first = (begin - directory) / RIBBON_ENTRY;
    for (uint64_t i = first; i < (end - directory) / RIBBON_ENTRY; i++)
        if (!check_entry(&ribbon, directory, data + directory + i * RIBBON_ENTRY))
            return fail(err, "entry %llu of its directory is not valid", (unsigned long long)i);
    return true;
}

static double fpr_at(const struct layer *layer, double n)
{
    return n > 0 ? ribbon_fpr((unsigned)layer->geometry[2], (uint32_t)layer->geometry[3]) : 0;
}

static struct shape shape_of(const struct layer *layer)
{
    struct ribbon ribbon = ribbon_of(layer);
    return (struct shape){.columns = ribbon.columns + ldexp(ribbon.wide, -32),
                          .partitions = (uint64_t)1 << (ribbon.bits & 63)};
}

uint64_t ribbon_expected_len(uint64_t n, double p)
{
    struct ribbon ribbon;
    ribbon_design(n, p, &ribbon);
    double bits = ribbon.columns + ldexp(ribbon.wide, -32), partitions = ldexp(1, (int)ribbon.bits);
    double slots = (double)n * 1.0012 + 96 * partitions;
    return (uint64_t)(slots * (bits + 2.0 / RIBBON_BUCKET) / 8 + partitions * (RIBBON_ENTRY + 8));
}

/* ---- The bumped ribbon filter as a kind of layer. */

static bool size(uint64_t n, double p, struct layer *out)
{
    struct ribbon ribbon;
    ribbon_design(n, p, &ribbon);
    ribbon_to(&ribbon, out);
    out->data_len = ribbon_expected_len(n, p);
    return true;
}

/* Measured on one machine; includes reading and hashing of short keys: 50 at 1e7 keys, 57 at 1e8
 * with scratch, 75 at 1e9. */
static const double BUILD_TIME = 60;

static void cost(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out)
{
    struct ribbon ribbon = ribbon_of(layer);
    unsigned k = ribbon.columns + (ribbon.wide > 0);
    /* Two words of 8 bytes per column, beginning at any word of a cache line. */
    unsigned whole_lines = (16 * k + 63 - 8) / 64;
    *out = (struct cost){.bits = 8 * layer->data_len,
                         .k = k,
                         .lines = 1 + (double)whole_lines,
                         .build_memory = layer_keys_memory(n, file_len),
                         .build_time = BUILD_TIME};
}

static void drop(const struct layer *layer, double p, struct layer *out)
{
    struct ribbon ribbon = ribbon_of(layer);
    ribbon_columns(p, &ribbon.columns, &ribbon.wide);
    *out = *layer;
    ribbon_to(&ribbon, out);
}

static const struct kind_sizing sizing = {
    .hash_share = 0.01,
    .size = size,
    .fpr_min = RIBBON_MIN_FPR,
    .fpr_max = RIBBON_MAX_FPR,
    .len_max = UINT64_MAX,
    .cost = cost,
};

static const struct kind_building building = {
    .build = ribbon_build,
    .memory = ribbon_build_memory,
    .part = RIBBON_LARGEST,
};

static const struct kind_dropping dropping = {drop, ribbon_drop};

const struct kind kind_ribbon = {
    .id = 2,
    .name = "compact",
    .lanes = 1,
    .variants = &ribbon_variants,
    .sizing = &sizing,
    .building = &building,
    .dropping = &dropping,
    .check = check,
    .query = ribbon_query,
    .pages = ribbon_pages,
    .check_page = check_page,
    .census = ribbon_census,
    .shape = shape_of,
    .fpr_at = fpr_at,
};
