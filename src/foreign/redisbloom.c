/* SPDX-License-Identifier: MIT
 * A filter of RedisBloom is two files. NAME.header is the first reply of BF.SCANDUMP; NAME.data is
 * all later replies, joined. The header has a part for the chain and one for each link, packed and
 * little-endian. The data file has the bits of the links, one link after the other, bit x at place
 * x mod 8 of byte x / 8.
 *
 *     offset  type  chain                     offset  type      link
 *          0  u64   keys, all links                0  u64       bytes
 *          8  u32   links                          8  u64       bits
 *         12  u32   options                       16  u64       keys
 *         16  u32   growth (not in OLD)           24  f64       error
 *                                                 32  f64       bits per key
 *                                                 40  u32       k
 *                                                 44  u64       capacity (u32 in OLD and MIDDLE)
 *                                             48, 52  u8        n2
 *
 * Position i of a key is a + i b mod 2^64 mod m, i = 0 ... k-1, where a and b are the lanes of its
 * hash and m is 2^n2, or `bits` where n2 is 0.
 *
 * A key is in the filter if it is in any link; each is a layer. A new key goes into the last link.
 * If that link has reached its capacity, a new link follows, with `growth` times its capacity and
 * half its error.
 *
 * Geometry: [0] m  [1] k, and from bit 16 on struct kept, packed  [2] bytes of data after the last
 * word that has bits  [3] the bits per key, a double. The layer's data is `bytes` bytes, then zero
 * bytes up to a multiple of 8.
 */
#include "foreign/classic.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/num.h"
#include "foreign/hash.h"

enum { EXPANSION, SCALING, SEED };

static const struct layout_param params[] = {
    {"expansion", NULL, "N", "capacity of a link as a multiple of the one before (default 2)"},
    {"scaling", "yes|no", NULL, "whether a full filter gets another link, or takes no more keys"},
    {"seed", "64|32", NULL,
     "bits of the hash function's seed: 32 in filters of modules before 2.0.2 (import only)"},
    {0},
};

/* Options of a chain. */
enum {
    NOROUND = 1,      /* the number of bits is not rounded up to a power of two */
    ENTS_IS_BITS = 2, /* the requested capacity is n2 */
    FORCE64 = 4,      /* the 64-bit hash function */
    NO_SCALING = 8,
    OPTIONS = 15,
};

enum form { OLD, MIDDLE, CURRENT };

/* Lengths of the parts of a header: in modules up to 2.0.3, in 2.2.0, and from 2.2.1 on. */
static const struct {
    unsigned chain, link;
} lengths[] = {{16, 49}, {20, 49}, {20, 53}};

enum { CHAIN_LEN_MAX = 20, LINK_LEN_MAX = 53 };

static const uint64_t SEED_64 = 0xc6a4a7935bd1e995, SEED_32 = 0x5bd1e995, SEED_MURMUR2 = 0x9747b28c;

enum { DEFAULT_GROWTH = 2, MAX_N2 = 63 };

/* The largest count that fits a double exactly. */
static const uint64_t MAX_KEYS = (uint64_t)1 << 53;

/* RedisBloom's constants are not exactly ln(2)^2 and ln(2): for error rates of 1/2, 1/4 and 1/8, k
 * is one higher than with the exact values. */
static const double LN2_SQUARED = 0.480453013918201, LN2 = 0.693147180559945;

/* Further properties of a link, stored in the variant of struct classic. */
struct kept {
    unsigned n2; /* m is 2^n2; 0: m is any number */
    unsigned options;
    enum form form;
    bool no_bits;     /* in old forms: `bits` is 0 although n2 is not */
    unsigned missing; /* bytes by which the data is short of a whole word */
    uint32_t growth;
};

static uint64_t pack(const struct kept *x)
{
    return x->n2 | x->options << 6 | (unsigned)x->form << 10 | (unsigned)x->no_bits << 12 |
           x->missing << 13 | (uint64_t)x->growth << 16;
}

static struct kept kept_of(const struct layer *layer)
{
    uint64_t v = classic_of(layer).variant;
    return (struct kept){.n2 = v & 63,
                         .options = v >> 6 & 15,
                         .form = (enum form)(v >> 10 & 3),
                         .no_bits = v >> 12 & 1,
                         .missing = v >> 13 & 7,
                         .growth = (uint32_t)(v >> 16)};
}

static double bits_per_key(const struct layer *layer)
{
    double bpe;
    memcpy(&bpe, &layer->geometry[3], sizeof bpe);
    return bpe;
}

static uint64_t bytes_of(const struct layer *layer)
{
    return layer->data_len - kept_of(layer).missing;
}

/* Sets geometry and data_len of a link. */
static void describe_link(uint64_t m, unsigned k, uint64_t bytes, double bpe, struct kept kept,
                          struct layer *out)
{
    uint64_t whole = (bytes + 7) / 8 * 8;
    kept.missing = (unsigned)(whole - bytes);
    struct classic c = {.m = m, .k = k, .variant = pack(&kept), .extra = whole - classic_bytes(m)};
    out->kind = &kind_redisbloom;
    classic_to(&c, out);
    memcpy(&out->geometry[3], &bpe, sizeof bpe);
}

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    struct classic c = classic_of(layer);
    const struct modulus by = modulus_of(c.m);
    const uint64_t *a = hashes_lane(keys, 0), *b = hashes_lane(keys, 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t h = a[i];
        for (unsigned j = 0; j < c.k; j++, h += b[i])
            *out++ = modulo(h, by);
    }
}

static uint64_t value(uint64_t variant, uint64_t a, uint64_t b, unsigned i)
{
    (void)variant;
    return a + i * b;
}

/* With hashes of 32 bits, the values do not reach 2^64. */
static double excess(const struct layer *layer, double set)
{
    unsigned bits = kept_of(layer).options & FORCE64 ? 64 : 0;
    return classic_excess(layer, set, (struct classic_steps){.bits = bits});
}

/* The product is stored in a variable to round it to a double, also on machines with wider
 * floating-point registers. */
static double k_for(double bpe)
{
    double k = LN2 * bpe;
    return ceil(k);
}

/* Does bpe give this k? False if bpe is not a number. */
static bool has_k(double bpe, unsigned k)
{
    return k_for(bpe) == k;
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    struct kept kept = kept_of(layer);
    if (!classic_check(layer, err))
        return false;
    bool sound = kept.form <= CURRENT && layer->data_len % 8 == 0 &&
                 layer->data_len <= CLASSIC_MAX_M / 8 &&
                 (kept.n2 == 0 || c.m == (uint64_t)1 << kept.n2) && c.m <= 8 * bytes_of(layer) &&
                 has_k(bits_per_key(layer), c.k);
    if (kept.form == CURRENT)
        sound = sound && !kept.no_bits && (kept.n2 != 0 || c.m == 8 * bytes_of(layer));
    else
        sound = sound && layer->n_design <= UINT32_MAX && (!kept.no_bits || kept.n2 != 0) &&
                (kept.form != OLD || kept.growth == 0);
    return sound || fail(err, "its geometry is not one of RedisBloom's");
}

/* The link that BF.RESERVE makes for n keys (bloom_init). All in doubles, in RedisBloom's order of
 * evaluation. */
static bool size_link(uint64_t n, double error, struct kept kept, struct layer *out,
                      struct err *err)
{
    char keys[NUM_TEXT], rate[NUM_TEXT];
    num_show_count(keys, (double)n);
    if (n == 0 || !(error > 0 && error < 1))
        return fail(err, "RedisBloom cannot make a link for %s keys at an error rate of %s", keys,
                    num_show_fpr(rate, error));
    double bpe = fabs(log(error) / LN2_SQUARED), want = (double)n * bpe;
    double bits = fmax(1, trunc(want));
    if (bits > (double)CLASSIC_MAX_M)
        return fail(err, "a link for %s keys at an error rate of %s is too large", keys,
                    num_show_fpr(rate, error));
    uint64_t bytes = classic_bytes((uint64_t)bits);
    *out = (struct layer){.n_design = n, .fpr_design = error};
    describe_link(8 * bytes, (unsigned)k_for(bpe), bytes, bpe, kept, out);
    return true;
}

static bool check_add(const struct layer *newest, struct err *err)
{
    return kept_of(newest).form == CURRENT ||
           fail(err, "it was written by a module before 2.2.1, which adds keys differently");
}

/* Sets hash, seed, capacity and FPR from the links. Each further link halves the error, so the
 * errors of all links that may follow the last one sum to at most its error. */
static void describe_chain(uint64_t seed, struct layout_filter *out)
{
    const struct layer *last = &out->layer[out->n_layers - 1];
    struct kept kept = kept_of(last);
    bool scales = !(kept.options & NO_SCALING);
    double error = scales && kept.form == CURRENT && kept.growth > 0 ? last->fpr_design : 0;
    for (unsigned i = 0; i < out->n_layers; i++)
        error += out->layer[i].fpr_design;
    out->hash = kept.options & FORCE64 ? &hash_murmur64a_pair : &hash_murmur2_pair;
    out->seed = seed;
    out->n_design = scales || out->n_layers > 1 ? 0 : last->n_design;
    out->fpr_design = fmin(error, 1 - DBL_EPSILON);
}

/* Makes the filter that BF.RESERVE makes. */
static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    static const double DEFAULT_ERROR = 0.01;
    bool scales = layout_choice(spec, SCALING) == 0;
    double error = p > 0 ? p : DEFAULT_ERROR;
    uint64_t growth;
    if (!layout_number(spec, EXPANSION, UINT32_MAX, &growth, err))
        return false;
    if (!scales && growth != 0)
        return fail(err, "layout redisbloom: expansion=N needs scaling=yes");
    if (layout_choice(spec, SEED) != 0)
        return fail(err, "layout redisbloom: seed=32 is for import only");
    struct kept kept = {.options = FORCE64 | NOROUND | (scales ? 0 : NO_SCALING),
                        .form = CURRENT,
                        .growth = growth != 0 ? (uint32_t)growth : DEFAULT_GROWTH};
    *out = (struct layout_filter){.n_layers = 1};
    if (!size_link(n, scales ? error * 0.5 : error, kept, &out->layer[0], err))
        return false;
    describe_chain(SEED_64, out);
    return true;
}

static void reserve(const struct layout_filter *filter, double *error, uint64_t *capacity,
                    uint32_t *expansion)
{
    const struct layer *first = &filter->layer[0];
    struct kept kept = kept_of(first);
    bool scales = !(kept.options & NO_SCALING);
    *error = scales ? first->fpr_design * 2 : first->fpr_design;
    *capacity = first->n_design;
    *expansion = scales ? kept.growth : 0;
}

/* A header that is being read. */
struct chain {
    const uint8_t *link; /* the first */
    uint64_t size;
    uint32_t n_links, options, growth;
    enum form form;
};

static bool find_form(uint64_t len, uint64_t n_links, enum form *form)
{
    for (unsigned i = OLD; i <= CURRENT; i++)
        if (len == lengths[i].chain + n_links * lengths[i].link) {
            *form = (enum form)i;
            return true;
        }
    return false;
}

static bool read_chain(const uint8_t *p, uint64_t len, struct chain *c, struct err *err)
{
    if (len < lengths[OLD].chain)
        return fail(err, "its header ends within the first %u bytes", lengths[OLD].chain);
    *c = (struct chain){
        .link = p, .size = get_le64(p), .n_links = get_le32(p + 8), .options = get_le32(p + 12)};
    if (c->n_links == 0)
        return fail(err, "it has no links");
    if (!find_form(len, c->n_links, &c->form))
        return fail(err,
                    "its header is not what BF.SCANDUMP gives for the iterator 0: seen(7) has the "
                    "commands that write one");
    if (c->options > OPTIONS)
        return fail(err, "it has unknown options: %" PRIu32, c->options);
    c->growth = c->form == OLD ? 0 : get_le32(p + 16);
    c->link = p + lengths[c->form].chain;
    return true;
}

static bool wrong_number(unsigned link, const char *what, uint64_t number, struct err *err)
{
    return fail(err, "link %u: its %s is %" PRIu64, link, what, number);
}

static bool read_modulus(const uint8_t *p, unsigned i, struct kept *kept, uint64_t *m,
                         struct err *err)
{
    uint64_t bytes = get_le64(p), bits = get_le64(p + 8);
    kept->n2 = p[kept->form == CURRENT ? 52 : 48];
    if (bytes == 0 || bytes > CLASSIC_MAX_M / 8)
        return wrong_number(i, "number of bytes", bytes, err);
    kept->no_bits = kept->form != CURRENT && kept->n2 != 0 && bits == 0;
    bool exact = kept->form == CURRENT || kept->n2 != 0;
    if (!kept->no_bits && (bits == 0 || bits > 8 * bytes || (exact && bits != 8 * bytes)))
        return wrong_number(i, "number of bits", bits, err);
    if (kept->n2 > MAX_N2 || (kept->n2 != 0 && (uint64_t)1 << kept->n2 > 8 * bytes))
        return wrong_number(i, "number n2", kept->n2, err);
    *m = kept->n2 != 0 ? (uint64_t)1 << kept->n2 : bits;
    return true;
}

/* *size: the number of keys in the links before, to which those of this link are added. */
static bool read_link(const struct chain *c, unsigned i, struct layer *out, uint64_t *size,
                      struct err *err)
{
    const uint8_t *p = c->link + (size_t)i * lengths[c->form].link;
    struct kept kept = {.options = c->options, .form = c->form, .growth = c->growth};
    double bpe = get_double(p + 32);
    uint64_t m = 0, n = get_le64(p + 16);
    uint32_t k = get_le32(p + 40);
    *out = (struct layer){.n_design = c->form == CURRENT ? get_le64(p + 44) : get_le32(p + 44),
                          .fpr_design = get_double(p + 24),
                          .n_before = *size};
    if (!read_modulus(p, i, &kept, &m, err))
        return false;
    if (!(out->fpr_design > 0 && out->fpr_design < 1))
        return fail(err, "link %u: its error rate is %g", i, out->fpr_design);
    if (k == 0 || k > CLASSIC_MAX_K || !has_k(bpe, k))
        return fail(err, "link %u: %" PRIu32 " positions do not fit %g bits a key", i, k, bpe);
    if (n > MAX_KEYS)
        return wrong_number(i, "number of keys", n, err);
    describe_link(m, k, get_le64(p), bpe, kept, out);
    *size += n;
    return true;
}

/* Finds the bits of link i, at *at in the data file, and advances *at. */
static bool find_bits(const struct layout_foreign *in, const struct layer *layer, unsigned i,
                      uint64_t *at, struct layout_bits *bits, struct err *err)
{
    struct err why;
    uint64_t bytes = bytes_of(layer);
    if (bytes > in->len[1] - *at)
        return fail(err, "'%s' is cut short: it ends within link %u", in->name[1], i);
    *bits = (struct layout_bits){.data = in->data[1] + *at, .len = bytes, .order = ORDER_LOW_FIRST};
    *at += bytes;
    return classic_check_bits(bits, classic_of(layer).m, &why) ||
           fail(err, "link %u: %s", i, why.text);
}

static bool check_links(uint64_t n, struct err *err)
{
    return n <= LAYOUT_LAYERS ||
           fail(err, "it has %" PRIu64 " links; a filter file holds %d", n, LAYOUT_LAYERS);
}

static bool read_links(const struct chain *c, const struct layout_foreign *in,
                       struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    uint64_t at = 0, size = 0;
    if (!check_links(c->n_links, err))
        return false;
    bool alone = in->data[1] == NULL;
    *out = (struct layout_filter){.n_layers = c->n_links, .n_added = c->size};
    for (unsigned i = 0; i < c->n_links; i++) {
        struct layer *layer = &out->layer[i];
        if (!read_link(c, i, layer, &size, err) ||
            (!alone && !find_bits(in, layer, i, &at, &bits[i], err)))
            return false;
    }
    if (size != c->size)
        return fail(err, "its number of keys is %" PRIu64 ", that of its links %" PRIu64, c->size,
                    size);
    return alone || at == in->len[1] ||
           fail(err,
                "'%s' has %" PRIu64 " bytes after its last link: 'head -c %" PRIu64 "' drops them",
                in->name[1], in->len[1] - at, at);
}

/* Parameters given in the spec must agree with the file. */
static bool check_spec(const struct layout_spec *spec, const struct chain *c, struct err *err)
{
    uint64_t growth;
    bool scales = !(c->options & NO_SCALING);
    if (!layout_number(spec, EXPANSION, UINT32_MAX, &growth, err))
        return false;
    if (growth != 0 && growth != c->growth)
        return fail(err, "its expansion is %" PRIu32, c->growth);
    if (spec->value[SCALING] != NULL && scales != (layout_choice(spec, SCALING) == 0))
        return fail(err, "it was made with scaling=%s", scales ? "yes" : "no");
    return layout_choice(spec, SEED) == 0 || (c->form == OLD && c->options & FORCE64) ||
           fail(err, "it cannot have a seed of 32 bits: its header is not of a module before "
                     "2.0.2, or it has another hash function");
}

/* Capacity and FPR given beside the spec must agree with the file. */
static bool check_design(const struct layout_spec *spec, const struct layout_filter *f,
                         struct err *err)
{
    char own[NUM_TEXT], asked[NUM_TEXT];
    if (spec->n != 0 && spec->n != f->layer[0].n_design)
        return fail(err, "its capacity is %" PRIu64 ", not %" PRIu64, f->layer[0].n_design,
                    spec->n);
    return spec->p <= 0 || fabs(f->fpr_design - spec->p) <= 1e-9 * spec->p ||
           fail(err, "its FPR is %s, not %s", num_show_fpr(own, f->fpr_design),
                num_show_fpr(asked, spec->p));
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    struct chain c = {0};
    if (!read_chain(in->data[0], in->len[0], &c, err) || !check_spec(spec, &c, err) ||
        !read_links(&c, in, out, bits, err))
        return false;
    describe_chain(!(c.options & FORCE64)           ? SEED_MURMUR2
                   : layout_choice(spec, SEED) == 0 ? SEED_64
                                                    : SEED_32,
                   out);
    return check_design(spec, out, err);
}

/* The capacity of the first link; 0: the numbers do not fit each other. */
static uint64_t first_capacity(const struct layout_info *info)
{
    uint64_t parts = 0, part = 1, expansion = info->expansion > 0 ? info->expansion : 1;
    if (info->links == 0 || info->capacity > MAX_KEYS)
        return 0;
    for (uint64_t i = 0; i < info->links; i++) {
        parts += part;
        part = part > MAX_KEYS / expansion ? MAX_KEYS : part * expansion;
    }
    return info->capacity % parts == 0 ? info->capacity / parts : 0;
}

/* A link of valkey-bloom, which has bytes, not words, and rounds k to the nearest number. */
static bool valkey_link(uint64_t n, double error, struct kept kept, struct layer *out,
                        struct err *err)
{
    double bytes = ceil((double)n * log(error) / (-8 * M_LN2 * M_LN2));
    double k = fmax(1, floor(8 * bytes / (double)n * M_LN2 + 0.5));
    if (!(error > 0 && error < 1) || 8 * bytes > (double)CLASSIC_MAX_M)
        return fail(err, "the server describes a link that cannot be");
    out->n_design = n;
    out->fpr_design = error;
    describe_link(8 * (uint64_t)bytes, (unsigned)k, (uint64_t)bytes, 8 * bytes / (double)n, kept,
                  out);
    return true;
}

static bool inform(const struct layout_spec *spec, const struct layout_info *info,
                   struct layout_filter *out, struct err *err)
{
    bool scales = info->expansion > 0;
    const struct chain c = {.options = FORCE64 | NOROUND | (scales ? 0 : NO_SCALING),
                            .growth = scales ? (uint32_t)info->expansion : DEFAULT_GROWTH,
                            .form = CURRENT};
    const struct kept kept = {.options = c.options, .form = c.form, .growth = c.growth};
    if (!check_links(info->links, err))
        return false;
    uint64_t n = first_capacity(info), before = 0;
    double error = info->error;
    if (n == 0 || info->keys > info->capacity || info->expansion > UINT32_MAX)
        return fail(err, "the numbers that the server gives do not fit each other");
    *out = (struct layout_filter){.n_layers = (unsigned)info->links, .n_added = info->keys};
    for (unsigned i = 0; i < out->n_layers; i++) {
        out->layer[i].n_before = before;
        if (!valkey_link(n, error, kept, &out->layer[i], err))
            return false;
        before += n;
        n *= c.growth;
        error *= info->tightening;
    }
    describe_chain(SEED_64, out);
    /* The links that may follow have an error of t + t^2 + ... times that of the last. */
    double last = out->layer[out->n_layers - 1].fpr_design, t = info->tightening;
    if (scales)
        out->fpr_design = fmin(out->fpr_design + last * t / (1 - t) - last, 1 - DBL_EPSILON);
    return check_spec(spec, &c, err);
}

static bool recognize(const struct layout_foreign *in)
{
    struct chain c = {0};
    struct err ignored;
    return read_chain(in->data[0], in->len[0], &c, &ignored);
}

/* The number of keys of link i. A forged file may claim any number. */
static uint64_t keys_of(const struct layout_filter *filter, unsigned i)
{
    bool is_last = i + 1 == filter->n_layers;
    uint64_t from = filter->layer[i].n_before;
    uint64_t to = is_last ? filter->n_added : filter->layer[i + 1].n_before;
    uint64_t n = to > from ? to - from : 0;
    return n < MAX_KEYS ? n : MAX_KEYS;
}

static size_t encode_chain(const struct layout_filter *filter, uint8_t *out)
{
    struct kept kept = kept_of(&filter->layer[0]);
    uint64_t size = 0;
    for (unsigned i = 0; i < filter->n_layers; i++)
        size += keys_of(filter, i);
    put_le64(out, size);
    put_le32(out + 8, filter->n_layers);
    put_le32(out + 12, kept.options);
    put_le32(out + 16, kept.growth);
    return lengths[kept.form].chain;
}

static size_t encode_link(const struct layout_filter *filter, unsigned i, uint8_t *out)
{
    const struct layer *layer = &filter->layer[i];
    struct classic c = classic_of(layer);
    struct kept kept = kept_of(layer);
    uint64_t bytes = bytes_of(layer), bits = kept.n2 != 0 ? 8 * bytes : c.m;
    put_le64(out, bytes);
    put_le64(out + 8, kept.no_bits ? 0 : bits);
    put_le64(out + 16, keys_of(filter, i));
    put_double(out + 24, layer->fpr_design);
    put_double(out + 32, bits_per_key(layer));
    put_le32(out + 40, c.k);
    put_le64(out + 44, layer->n_design);
    out[lengths[kept.form].link - 1] = (uint8_t)kept.n2;
    return lengths[kept.form].link;
}

/* In one piece, as the module loads it. */
static bool write_header(const struct layout_filter *filter, const struct layout_sink *sink,
                         struct err *err)
{
    uint8_t bytes[CHAIN_LEN_MAX + LAYOUT_LAYERS * LINK_LEN_MAX];
    size_t len = encode_chain(filter, bytes);
    for (unsigned i = 0; i < filter->n_layers; i++)
        len += encode_link(filter, i, bytes + len);
    return sink->write(sink->ctx, 0, bytes, len, err);
}

static bool write_file(const struct layout_filter *filter, const uint8_t *const *data,
                       const struct layout_sink *sink, struct err *err)
{
    struct kept first = kept_of(&filter->layer[0]);
    for (unsigned i = 1; i < filter->n_layers; i++) {
        struct kept kept = kept_of(&filter->layer[i]);
        if (kept.form != first.form || kept.options != first.options || kept.growth != first.growth)
            return fail(err, "layers 0 and %u are of different chains", i);
    }
    if (!write_header(filter, sink, err))
        return false;
    for (unsigned i = 0; i < filter->n_layers; i++)
        if (!layout_put(sink, 1, data[i], bytes_of(&filter->layer[i]), ORDER_LOW_FIRST, err))
            return false;
    return true;
}

static uint64_t file_len(const struct layout_filter *filter)
{
    struct kept kept = kept_of(&filter->layer[0]);
    uint64_t len = lengths[kept.form].chain;
    for (unsigned i = 0; i < filter->n_layers; i++)
        len += lengths[kept.form].link + bytes_of(&filter->layer[i]);
    return len;
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    struct kept kept = kept_of(&filter->layer[0]);
    bool scales = !(kept.options & NO_SCALING);
    if (scales && kept.growth > 0)
        layout_show_number(spec, room, &params[EXPANSION], kept.growth);
    layout_show_choice(spec, room, &params[SCALING], scales ? 0 : 1);
    if (filter->seed == SEED_32)
        layout_show_choice(spec, room, &params[SEED], 1);
}

static const struct layout layout = {
    .summary = "a Bloom filter of the Redis module RedisBloom (BF.ADD), as BF.SCANDUMP gives it",
    .params = params,
    .suffix = {".header", ".data"},
    .design = design,
    .read = read_file,
    .write = write_file,
    .file_len = file_len,
    .recognize = recognize,
    .show = show,
    .positions = positions,
    .value = value,
    .excess = excess,
    .factor = CLASSIC_FACTOR,
    .counts = true,
    .reserve = reserve,
    .inform = inform,
};

const struct kind kind_redisbloom = {CLASSIC_KIND(20, "redisbloom", 2),
                                     .sampled_fpr = classic_double_hashed, .check_add = check_add};
