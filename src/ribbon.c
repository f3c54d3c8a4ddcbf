#include "ribbon.h"

#include <math.h>

#include "bytes.h"
#include "ribbon_build.h"
#include "ribbon_key.h"

struct ribbon ribbon_of(const struct layer *layer)
{
    return (struct ribbon){.bits = (unsigned)layer->geometry[0],
                           .entries = layer->geometry[1],
                           .columns = (unsigned)layer->geometry[2],
                           .wide = (uint32_t)layer->geometry[3]};
}

void ribbon_to(const struct ribbon *ribbon, struct layer *layer)
{
    layer->kind = &kind_ribbon;
    layer->geometry[0] = ribbon->bits;
    layer->geometry[1] = ribbon->entries;
    layer->geometry[2] = ribbon->columns;
    layer->geometry[3] = ribbon->wide;
}

/* The first r with 2^-r >= p; then a part w of the starts at r + 1 such that
 * (1 - w) 2^-r + w 2^-(r+1) = p. All of it is exact in binary floating point but the last rounding,
 * which is up. */
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

/* The FPR differs from p by a part whose standard deviation is 0.27 / sqrt(n), as measured with
 * 600,000 and 1,500,000 keys at three rates. Five of these are kept back. */
static const double RATE_SPREAD = 5 * 0.27;

void ribbon_design(uint64_t n, double p, struct ribbon *ribbon)
{
    ribbon->bits = ribbon_bits(n);
    ribbon->entries = (uint64_t)1 << ribbon->bits;
    ribbon_columns(p, &ribbon->columns, &ribbon->wide);
    if (ribbon->bits == 0 || ribbon->wide == 0)
        return;
    double less = p * (1 - RATE_SPREAD / sqrt((double)n));
    unsigned columns;
    ribbon_columns(fmax(less, ldexp(1, -(int)ribbon->columns - 1)), &columns, &ribbon->wide);
    ribbon->columns = columns;
}

/* All of it wide, that is one column more, if wide is 2^32. */
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

static uint64_t table_len(const struct ribbon *ribbon, uint64_t segments)
{
    return 8 * ribbon_words(ribbon, ribbon_narrow(ribbon, segments), segments);
}

uint64_t ribbon_block_len(const struct ribbon *ribbon, const struct ribbon_entry *e)
{
    uint64_t len = ribbon_head_len(e);
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        len += table_len(ribbon, e->segments[t]);
    return len;
}

/* Offsets in an entry. */
enum {
    ENTRY_AT = 0,
    ENTRY_SEGMENTS = 8,
    ENTRY_LISTED = 20,
    ENTRY_KEYS = 24,
    ENTRY_SEED = 28,
    ENTRY_SPLIT = 29,
    ENTRY_ZERO = 30,
};

void ribbon_get_entry(const uint8_t *from, struct ribbon_entry *e)
{
    e->at = get_le64(from + ENTRY_AT);
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        e->segments[t] = get_le32(from + ENTRY_SEGMENTS + 4 * t);
    e->listed = get_le32(from + ENTRY_LISTED);
    e->keys = get_le32(from + ENTRY_KEYS);
    e->seed = from[ENTRY_SEED];
    e->split = from[ENTRY_SPLIT] != 0;
}

void ribbon_put_entry(const struct ribbon_entry *e, uint8_t *to)
{
    put_le64(to + ENTRY_AT, e->at);
    for (unsigned t = 0; t < RIBBON_TABLES; t++)
        put_le32(to + ENTRY_SEGMENTS + 4 * t, e->segments[t]);
    put_le32(to + ENTRY_LISTED, e->listed);
    put_le32(to + ENTRY_KEYS, e->keys);
    to[ENTRY_SEED] = e->seed;
    to[ENTRY_SPLIT] = e->split;
    to[ENTRY_ZERO] = to[ENTRY_ZERO + 1] = 0;
}

static bool kind_check(const struct layer *layer, struct err *err)
{
    const uint64_t *g = layer->geometry;
    if (g[0] > RIBBON_MAX_BITS)
        return fail(err, "its number of prefix bits is out of range");
    if (g[1] < (uint64_t)1 << g[0] || g[1] > layer->data_len / RIBBON_ENTRY ||
        layer->data_len % 8 != 0)
        return fail(err, "its directory does not fit its length");
    if (g[2] < 1 || g[2] > RIBBON_MAX_COLUMNS || g[3] > UINT32_MAX ||
        (g[2] == RIBBON_MAX_COLUMNS && g[3] != 0))
        return fail(err, "its number of columns is out of range");
    return true;
}

static bool check_entry(const struct ribbon *ribbon, uint64_t blocks_len, const uint8_t *from,
                        uint64_t number)
{
    struct ribbon_entry e;
    ribbon_get_entry(from, &e);
    if (from[ENTRY_SPLIT] > 1 || from[ENTRY_ZERO] != 0 || from[ENTRY_ZERO + 1] != 0)
        return false;
    /* The two entries lie behind all prefixes and behind this one, so there are no circles. */
    if (e.split)
        return e.at >= (uint64_t)1 << ribbon->bits && e.at > number && e.at < ribbon->entries - 1;
    bool ended = false;
    for (unsigned t = 0; t < RIBBON_TABLES; t++) {
        if (e.segments[t] > RIBBON_MAX_SEGMENTS || (ended && e.segments[t] != 0))
            return false;
        ended = e.segments[t] == 0;
    }
    return e.at % 8 == 0 && e.at <= blocks_len &&
           ribbon_block_len(ribbon, &e) <= blocks_len - e.at;
}

/* Entries that lie in two pages are checked with the second one. */
static bool kind_check_page(const struct layer *layer, const uint8_t *data, uint64_t page,
                            struct err *err)
{
    struct ribbon ribbon = ribbon_of(layer);
    uint64_t directory = layer->data_len - ribbon.entries * RIBBON_ENTRY;
    uint64_t end = page * LAYER_PAGE + LAYER_PAGE;
    if (end > layer->data_len)
        end = layer->data_len;
    if (end <= directory)
        return true;
    uint64_t begin = page * LAYER_PAGE, first = 0;
    if (begin > directory)
        first = (begin - directory) / RIBBON_ENTRY;
    for (uint64_t i = first; i < (end - directory) / RIBBON_ENTRY; i++)
        if (!check_entry(&ribbon, directory, data + directory + i * RIBBON_ENTRY, i))
            return fail(err, "entry %llu of its directory is not valid", (unsigned long long)i);
    return true;
}

/* What the entries and thresholds of a filter say about it. */
struct ribbon_census {
    const struct ribbon_source *source;
    double fpr, n;
    uint64_t visited; /* entries: in a forged file one could lead to another time and again */
};

/* Starts in a table that are not bumped, in narrow and wide segments. */
struct starts {
    uint64_t all, narrow, wide;
};

static void count_bucket(struct starts *starts, uint64_t first, uint64_t last, uint64_t wide_from)
{
    if (first >= last)
        return;
    uint64_t in_narrow = wide_from <= first ? 0 : (wide_from < last ? wide_from : last) - first;
    starts->narrow += in_narrow;
    starts->wide += last - first - in_narrow;
}

static bool count_starts(const struct ribbon_source *s, uint64_t thresholds, uint64_t segments,
                         struct starts *starts)
{
    uint64_t narrow = ribbon_narrow(&s->ribbon, segments);
    enum ribbon_verdict v;
    *starts = (struct starts){.all = RIBBON_WIDTH * segments - (RIBBON_WIDTH - 1)};
    if (!ribbon_may_read(s, thresholds, ribbon_thresholds_len(segments), &v))
        return false;
    for (uint64_t first = 0; first < starts->all; first += RIBBON_BUCKET) {
        uint64_t last = first + RIBBON_BUCKET;
        uint8_t byte = s->data[thresholds + ribbon_threshold_byte(first)];
        uint64_t begin = first + ribbon_limit[ribbon_threshold(byte, first)];
        count_bucket(starts, begin, last < starts->all ? last : starts->all,
                     narrow * RIBBON_WIDTH);
    }
    return true;
}

/* The FPR of those absent keys that come to this entry. */
static double entry_fpr(const struct ribbon_source *s, const struct ribbon_entry *e, unsigned depth)
{
    double fpr = 0, reach = 1;
    uint64_t thresholds = e->at;
    for (unsigned t = 0; t < RIBBON_TABLES && e->segments[t] != 0; t++) {
        struct starts starts;
        if (!count_starts(s, thresholds, e->segments[t], &starts))
            return fpr;
        double per_start = reach / (double)starts.all;
        fpr += per_start * ldexp((double)starts.narrow + (double)starts.wide / 2,
                                 -(int)s->ribbon.columns);
        reach -= per_start * (double)(starts.narrow + starts.wide);
        thresholds += ribbon_thresholds_len(e->segments[t]);
    }
    return fpr + ldexp((double)e->listed, (int)depth - 64);
}

double ribbon_block_fpr(const struct ribbon *ribbon, const struct ribbon_entry *entry,
                        const uint8_t *block, unsigned depth)
{
    const struct ribbon_source s = {
        .ribbon = *ribbon, .data = block, .len = ribbon_block_len(ribbon, entry)};
    struct ribbon_entry e = *entry;
    e.at = 0;
    return ldexp(entry_fpr(&s, &e, depth), -(int)depth);
}

static void census_entry(struct ribbon_census *c, uint64_t number, unsigned depth)
{
    struct ribbon_entry e;
    enum ribbon_verdict v;
    if (depth > 64 || c->visited++ > c->source->ribbon.entries ||
        number >= c->source->ribbon.entries || !ribbon_read_entry(c->source, number, &e, &v))
        return;
    if (!e.split) {
        if (!ribbon_is_sane(c->source, &e))
            return;
        c->n += e.keys;
        c->fpr += ldexp(entry_fpr(c->source, &e, depth), -(int)depth);
        return;
    }
    if (e.at <= number)
        return;
    census_entry(c, e.at, depth + 1);
    census_entry(c, e.at + 1, depth + 1);
}

static struct ribbon_census census_of(const struct ribbon_source *s)
{
    struct ribbon_census c = {.source = s};
    uint64_t prefixes = (uint64_t)1 << (s->ribbon.bits & 63);
    for (uint64_t i = 0; i < prefixes; i++)
        census_entry(&c, i, s->ribbon.bits);
    return c;
}

double ribbon_layer_fpr(const struct ribbon *columns, const struct layer *layer,
                        const uint8_t *data)
{
    struct ribbon_source s = {.ribbon = ribbon_of(layer), .data = data, .len = layer->data_len};
    s.ribbon.columns = columns->columns;
    s.ribbon.wide = columns->wide;
    return census_of(&s).fpr;
}

static void kind_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                        struct census *out)
{
    const struct ribbon_source s = {
        .ribbon = ribbon_of(layer), .data = data, .len = layer->data_len};
    struct ribbon_census c = census_of(&s);
    (void)threads;
    *out = (struct census){.fpr = fmin(c.fpr, 1),
                           .n = c.n,
                           .n_low = c.n,
                           .n_high = c.n,
                           .n_exact = true};
}

static double kind_fpr_at(const struct layer *layer, double n)
{
    return n > 0 ? ribbon_fpr((unsigned)layer->geometry[2], (uint32_t)layer->geometry[3]) : 0;
}

static struct shape kind_shape(const struct layer *layer)
{
    struct ribbon ribbon = ribbon_of(layer);
    return (struct shape){.columns = ribbon.columns + ldexp(ribbon.wide, -32),
                          .partitions = (uint64_t)1 << (ribbon.bits & 63)};
}

const struct kind kind_ribbon = {
    .id = 2,
    .name = "ribbon",
    .check = kind_check,
    .query = ribbon_query,
    .pages = ribbon_pages,
    .check_page = kind_check_page,
    .build = ribbon_build,
    .census = kind_census,
    .shape = kind_shape,
    .fpr_at = kind_fpr_at,
};

uint64_t ribbon_expected_len(uint64_t n, double p)
{
    struct ribbon ribbon;
    ribbon_design(n, p, &ribbon);
    double bits = ribbon.columns + ldexp(ribbon.wide, -32), partitions = (double)ribbon.entries;
    double slots = (double)n * 1.0012 + 96 * partitions;
    return (uint64_t)(slots * (bits + 2.0 / RIBBON_BUCKET) / 8 + partitions * (RIBBON_ENTRY + 8));
}
