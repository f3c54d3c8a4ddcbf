#include "kind/parquet/parquet.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/ahead.h"
#include "base/bytes.h"
#include "keys/encode.h"
#include "keys/hash_foreign.h"
#include "kind/layout.h"

/* ---- Queries and insertion. */

static const uint32_t salt[PARQUET_WORDS] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                             0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

/* Smaller filters stay in the cache, and fetching would only cost time. */
enum { CACHED = 1 << 18 };

/* Blocks are fetched this many keys ahead, as in Bloom layers (bloom/probe.h). */
enum { AHEAD = 32 };

static uint64_t block_of(uint64_t blocks, uint64_t hash)
{
    return (hash >> 32) * blocks >> 32;
}

static uint32_t bit_of_word(uint64_t hash, unsigned w)
{
    return (uint32_t)1 << ((uint32_t)hash * salt[w] >> 27);
}

static inline bool has_bits(const uint8_t *block, uint64_t hash)
{
    uint32_t missing = 0;
    for (unsigned w = 0; w < PARQUET_WORDS; w++)
        missing |= ~get_le32(block + 4 * w) & bit_of_word(hash, w);
    return missing == 0;
}

AHEAD_INLINE void fetch_blocks(uint64_t blocks, const uint8_t *data, const uint64_t *hash, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ahead_fetch(data + block_of(blocks, hash[i]) * PARQUET_BLOCK);
}

static void prefetch(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n)
{
    fetch_blocks(parquet_blocks(layer), data, keys.lane0, n);
}

/* Fetches the blocks of the first keys. Returns the number of keys whose blocks are to be fetched:
 * all, or none of a layer that stays in the cache. */
static size_t fetch_first(const struct layer *layer, const uint8_t *data, struct hashes keys,
                          size_t n)
{
    size_t fetched = layer->data_len > CACHED ? n : 0;
    fetch_blocks(parquet_blocks(layer), data, keys.lane0, fetched < AHEAD ? fetched : AHEAD);
    return fetched;
}

static void query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present)
{
    uint64_t blocks = parquet_blocks(layer);
    size_t fetched = fetch_first(layer, data, keys, n);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < fetched)
            fetch_blocks(blocks, data, keys.lane0 + i + AHEAD, 1);
        const uint8_t *block = data + block_of(blocks, keys.lane0[i]) * PARQUET_BLOCK;
        present[i / 64] |= (uint64_t)has_bits(block, keys.lane0[i]) << i % 64;
    }
}

static void add(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                uint64_t *present)
{
    uint64_t blocks = parquet_blocks(layer);
    size_t fetched = fetch_first(layer, data, keys, n);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < fetched)
            fetch_blocks(blocks, data, keys.lane0 + i + AHEAD, 1);
        uint8_t *block = data + block_of(blocks, keys.lane0[i]) * PARQUET_BLOCK;
        uint32_t missing = 0;
        for (unsigned w = 0; w < PARQUET_WORDS; w++) {
            uint32_t word = get_le32(block + 4 * w), bit = bit_of_word(keys.lane0[i], w);
            missing |= ~word & bit;
            put_le32(block + 4 * w, word | bit);
        }
        present[i / 64] |= (uint64_t)(missing == 0) << i % 64;
    }
}

enum { BLOCKS_OF_PAGE = LAYER_PAGE / PARQUET_BLOCK };

static void find_pages(const struct layer *layer, struct hashes keys, size_t n, uint64_t *page)
{
    uint64_t blocks = parquet_blocks(layer);
    for (size_t i = 0; i < n; i++)
        page[i] = block_of(blocks, keys.lane0[i]) / BLOCKS_OF_PAGE;
}

/* ---- Parquet's split-block Bloom filter as a kind of layer and as a layout. */

enum { TYPE, HEADER };

/* Choices of HEADER, and values of geometry[1]. */
enum { WITH_HEADER = 0, BARE = 1 };

static const struct layout_param params[] = {
    {"type", "string|int32|int64", NULL, "the column's physical type"},
    {"header", "yes|no", NULL, "whether the header that Parquet has before the bits is there"},
    {0},
};

static const uint32_t encodings[] = {ENCODE_NONE, ENCODE_INT32, ENCODE_INT64};

static bool check(const struct layer *layer, struct err *err)
{
    const uint64_t *g = layer->geometry;
    if (g[0] < 1 || g[0] > PARQUET_MAX_BLOCKS)
        return fail(err, "its number of blocks is out of range");
    if (layer->data_len != g[0] * PARQUET_BLOCK)
        return fail(err, "its number of blocks does not fit its length");
    if (g[1] > BARE || g[2] != 0 || g[3] != 0)
        return fail(err, "its geometry has an unknown field");
    return g[1] == BARE || layer->data_len <= INT32_MAX ||
           fail(err, "it has more bits than a header can say");
}

static struct shape shape_of(const struct layer *layer)
{
    return (struct shape){.pages = layer_pages(layer), .k = PARQUET_WORDS};
}

static bool unite(const struct layer *a, const struct layer *b, struct layer *out)
{
    uint64_t x = parquet_blocks(a), y = parquet_blocks(b);
    *out = x <= y ? *a : *b;
    return x % y == 0 || y % x == 0;
}

/* Folds by halves only, so that a power of two stays one: other readers require it. */
static void fold(const struct layer *layer, double n, double p, uint64_t above, struct layer *out)
{
    struct layer half = *layer;
    *out = *layer;
    while (parquet_blocks(out) % 2 == 0) {
        parquet_resize(&half, parquet_blocks(out) / 2);
        if (half.data_len <= above || parquet_fpr_at(&half, n) > p)
            break;
        *out = half;
    }
}

/* ---- The layout. */

static void describe(const struct layout_spec *spec, uint64_t blocks, struct layout_filter *out)
{
    layout_begin(spec, out);
    out->layer[0].geometry[1] = layout_choice(spec, HEADER);
    parquet_resize(&out->layer[0], blocks);
}

/* As Arrow's OptimalNumOfBytes does: in doubles, from left to right. If n keys at p need more than
 * Arrow's largest filter, Arrow makes the largest. The design FPR is then that of n keys in it. */
static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    static const uint64_t MOST_BITS = (uint64_t)1 << 30;
    (void)err;
    p = p > 0 ? p : LAYER_FPR;
    double wanted = -8.0 * (double)n / log(1 - pow(p, 1.0 / 8));
    bool too_many = !(wanted <= (double)MOST_BITS);
    uint64_t bits = too_many ? MOST_BITS : PARQUET_BITS;
    while (!too_many && bits < (uint64_t)wanted)
        bits *= 2;
    describe(spec, bits / PARQUET_BITS, out);
    if (too_many)
        p = fmin(fmax(p, parquet_fpr_at(&out->layer[0], (double)n)), 1 - DBL_EPSILON);
    layout_set_design(out, n > 0 ? n : 1, p);
    return true;
}

static bool recognize(const struct layout_foreign *in)
{
    struct err ignored;
    uint64_t bytes, header = parquet_parse(in->data[0], in->len[0], &bytes, &ignored);
    return header > 0 && in->len[0] - header == bytes;
}

/* A file states neither capacity nor FPR: takes them from the spec, or for half of the bits set. */
static void assume_design(const struct layout_spec *spec, struct layout_filter *out)
{
    const struct layer *layer = &out->layer[0];
    double half = floor(parquet_half(parquet_blocks(layer)));
    out->assumed = spec->n == 0 || spec->p <= 0;
    layout_set_design(out, spec->n > 0 ? spec->n : (uint64_t)half,
                      spec->p > 0 ? spec->p : parquet_fpr_at(layer, half));
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    uint64_t header = 0, len = in->len[0], bytes = len;
    if (layout_choice(spec, HEADER) == WITH_HEADER) {
        header = parquet_parse(in->data[0], len, &bytes, err);
        if (header == 0)
            return false;
        if (len - header < bytes)
            return fail(
                err, "it is cut short: its header says %" PRIu64 " bytes, and %" PRIu64 " follow",
                bytes, len - header);
        if (len - header > bytes)
            return fail(err, "%" PRIu64 " bytes follow its bits", len - header - bytes);
    }
    if (bytes == 0 || bytes % PARQUET_BLOCK != 0 || bytes / PARQUET_BLOCK > PARQUET_MAX_BLOCKS)
        return fail(err, "its length is %" PRIu64 " bytes, not 1 to 2^31 - 1 blocks of %d", bytes,
                    PARQUET_BLOCK);
    describe(spec, bytes / PARQUET_BLOCK, out);
    assume_design(spec, out);
    bits[0] =
        (struct layout_bits){.data = in->data[0] + header, .len = bytes, .order = ORDER_LOW_FIRST};
    return true;
}

static uint64_t claims(const struct layout_spec *spec, const uint8_t *head, uint64_t len)
{
    struct err ignored;
    uint64_t bytes, header;
    if (layout_choice(spec, HEADER) != WITH_HEADER)
        return PARQUET_MAX_BLOCKS * PARQUET_BLOCK;
    header = parquet_parse(head, len, &bytes, &ignored);
    return header > 0 ? header + bytes : 0;
}

static bool write_file(const struct layout_filter *filter, const uint8_t *const *data,
                       const struct layout_sink *sink, struct err *err)
{
    const struct layer *layer = &filter->layer[0];
    uint8_t header[PARQUET_HEADER];
    if (layer->geometry[1] == WITH_HEADER) {
        size_t len = parquet_header((uint32_t)layer->data_len, header);
        if (!sink->write(sink->ctx, 0, header, len, err))
            return false;
    }
    return layout_put(sink, 0, data[0], layer->data_len, ORDER_LOW_FIRST, err);
}

static uint64_t file_len(const struct layout_filter *filter)
{
    const struct layer *layer = &filter->layer[0];
    uint8_t header[PARQUET_HEADER];
    bool has_header = layer->geometry[1] == WITH_HEADER;
    return (has_header ? parquet_header((uint32_t)layer->data_len, header) : 0) + layer->data_len;
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    layout_show_choice(spec, room, &params[HEADER], (unsigned)filter->layer[0].geometry[1]);
}

static void facts(const struct layout_filter *filter,
                  void (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
    char text[80];
    uint64_t blocks = parquet_blocks(&filter->layer[0]);
    bool is_power = (blocks & (blocks - 1)) == 0;
    snprintf(text, sizeof text, "%" PRIu64 "%s", blocks,
             is_power ? "" : ", no power of two: Arrow refuses it");
    each(ctx, "blocks", text);
}

static const struct layout layout = {
    .summary = "Parquet's split-block Bloom filter: a column chunk's header and bits",
    .params = params,
    .encodings = encodings,
    .hash = &hash_xxh64,
    .design = design,
    .read = read_file,
    .claims = claims,
    .write = write_file,
    .file_len = file_len,
    .recognize = recognize,
    .show = show,
    .facts = facts,
};

static const struct kind_uniting uniting = {.unite = unite, .fold = fold};

const struct kind kind_parquet = {
    .id = 22,
    .name = "parquet",
    .lanes = 1,
    .layout = &layout,
    .table = &parquet_table,
    .uniting = &uniting,
    .check = check,
    .query = query,
    .prefetch = prefetch,
    .add = add,
    .page = find_pages,
    .census = table_census,
    .shape = shape_of,
    .fpr_at = parquet_fpr_at,
};
