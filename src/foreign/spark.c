/* SPDX-License-Identifier: MIT
 * The BloomFilter of Apache Spark (org.apache.spark.util.sketch). A file has the version, k, in
 * version 2 the seed, and the number of words, each in four bytes, then the words of 64 bits, all
 * big-endian. m is 64 times the number of words.
 *
 * H is MurmurHash3 of 32 bits with a tail of Spark's own (foreign/hash.h). From h1 = H(key, seed),
 * h2 = H(key, h1) as signed numbers, position i = 1 ... k is x mod m, where
 *
 *     version 1   x = h1 + i h2 in 32 bits, inverted if it is negative
 *     version 2   x = h1 (2^31 - 1) at first; then x + h2 for each i, inverted if it is negative
 */
#include "foreign/classic.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "foreign/encode.h"
#include "foreign/hash.h"

enum { TYPE, VERSION, SEED };

static const struct layout_param params[] = {
    {"type", "string|long", NULL, "what the keys are"},
    {"version", "1|2", NULL, "of the file and of the positions"},
    {"seed", NULL, "S", "of the hash function, with version 2"},
    {0},
};

/* Strings are hashed by their bytes, as byte arrays are. */
static const uint32_t encodings[] = {ENCODE_NONE, ENCODE_INT64};

static const uint64_t MOST_WORDS = INT32_MAX;
static const double DEFAULT_FPR = 0.03;

/* The version is the variant of struct classic. */
static uint64_t header_len(uint64_t version)
{
    return version == 1 ? 12 : 16;
}

/* The result is below 2^63. */
static uint64_t turned(uint64_t x)
{
    return x >> 63 ? ~x : x;
}

static uint64_t extended(uint64_t h)
{
    return h >> 31 ? h | UINT64_MAX << 32 : h;
}

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    struct classic c = classic_of(layer);
    const struct modulus by = modulus_of(c.m);
    const uint64_t *h1 = hashes_lane(keys, 0), *h2 = hashes_lane(keys, 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = c.variant == 1 ? h1[i] : extended(h1[i]) * INT32_MAX, step = extended(h2[i]);
        for (unsigned j = 0; j < c.k; j++) {
            x = c.variant == 1 ? x + step : turned(x + step);
            *out++ = modulo(c.variant == 1 ? turned(extended(x & UINT32_MAX)) : x, by);
        }
    }
}

/* In version 2, near zero a key turns once more, which is rare: h1 is then below k. */
static uint64_t value(uint64_t variant, uint64_t h1, uint64_t h2, unsigned i)
{
    uint64_t step = extended(h2 & UINT32_MAX);
    if (variant == 1)
        return turned(extended((h1 + (i + 1) * h2) & UINT32_MAX));
    return turned(turned(extended(h1 & UINT32_MAX) * INT32_MAX + step) + i * step);
}

static double excess(const struct layer *layer, double set)
{
    bool first = classic_of(layer).variant == 1;
    return classic_excess(layer, set, (struct classic_steps){first ? 32 : 0, first});
}

/* Version 1 gives positions below 2^31. */
static uint64_t reach(const struct layer *layer)
{
    struct classic c = classic_of(layer);
    return c.variant == 1 && c.m > 0x80000000 ? 0x80000000 : c.m;
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    if (c.variant < 1 || c.variant > 2 || c.m % 64 != 0 || c.m / 64 > MOST_WORDS || c.extra != 0 ||
        layer->geometry[3] != 0)
        return fail(err, "its geometry is not one of Spark's");
    return classic_check(layer, err);
}

/* A number of 32 bits, with or without a sign. */
static bool seed_of(const struct layout_spec *spec, uint64_t *seed, struct err *err)
{
    const char *text = spec->value[SEED];
    char *end = NULL;
    *seed = 0;
    if (text == NULL)
        return true;
    long long n = strtoll(text, &end, 10);
    *seed = (uint32_t)n;
    return (end != text && *end == '\0' && n >= INT32_MIN && n <= UINT32_MAX) ||
           fail(err, "layout spark: seed is '%s', but must be an integer of 32 bits", text);
}

/* optimalNumOfBits and optimalNumOfHashFunctions: doubles, in Java's order. */
static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    uint64_t seed;
    double bits;
    p = p > 0 ? p : DEFAULT_FPR;
    if (!seed_of(spec, &seed, err) || !classic_size("Spark", n, p, 64 * MOST_WORDS, &bits, err))
        return false;
    struct classic c = {.m = ((uint64_t)bits + 63) / 64 * 64,
                        .k = (unsigned)fmax(1, floor(classic_best_k(bits, (double)n) + 0.5)),
                        .variant = layout_choice(spec, VERSION) + 1};
    if (c.variant == 1 && seed != 0)
        return fail(err, "layout spark: seed=S needs version=2");
    classic_begin(spec, &c, out);
    out->seed = seed;
    layout_set_design(out, n, p);
    return true;
}

/* ---- The file. */

struct spark_file {
    struct classic c;
    uint64_t seed, len; /* len: of the whole file */
};

/* Needs the first bytes of a file only. */
static bool parse(const uint8_t *p, uint64_t len, struct spark_file *f, struct err *err)
{
    if (len < 4 || len < header_len(get_be32(p)))
        return fail(err, "it ends within its header");
    uint64_t version = get_be32(p);
    if (version == 0x41414141) { /* AAAA, the base64 of three zero bytes */
        fail(err, "it is base64, which 'seen import --base64' reads");
        err->helps = true;
        return false;
    }
    if (version < 1 || version > 2)
        return fail(err, "its version is %" PRId32 "; known are 1 and 2", (int32_t)version);
    uint64_t header = header_len(version), words = get_be32(p + header - 4);
    *f = (struct spark_file){.seed = version == 1 ? 0 : get_be32(p + 8), .len = header + 8 * words};
    if (words == 0 || words > MOST_WORDS)
        return fail(err, "its number of words is %" PRId32, (int32_t)words);
    if (!classic_check_numbers(64 * words, get_be32(p + 4), err))
        return false;
    f->c = (struct classic){.m = 64 * words, .k = get_be32(p + 4), .variant = version};
    return true;
}

static bool recognize(const struct layout_foreign *in)
{
    struct spark_file f;
    struct err ignored;
    return parse(in->data[0], in->len[0], &f, &ignored) && in->len[0] == f.len;
}

static uint64_t claims(const uint8_t *head, uint64_t len)
{
    struct spark_file f;
    struct err ignored;
    return parse(head, len, &f, &ignored) ? f.len : 0;
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    struct spark_file f;
    uint64_t seed, len = in->len[0];
    if (!seed_of(spec, &seed, err) || !parse(in->data[0], len, &f, err))
        return false;
    if (spec->value[VERSION] != NULL && layout_choice(spec, VERSION) + 1 != f.c.variant)
        return fail(err, "its version is %" PRIu64 ": leave out version=", f.c.variant);
    if (spec->value[SEED] != NULL && seed != f.seed)
        return fail(err, "its seed is %" PRId32 ": leave out seed=", (int32_t)f.seed);
    if (len != f.len)
        return fail(err, "it has %" PRIu64 " bytes, but %" PRIu64 " bits make %" PRIu64, len, f.c.m,
                    f.len);
    classic_begin(spec, &f.c, out);
    out->seed = f.seed;
    classic_design(&f.c, spec, out);
    uint64_t header = header_len(f.c.variant);
    bits[0] = (struct layout_bits){
        .data = in->data[0] + header, .len = len - header, .order = ORDER_BIG_WORDS};
    return true;
}

static bool write_file(const struct layout_filter *filter, const uint8_t *const *data,
                       const struct layout_sink *sink, struct err *err)
{
    struct classic c = classic_of(&filter->layer[0]);
    size_t len = (size_t)header_len(c.variant);
    uint8_t header[16];
    put_be32(header, (uint32_t)c.variant);
    put_be32(header + 4, c.k);
    put_be32(header + 8, (uint32_t)filter->seed);
    put_be32(header + len - 4, (uint32_t)(c.m / 64));
    return sink->write(sink->ctx, 0, header, len, err) &&
           layout_put(sink, 0, data[0], c.m / 8, ORDER_BIG_WORDS, err);
}

static uint64_t file_len(const struct layout_filter *filter)
{
    return header_len(classic_of(&filter->layer[0]).variant) + filter->layer[0].data_len;
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    uint64_t version = classic_of(&filter->layer[0]).variant;
    layout_show_choice(spec, room, &params[VERSION], version == 1 ? 0 : 1);
    if (filter->seed != 0)
        layout_show_number(spec, room, &params[SEED], filter->seed);
}

static const struct layout layout = {
    .summary = "Apache Spark's BloomFilter (Java), as writeTo writes it",
    .params = params,
    .encodings = encodings,
    .hash = &hash_murmur3_spark,
    .design = design,
    .read = read_file,
    .claims = claims,
    .write = write_file,
    .file_len = file_len,
    .recognize = recognize,
    .show = show,
    .positions = positions,
    .value = value,
    .excess = excess,
    .factor = CLASSIC_FACTOR,
    .reach = reach,
};

const struct kind kind_spark = {CLASSIC_KIND(23, "spark", 2), .sampled_fpr = classic_double_hashed,
                                .uniting = &classic_uniting};
