/* SPDX-License-Identifier: MIT
 * Redisson's RBloomFilter. The bits are a bitmap in Redis. A Redis hash beside it, the
 * configuration, has m and k, and the capacity and the FPR from which Redisson computed them. A
 * program that opens the filter gives its own capacity and FPR, and finds no keys unless these give
 * the same m and k.
 *
 * Position i is (h mod 2^63) mod m. h starts as the first half of the key's hash
 * (hash_highway_128). After each position one half is added to h: alternately the second and the
 * first.
 */
#include "foreign/classic.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foreign/encode.h"
#include "foreign/hash.h"

enum { CODEC, BITS, HASHES };

static const struct layout_param params[] = {
    {"codec", "string|long|int|bytes|json|kryo5|kryo5long|kryo5int|kryo5ref", NULL,
     "the codec, and the type of the objects, that turn keys into bytes"},
    {"bits", NULL, "M", "'size' of the filter's configuration"},
    {"k", NULL, "K", "'hashIterations' of the filter's configuration"},
    {0},
};

static const uint32_t encodings[] = {ENCODE_UTF8,       ENCODE_DECIMAL,   ENCODE_DECIMAL32,
                                     ENCODE_NONE,       ENCODE_JSON,      ENCODE_KRYO5,
                                     ENCODE_KRYO5_LONG, ENCODE_KRYO5_INT, ENCODE_KRYO5_REF};

/* Redisson's own limit: 2 * Integer.MAX_VALUE. */
static const uint64_t MAX_M = 2 * (uint64_t)INT32_MAX;

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    struct classic c = classic_of(layer);
    const struct modulus by = modulus_of(c.m);
    const uint64_t *h1 = hashes_lane(keys, 0), *h2 = hashes_lane(keys, 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t h = h1[i];
        for (unsigned j = 0; j < c.k; j++) {
            *out++ = modulo(h & INT64_MAX, by);
            h += j % 2 == 0 ? h2[i] : h1[i];
        }
    }
}

/* The positions of a key depend on each other: with h1 + h2 = u they are h1, u, h1 + u, 2u, h1 +
 * 2u, 3u ... So two keys with the same u share the positions of all multiples of u. With half of
 * the bits set and k = 7, the FPR is 12 % above (c/m)^k, where c of m bits are set. */
static uint64_t value(uint64_t variant, uint64_t h1, uint64_t h2, unsigned i)
{
    (void)variant;
    return (h1 * (1 + i / 2) + h2 * ((i + 1) / 2)) & INT64_MAX;
}

/* A key with the u of one of n keys, n / m = -ln(1 - set) / k, has k / 2 positions in common with
 * it if the multiples wrap alike. That the first of them, u, is set is in the formula already. How
 * often they wrap alike, and what else coincides, depends on the factors of m: the rest was fitted
 * to simulations with k = 7 to 20, m = 3600 to 200003 and 0.2 to 0.5 of the bits set, to within a
 * factor of 4. */
static double excess(const struct layer *layer, double set)
{
    struct classic c = classic_of(layer);
    bool odd = c.m % 2 != 0, power = (c.m & (c.m - 1)) == 0;
    double alike = odd ? 2.0 / c.k : power ? 0.11 * c.k : 0.045 * c.k;
    if (set >= 1)
        return 0;
    unsigned others = c.k - c.k / 2;
    double one = -log1p(-set) / c.k * fmax(0, pow(set, others) - pow(set, c.k - 1));
    return alike * one + set * set / 2 / (double)c.m;
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    if (c.m > MAX_M || c.variant != 0 || c.extra != 0 || layer->geometry[3] != 0)
        return fail(err, "its geometry is not one of Redisson's");
    return classic_check(layer, err);
}

/* As tryInit does with optimalNumOfBits and optimalNumOfHashFunctions. */
static bool size(uint64_t n, double p, struct classic *c, struct err *err)
{
    double bits;
    if (!classic_size("Redisson", n, p, MAX_M, &bits, err))
        return false;
    *c = (struct classic){.m = (uint64_t)bits,
                          .k = (unsigned)fmax(1, floor(classic_best_k(bits, (double)n) + 0.5))};
    return true;
}

/* Computes m and k from -n and -p if both are given; the parameters bits and k, where given, must
 * agree. Else takes m and k from these parameters. */
static bool settle(const struct layout_spec *spec, struct classic *c, struct err *err)
{
    struct classic asked = {0};
    if (!classic_given(spec, BITS, HASHES, MAX_M, &asked, err))
        return false;
    if (spec->n == 0 || spec->p <= 0) {
        *c = asked;
        return (c->m != 0 && c->k != 0) ||
               fail(err, "its size is unknown: give bits=M and k=K, or -n and -p, as in its "
                         "configuration");
    }
    if (!size(spec->n, spec->p, c, err))
        return false;
    return ((asked.m == 0 || asked.m == c->m) && (asked.k == 0 || asked.k == c->k)) ||
           fail(err, "-n and -p give bits=%" PRIu64 " and k=%u, not what the spec says", c->m,
                c->k);
}

static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    struct classic c = {0};
    if (spec->value[BITS] != NULL || spec->value[HASHES] != NULL) {
        if (!settle(spec, &c, err))
            return false;
        classic_begin(spec, &c, out);
        if (spec->n == 0 || spec->p <= 0)
            return classic_design_for(&c, n, p, out, err);
    } else {
        p = p > 0 ? p : 0.001; /* the program itself has no default */
        if (!size(n, p, &c, err))
            return false;
        classic_begin(spec, &c, out);
    }
    /* k is rounded, so the formula may give slightly more than p. */
    layout_set_design(out, n, p);
    return true;
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    struct classic c = {0};
    if (!settle(spec, &c, err))
        return false;
    classic_begin(spec, &c, out);
    classic_design(&c, spec, out);
    return classic_read_sized(spec, in, c.m, &bits[0], err);
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    struct classic c = classic_of(&filter->layer[0]);
    layout_show_number(spec, room, &params[BITS], c.m);
    layout_show_number(spec, room, &params[HASHES], c.k);
}

/* Writes p, 0 < p < 1, as Java's Double.toString does: the shortest decimal that reads back as p,
 * the nearest if there are several, with at least two digits. From 0.001 on without exponent. */
static void show_java(char *out, size_t room, double p)
{
    char text[32], digits[32];
    int precision = 1, exponent = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, p);
    while (strtod(text, NULL) != p && precision++ < 17);
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    *strchr(text, 'e') = '\0';
    snprintf(digits, sizeof digits, "%c%s", text[0], text + 2);
    if (precision == 1 && digits[1] == '0')
        digits[1] = '\0';
    if (exponent >= -3)
        snprintf(out, room, "0.%.*s%s", -exponent - 1, "00", digits);
    else
        snprintf(out, room, "%c.%sE%d", digits[0], digits[1] != '\0' ? digits + 1 : "0", exponent);
}

/* The fields of the configuration. Redisson does not need the last two: omitted if unknown. */
static void facts(const struct layout_filter *filter,
                  void (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
    struct classic c = classic_of(&filter->layer[0]), by_rule = {0};
    struct err ignored;
    char text[64]; /* 17 digits and an exponent of any int, for the compiler */
    snprintf(text, sizeof text, "%" PRIu64, c.m);
    each(ctx, "size", text);
    snprintf(text, sizeof text, "%u", c.k);
    each(ctx, "hashIterations", text);
    if (filter->assumed || !size(filter->n_design, filter->fpr_design, &by_rule, &ignored) ||
        by_rule.m != c.m || by_rule.k != c.k)
        return;
    snprintf(text, sizeof text, "%" PRIu64, filter->n_design);
    each(ctx, "expectedInsertions", text);
    show_java(text, sizeof text, filter->fpr_design);
    each(ctx, "falseProbability", text);
}

enum { FIELD_SIZE, FIELD_ITERATIONS, FIELD_INSERTIONS, FIELD_PROBABILITY };

static const char *const fields[] = {"size", "hashIterations", "expectedInsertions",
                                     "falseProbability", NULL};

/* "{NAME}:config", so that both keys are in one slot. A name with a brace is not wrapped. */
static size_t config_key(const char *key, size_t len, char *out)
{
    static const char SUFFIX[] = ":config";
    bool braced = memchr(key, '{', len) != NULL;
    char *at = out;
    if (!braced)
        *at++ = '{';
    memcpy(at, key, len);
    at += len;
    if (!braced)
        *at++ = '}';
    memcpy(at, SUFFIX, sizeof SUFFIX - 1);
    return (size_t)(at - out) + sizeof SUFFIX - 1;
}

/* Redisson compares the fields as text. So a number must be as Java writes it: digits, the first
 * not 0. */
static bool field_number(const char *const *value, unsigned field, uint64_t max, uint64_t *out,
                         struct err *err)
{
    const char *text = value[field];
    if (text == NULL)
        return fail(err, "its configuration has no %s", fields[field]);
    size_t len = strlen(text);
    *out = 0;
    if (len > 0 && len < 16 && text[0] != '0' && strspn(text, "0123456789") == len)
        *out = strtoull(text, NULL, 10);
    return (*out != 0 && *out <= max) ||
           fail(err, "its configuration says %s='%.40s', which Redisson does not write",
                fields[field], text);
}

/* Sets n and p of the spec, if the fields are there and give this m and k. */
static void field_design(const char *const *value, const struct classic *c,
                         struct layout_spec *spec)
{
    struct classic by_rule;
    struct err ignored;
    uint64_t n = 0;
    if (value[FIELD_INSERTIONS] == NULL || value[FIELD_PROBABILITY] == NULL ||
        !field_number(value, FIELD_INSERTIONS, INT64_MAX, &n, &ignored))
        return;
    char *end;
    double p = strtod(value[FIELD_PROBABILITY], &end);
    if (*end != '\0' || !size(n, p, &by_rule, &ignored) || by_rule.m != c->m || by_rule.k != c->k)
        return;
    spec->n = n;
    spec->p = p;
}

static bool configure(const struct layout_spec *spec, const char *const *value,
                      struct layout_spec *out, struct err *err)
{
    struct classic asked, c = {0};
    struct layout_filter filter;
    uint64_t k = 0;
    char text[LAYOUT_TEXT];
    if (!classic_given(spec, BITS, HASHES, MAX_M, &asked, err) ||
        !field_number(value, FIELD_SIZE, MAX_M, &c.m, err) ||
        !field_number(value, FIELD_ITERATIONS, CLASSIC_MAX_K, &k, err))
        return false;
    c.k = (unsigned)k;
    if ((asked.m != 0 && asked.m != c.m) || (asked.k != 0 && asked.k != c.k))
        return fail(err, "its configuration says bits=%" PRIu64 " and k=%u", c.m, c.k);
    classic_begin(spec, &c, &filter);
    layout_show(&filter, text, sizeof text);
    bool known = layout_parse(text, out, err);
    field_design(value, &c, out);
    return known;
}

static const struct layout_redis redis = {fields, config_key, configure};

static const struct layout layout = {
    .summary = "Redisson's RBloomFilter (Java), a bitmap in Redis",
    .params = params,
    .encodings = encodings,
    .hash = &hash_highway_128,
    .design = design,
    .read = read_file,
    .write = classic_write_bitmap,
    .file_len = classic_bitmap_len,
    .show = show,
    .facts = facts,
    .positions = positions,
    .value = value,
    .excess = excess,
    .factor = 4,
    .redis = &redis,
    .caveat = "(c/m)^k is too low, since a key's positions depend on each other; the current FPR "
              "is that of a sample of hashes, and the number of keys may be off by a few percent",
};

const struct kind kind_redisson = {CLASSIC_KIND(18, "redisson", 2), .sampled_fpr = classic_sample,
                                   .uniting = &classic_uniting};
