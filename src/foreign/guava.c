/* SPDX-License-Identifier: MIT
 * Guava's BloomFilter (com.google.common.hash, release 31.1). A file has a byte for the strategy, a
 * byte for k, the number of words in four bytes, then the words of 64 bits, all big-endian. m is
 * always 64 times the number of words. The file does not state capacity, FPR or funnel. As Java
 * serializes a filter (foreign/java.h), the funnel is stated, too; one of the program's own is kept
 * behind the bits, with the strategy.
 *
 * From the two halves h1, h2 of a key's 128-bit MurmurHash3, position i is
 *
 *     MURMUR128_MITZ_64   ((h1 + i h2) mod 2^63) mod m, i = 0 ... k-1
 *     MURMUR128_MITZ_32   x mod m, with x = low half of h1 + i (high half of h1) mod 2^32,
 *                         inverted if its top bit is set, i = 1 ... k
 *
 * Kirsch and Mitzenmacher, Less Hashing, Same Performance, 2006.
 */
#include "foreign/classic.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "foreign/encode.h"
#include "foreign/hash.h"
#include "foreign/java.h"

enum { FUNNEL, STRATEGY, K_RULE, SERIALIZED };

static const struct layout_param params[] = {
    {"funnel", "utf8|utf16|bytes|int|long", NULL, "what turns keys into bytes"},
    {"strategy", "64|32", NULL, "MURMUR128_MITZ_64 or MURMUR128_MITZ_32"},
    {"k", "classic|new", NULL,
     "how a new filter's k is computed: as releases up to 33.3 do, or newer sources"},
    {"serialized", "no|yes", NULL,
     "whether export writes what Java's serialization does; else as it was imported"},
    {0},
};

static const uint32_t encodings[] = {ENCODE_UTF8, ENCODE_UTF16, ENCODE_NONE, ENCODE_INT32,
                                     ENCODE_INT64};

enum {
    HEADER = 6,
    /* The variants of struct classic, which are also the strategy's number in a file. */
    MITZ_32 = 0,
    MITZ_64 = 1,
    MAX_K = 255,
    MOST_TAIL = 1 << 16, /* of a serialized filter in a pipe */
};

static const uint64_t MAX_WORDS = INT32_MAX;

/* The FPR of BloomFilter.create(funnel, n). */
static const double DEFAULT_FPR = 0.03;

static void mitz_64(const struct classic *c, struct hashes keys, size_t n, uint64_t *out)
{
    const struct modulus by = modulus_of(c->m);
    const uint64_t *h1 = hashes_lane(keys, 0), *h2 = hashes_lane(keys, 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t h = h1[i];
        for (unsigned j = 0; j < c->k; j++, h += h2[i])
            *out++ = modulo(h & INT64_MAX, by);
    }
}

static void mitz_32(const struct classic *c, struct hashes keys, size_t n, uint64_t *out)
{
    const struct modulus by = modulus_of(c->m);
    const uint64_t *h1 = hashes_lane(keys, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)h1[i], step = (uint32_t)(h1[i] >> 32);
        for (unsigned j = 0; j < c->k; j++) {
            h += step;
            *out++ = modulo(h > INT32_MAX ? ~h : h, by);
        }
    }
}

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    struct classic c = classic_of(layer);
    if (c.variant == MITZ_64)
        mitz_64(&c, keys, n, out);
    else
        mitz_32(&c, keys, n, out);
}

static uint64_t value(uint64_t variant, uint64_t h1, uint64_t h2, unsigned i)
{
    if (variant == MITZ_64)
        return (h1 + i * h2) & INT64_MAX;
    uint32_t h = (uint32_t)h1 + (i + 1) * (uint32_t)(h1 >> 32);
    return h > INT32_MAX ? ~h : h;
}

static double excess(const struct layer *layer, double set)
{
    bool is_64 = classic_of(layer).variant == MITZ_64;
    return classic_excess(layer, set, (struct classic_steps){is_64 ? 63 : 32, !is_64});
}

/* The 32-bit strategy gives positions below 2^31. */
static uint64_t reach(const struct layer *layer)
{
    struct classic c = classic_of(layer);
    return c.variant == MITZ_32 && c.m > 0x80000000 ? 0x80000000 : c.m;
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    if (c.variant > MITZ_64)
        return fail(err, "its strategy is unknown");
    if (c.m % 64 != 0 || c.m / 64 > MAX_WORDS || c.k > MAX_K || layer->geometry[3] > 1 ||
        (layer->geometry[3] == 0 && c.extra != 0))
        return fail(err, "its geometry is not one of Guava's");
    return classic_check(layer, err);
}

static uint64_t variant_of(const struct layout_spec *spec)
{
    return layout_choice(spec, STRATEGY) == 0 ? MITZ_64 : MITZ_32;
}

/* BloomFilter.create, optimalNumOfBits, optimalNumOfHashFunctions: doubles, in Java's order. */
static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    double bits;
    p = p > 0 ? p : DEFAULT_FPR;
    if (!classic_size("Guava", n, p, 64 * MAX_WORDS, &bits, err))
        return false;
    double k = layout_choice(spec, K_RULE) == 0 ? floor(classic_best_k(bits, (double)n) + 0.5)
                                                : floor(-log(p) / M_LN2 + 0.5);
    if (k > MAX_K)
        return fail(err, "Guava cannot make a filter with more than %d positions a key", MAX_K);
    struct classic c = {.m = ((uint64_t)bits + 63) / 64 * 64,
                        .k = (unsigned)fmax(1, k),
                        .variant = variant_of(spec)};
    classic_begin(spec, &c, out);
    out->layer[0].geometry[3] = layout_choice(spec, SERIALIZED);
    layout_set_design(out, n, p);
    return true;
}

/* ---- As Java serializes it. */

struct serialized {
    uint32_t k, words;
    const uint8_t *tail;
    uint64_t tail_len;
    bool is_64, known; /* known: the funnel is one of Guava's */
    unsigned funnel;
};

/* The funnel by its number. */
static bool find_funnel(struct serialized *s)
{
    uint8_t tail[JAVA_TAIL];
    for (s->funnel = 0; s->funnel < sizeof encodings / sizeof *encodings; s->funnel++)
        if (java_tail(s->funnel, s->is_64, tail) == s->tail_len &&
            memcmp(tail, s->tail, (size_t)s->tail_len) == 0)
            return true;
    return false;
}

static bool parse_serialized(const uint8_t *p, uint64_t len, struct serialized *s, struct err *err)
{
    java_get(p, &s->k, &s->words);
    uint64_t bytes = 8 * (uint64_t)s->words;
    if (s->k == 0 || s->k > MAX_K)
        return fail(err, "its number of positions is %" PRId32, (int32_t)s->k);
    if (s->words == 0 || s->words > MAX_WORDS)
        return fail(err, "its number of words is %" PRId32, (int32_t)s->words);
    if (len - JAVA_HEADER < bytes)
        return fail(err, "it is cut short: %" PRIu32 " words need %" PRIu64 " bytes", s->words,
                    JAVA_HEADER + bytes);
    s->tail = p + JAVA_HEADER + bytes;
    s->tail_len = len - JAVA_HEADER - bytes;
    if (!java_strategy(s->tail, s->tail_len, &s->is_64))
        return fail(err, "it does not end in its strategy, as a filter alone does");
    s->known = find_funnel(s);
    return true;
}

static bool read_serialized(const struct layout_spec *spec, const struct layout_foreign *in,
                            struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    const uint8_t *p = in->data[0];
    struct serialized s;
    if (!parse_serialized(p, in->len[0], &s, err))
        return false;
    if (spec->value[STRATEGY] != NULL && (variant_of(spec) == MITZ_64) != s.is_64)
        return fail(err, "its strategy is MURMUR128_MITZ_%s", s.is_64 ? "64" : "32");
    if (!s.known && spec->value[FUNNEL] == NULL)
        return fail(err, "its funnel is none of Guava's: give funnel=bytes, and as keys the bytes "
                         "that it makes");
    if (s.known && spec->value[FUNNEL] != NULL && layout_choice(spec, FUNNEL) != s.funnel)
        return fail(err, "its funnel is not %s", spec->value[FUNNEL]);
    bool stays = spec->value[SERIALIZED] == NULL || layout_choice(spec, SERIALIZED) == 1;
    struct classic c = {.m = 64 * (uint64_t)s.words,
                        .k = s.k,
                        .variant = s.is_64 ? MITZ_64 : MITZ_32,
                        .extra = s.known || !stays ? 0 : s.tail_len};
    classic_begin(spec, &c, out);
    out->layer[0].geometry[3] = stays;
    if (s.known)
        out->encoding = encodings[s.funnel];
    classic_design(&c, spec, out);
    bits[0] =
        (struct layout_bits){p + JAVA_HEADER, c.m / 8, ORDER_BIG_WORDS, s.tail, c.extra, NULL};
    return true;
}

static unsigned funnel_of(const struct layout_filter *filter)
{
    const unsigned last = sizeof encodings / sizeof *encodings - 1;
    unsigned funnel = 0;
    while (funnel < last && encodings[funnel] != filter->encoding)
        funnel++;
    return funnel;
}

static bool write_serialized(const struct layout_filter *filter, const uint8_t *data,
                             const struct layout_sink *sink, struct err *err)
{
    struct classic c = classic_of(&filter->layer[0]);
    uint8_t header[JAVA_HEADER], tail[JAVA_TAIL];
    size_t len = java_tail(funnel_of(filter), c.variant == MITZ_64, tail);
    java_put(header, c.k, (uint32_t)(c.m / 64));
    return sink->write(sink->ctx, 0, header, sizeof header, err) &&
           layout_put(sink, 0, data, c.m / 8, ORDER_BIG_WORDS, err) &&
           (c.extra > 0 ? layout_put(sink, 0, data + c.m / 8, c.extra, ORDER_LOW_FIRST, err)
                        : sink->write(sink->ctx, 0, tail, len, err));
}

/* ---- As writeTo writes it. */

/* Is this a header, followed by exactly as many words as it states? */
static bool recognize(const struct layout_foreign *in)
{
    const uint8_t *p = in->data[0];
    struct serialized s;
    struct err ignored;
    if (java_begins(p, in->len[0]))
        return parse_serialized(p, in->len[0], &s, &ignored);
    return in->len[0] > HEADER && p[0] <= MITZ_64 && p[1] != 0 && p[2] <= INT8_MAX &&
           in->len[0] - HEADER == 8 * (uint64_t)get_be32(p + 2);
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    const uint8_t *p = in->data[0];
    if (java_begins(p, in->len[0]))
        return read_serialized(spec, in, out, bits, err);
    if (in->len[0] < HEADER)
        return fail(err, "it ends within its header");
    uint32_t words = get_be32(p + 2);
    struct classic c = {.m = 64 * (uint64_t)words, .k = p[1], .variant = p[0]};
    if (p[0] > MITZ_64)
        return fail(err, "its strategy is %d; known are 0 and 1", (int8_t)p[0]);
    if (spec->value[STRATEGY] != NULL && c.variant != variant_of(spec))
        return fail(err, "its strategy is MURMUR128_MITZ_%s", c.variant == MITZ_64 ? "64" : "32");
    if (c.k == 0)
        return fail(err, "its number of positions is 0");
    if (words == 0 || words > MAX_WORDS)
        return fail(err, "its number of words is %" PRId32, (int32_t)words);
    if (in->len[0] - HEADER < 8 * (uint64_t)words)
        return fail(err, "it is cut short: %" PRIu32 " words need %" PRIu64 " bytes", words,
                    HEADER + 8 * (uint64_t)words);
    if (in->len[0] - HEADER > 8 * (uint64_t)words)
        return fail(err, "%" PRIu64 " bytes follow its bits: 'head -c %" PRIu64 "' drops them",
                    in->len[0] - HEADER - 8 * (uint64_t)words, HEADER + 8 * (uint64_t)words);
    classic_begin(spec, &c, out);
    out->layer[0].geometry[3] = layout_choice(spec, SERIALIZED);
    classic_design(&c, spec, out);
    bits[0] = (struct layout_bits){
        .data = p + HEADER, .len = 8 * (uint64_t)words, .order = ORDER_BIG_WORDS};
    return true;
}

static uint64_t claims(const uint8_t *head, uint64_t len)
{
    if (java_begins(head, len)) {
        uint32_t k, n;
        java_get(head, &k, &n);
        return n > 0 && n <= MAX_WORDS ? JAVA_HEADER + 8 * (uint64_t)n + MOST_TAIL : 0;
    }
    uint32_t words = len >= HEADER ? get_be32(head + 2) : 0;
    return words > 0 && words <= MAX_WORDS ? HEADER + 8 * (uint64_t)words : 0;
}

static bool write_file(const struct layout_filter *filter, const uint8_t *const *data,
                       const struct layout_sink *sink, struct err *err)
{
    struct classic c = classic_of(&filter->layer[0]);
    if (filter->layer[0].geometry[3] == 1)
        return write_serialized(filter, data[0], sink, err);
    uint8_t header[HEADER] = {(uint8_t)c.variant, (uint8_t)c.k};
    put_be32(header + 2, (uint32_t)(c.m / 64));
    return sink->write(sink->ctx, 0, header, sizeof header, err) &&
           layout_put(sink, 0, data[0], c.m / 8, ORDER_BIG_WORDS, err);
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    uint64_t strategy = classic_of(&filter->layer[0]).variant;
    layout_show_choice(spec, room, &params[STRATEGY], strategy == MITZ_64 ? 0 : 1);
    if (filter->layer[0].geometry[3] == 1)
        layout_show_choice(spec, room, &params[SERIALIZED], 1);
}

static uint64_t file_len(const struct layout_filter *filter)
{
    const struct layer *layer = &filter->layer[0];
    struct classic c = classic_of(layer);
    uint8_t tail[JAVA_TAIL];
    if (layer->geometry[3] == 0)
        return HEADER + layer->data_len;
    return JAVA_HEADER + layer->data_len +
           (c.extra > 0 ? 0 : java_tail(funnel_of(filter), c.variant == MITZ_64, tail));
}

/* A funnel of a program's own is not known for other filters: they are as writeTo writes them. */
static void strip(struct layer *layer)
{
    struct classic c = classic_of(layer);
    if (c.extra > 0)
        layer->geometry[3] = 0;
    c.extra = 0;
    classic_to(&c, layer);
}

static const struct layout layout = {
    .summary = "Guava's BloomFilter (Java), as writeTo or Java's serialization writes it",
    .params = params,
    .encodings = encodings,
    .hash = &hash_murmur3_128,
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
    .strip = strip,
};

const struct kind kind_guava = {CLASSIC_KIND(16, "guava", 2), .sampled_fpr = classic_double_hashed,
                                .uniting = &classic_uniting};
