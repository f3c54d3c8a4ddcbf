/* SPDX-License-Identifier: MIT
 * The Go package github.com/bits-and-blooms/bloom, version 3. A file (WriteTo) has m, k, the length
 * of the set of bits, and the set in words of 64 bits, all big-endian 64-bit numbers. The set is
 * longer than m if the program made it before the filter (FromWithM): the words beyond those of m
 * bits are kept behind the bits. The same as JSON (MarshalJSON) is
 *
 *     {"m":M,"k":K,"b":"length and words in base64"}
 *
 * With the 128-bit MurmurHash3 (a, b) of a key, and (c, d) of the key followed by the byte 1,
 * position i, from 0 to k - 1, is one of these modulo 2^64, modulo m:
 *
 *     i mod 4 = 0: a + i c    1: b + i d    2: a + i d    3: b + i c
 */
#include "foreign/classic.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/bits.h"
#include "base/bytes.h"
#include "foreign/hash.h"

enum { BITS, HASHES, JSON };

static const struct layout_param params[] = {
    {"bits", NULL, "M", "the number of bits of a new filter"},
    {"k", NULL, "K", "its number of positions a key"},
    {"json", "no|yes", NULL, "whether the file is JSON; an import sees that"},
    {0},
};

/* geometry[3]: how the file is written, and above that by how much the set is longer than m. */
enum { AS_JSON = 1, NEWLINE = 2, FORM_BITS = 2 };

enum {
    HEADER = 24,
    HEAD_TEXT = 64,   /* room for what JSON begins with */
    LENGTH_TEXT = 12, /* characters of base64 that have the length of the set */
};

#define NOT_JSON "it is not JSON as the program writes it"

static const double DEFAULT_FPR = 0.01;

/* The parts of position i in h: those of the key, and of the key followed by 1. */
static uint64_t sum_of(const uint64_t *h, uint64_t i)
{
    return h[i % 2] + i * h[2 + (i % 4 == 1 || i % 4 == 2)];
}

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    struct classic c = classic_of(layer);
    const struct modulus by = modulus_of(c.m);
    for (size_t i = 0; i < n; i++) {
        uint64_t h[4];
        for (unsigned lane = 0; lane < 4; lane++)
            h[lane] = hashes_lane(keys, lane)[i];
        for (unsigned j = 0; j < c.k; j++)
            *out++ = modulo(sum_of(h, j), by);
    }
}

static uint64_t value(uint64_t variant, uint64_t h1, uint64_t h2, unsigned i)
{
    (void)variant;
    uint64_t first = h1, second = h2;
    const uint64_t h[4] = {h1, h2, bits_draw(&first), bits_draw(&second)};
    return sum_of(h, i);
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    uint64_t more = layer->geometry[3] >> FORM_BITS, form = layer->geometry[3];
    if (c.variant != 0 || c.m > CLASSIC_MAX_M || more > CLASSIC_MAX_M - c.m ||
        c.extra != classic_bytes(c.m + more) - classic_bytes(c.m) ||
        (form & (AS_JSON | NEWLINE)) == NEWLINE)
        return fail(err, "its geometry is not one of bits-and-blooms");
    return classic_check(layer, err);
}

/* EstimateParameters, in doubles, as Go evaluates it; what the spec gives takes precedence. */
static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    struct classic c;
    if (!classic_given(spec, BITS, HASHES, CLASSIC_MAX_M, &c, err))
        return false;
    bool given = c.m != 0;
    if (given != (c.k != 0))
        return fail(err, "layout bitsandblooms: give both or none of bits=M and k=K");
    if (!given) {
        n = n > 0 ? n : 1;
        p = p > 0 ? p : DEFAULT_FPR;
        double m = ceil(classic_best_m((double)n, p));
        if (m > (double)CLASSIC_MAX_M)
            return fail(err, "the filter would have more than 2^45 bits");
        c.m = (uint64_t)fmax(1, m);
        c.k = (unsigned)fmax(1, ceil(M_LN2 * m / (double)n));
    }
    classic_begin(spec, &c, out);
    out->layer[0].geometry[3] = layout_choice(spec, JSON);
    if (given)
        return classic_design_for(&c, n, p, out, err);
    layout_set_design(out, n, p);
    return true;
}

/* ---- The file. */

struct set_file {
    uint64_t m, k, length; /* of the set, in bits */
    unsigned form;
    uint64_t at, end; /* of the words or of base64: offsets in the file */
};

static const char *closing(unsigned form)
{
    return form & NEWLINE ? "\"}\n" : form & AS_JSON ? "\"}" : "";
}

static uint64_t opening(char text[HEAD_TEXT], uint64_t m, uint64_t k)
{
    return (uint64_t)snprintf(text, HEAD_TEXT, "{\"m\":%" PRIu64 ",\"k\":%" PRIu64 ",\"b\":\"", m,
                              k);
}

/* Reads the number behind `name` at *at, and goes behind it. */
static bool take_number(const char **at, const char *name, uint64_t *n)
{
    size_t len = strlen(name);
    char *end;
    if (strncmp(*at, name, len) != 0)
        return false;
    *n = strtoull(*at + len, &end, 10);
    *at = end;
    return true;
}

/* Reads what JSON begins with. Written again, it is the same, so there are no other spellings of
 * the numbers. */
static bool parse_json(const uint8_t *p, uint64_t len, struct set_file *f)
{
    char head[HEAD_TEXT] = "", again[HEAD_TEXT];
    const char *at = head;
    uint8_t length[LENGTH_TEXT];
    size_t n;
    memcpy(head, p, len < HEAD_TEXT - 1 ? (size_t)len : HEAD_TEXT - 1);
    if (!take_number(&at, "{\"m\":", &f->m) || !take_number(&at, ",\"k\":", &f->k))
        return false;
    f->at = opening(again, f->m, f->k);
    if (memcmp(head, again, (size_t)f->at) != 0 || len < f->at + LENGTH_TEXT)
        return false;
    f->form = AS_JSON | (p[len - 1] == '\n' ? NEWLINE : 0);
    if (!base64_decode(BASE64_URL, (const char *)p + f->at, LENGTH_TEXT, length, &n))
        return false;
    f->length = get_be64(length);
    return true;
}

/* Needs the first bytes of a file only. */
static bool parse(const uint8_t *p, uint64_t len, struct set_file *f, struct err *err)
{
    *f = (struct set_file){.at = HEADER};
    if (len > 0 && p[0] == '{') {
        if (!parse_json(p, len, f))
            return fail(err, NOT_JSON);
    } else if (len < HEADER) {
        return fail(err, "it ends within its header");
    } else {
        f->m = get_be64(p);
        f->k = get_be64(p + 8);
        f->length = get_be64(p + 16);
    }
    if (!classic_check_numbers(f->m, f->k, err))
        return false;
    if (f->length < f->m || f->length > CLASSIC_MAX_M)
        return fail(err, "its set has %" PRIu64 " bits, for positions below %" PRIu64, f->length,
                    f->m);
    uint64_t bytes = classic_bytes(f->length);
    f->end = f->at + (f->form == 0 ? bytes : base64_len(8 + bytes));
    return true;
}

/* Is this all of the file, and nothing else? */
static bool is_whole(const uint8_t *p, uint64_t len, const struct set_file *f, struct err *err)
{
    const char *closes = closing(f->form);
    uint64_t wanted = f->end + strlen(closes);
    if (len != wanted)
        return fail(err, "it has %" PRIu64 " bytes, but a set of %" PRIu64 " bits makes %" PRIu64,
                    len, f->length, wanted);
    return memcmp(p + f->end, closes, strlen(closes)) == 0 || fail(err, NOT_JSON);
}

static bool recognize(const struct layout_foreign *in)
{
    struct set_file f;
    struct err ignored;
    return parse(in->data[0], in->len[0], &f, &ignored) &&
           is_whole(in->data[0], in->len[0], &f, &ignored);
}

static uint64_t claims(const uint8_t *head, uint64_t len)
{
    struct set_file f;
    struct err ignored;
    return parse(head, len, &f, &ignored) ? f.end + (f.form != 0 ? strlen("\"}\n") : 0) : 0;
}

static bool agrees(const struct layout_spec *spec, const struct set_file *f, struct err *err)
{
    struct classic c;
    if (!classic_given(spec, BITS, HASHES, CLASSIC_MAX_M, &c, err))
        return false;
    if ((c.m != 0 && c.m != f->m) || (c.k != 0 && c.k != f->k))
        return fail(err, "it has bits=%" PRIu64 " and k=%" PRIu64 ": leave both out", f->m, f->k);
    bool wanted = layout_choice(spec, JSON) == 1;
    return spec->value[JSON] == NULL || wanted == (f->form != 0) ||
           fail(err, "it is %sJSON: leave out json=", wanted ? "not " : "");
}

/* The n bytes of a text, in memory that the caller frees. NULL: it is not the base64 of n bytes,
 * or there is no memory. */
static uint8_t *decode_set(const uint8_t *text, uint64_t n, struct err *err)
{
    size_t got, len = (size_t)base64_len(n);
    uint8_t *bytes = len / 4 == (n + 2) / 3 ? malloc(len / 4 * 3) : NULL;
    if (bytes == NULL)
        fail(err, "out of memory");
    else if (base64_decode(BASE64_URL, (const char *)text, len, bytes, &got) && got == n)
        return bytes;
    else
        fail(err, "it is not base64 as the program writes it");
    free(bytes);
    return NULL;
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    const uint8_t *p = in->data[0], *words = p + HEADER;
    uint8_t *owned = NULL;
    struct set_file f;
    if (!parse(p, in->len[0], &f, err) || !agrees(spec, &f, err) ||
        !is_whole(p, in->len[0], &f, err) ||
        (f.form != 0 && (owned = decode_set(p + f.at, 8 + classic_bytes(f.length), err)) == NULL))
        return false;
    if (owned != NULL)
        words = owned + 8;
    uint64_t len = classic_bytes(f.m), extra = classic_bytes(f.length) - len;
    struct classic c = {.m = f.m, .k = (unsigned)f.k, .extra = extra};
    bits[0] = (struct layout_bits){words, len, ORDER_BIG_WORDS, words + len, extra, owned};
    classic_begin(spec, &c, out);
    out->layer[0].geometry[3] = f.form | (f.length - f.m) << FORM_BITS;
    classic_design(&c, spec, out);
    if (classic_check_bits(&bits[0], c.m, err))
        return true;
    free(owned);
    bits[0].owned = NULL;
    return false;
}

/* A sink that writes to another one in base64, in pieces of whole characters. */
struct text_sink {
    struct layout_sink sink;
    const struct layout_sink *to;
    size_t n;
    uint8_t bytes[3 << 10];
};

static bool flush_text(struct text_sink *t, struct err *err)
{
    char text[4 << 10];
    size_t len = (size_t)base64_len(t->n);
    base64_encode(BASE64_URL, t->bytes, t->n, text);
    t->n = 0;
    return t->to->write(t->to->ctx, 0, text, len, err);
}

static bool write_text(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct text_sink *t = ctx;
    const uint8_t *from = data;
    (void)file;
    while (len > 0) {
        size_t room = sizeof t->bytes - t->n, n = len < room ? len : room;
        memcpy(t->bytes + t->n, from, n);
        t->n += n;
        from += n;
        len -= n;
        if (n == room && !flush_text(t, err))
            return false;
    }
    return true;
}

/* The length of the set, and its words. */
static bool write_set(const struct layer *layer, const uint8_t *data, const struct layout_sink *to,
                      struct err *err)
{
    struct classic c = classic_of(layer);
    uint8_t length[8];
    put_be64(length, c.m + (layer->geometry[3] >> FORM_BITS));
    return to->write(to->ctx, 0, length, sizeof length, err) &&
           layout_put(to, 0, data, classic_bytes(c.m), ORDER_BIG_WORDS, err) &&
           layout_put(to, 0, data + classic_bytes(c.m), c.extra, ORDER_LOW_FIRST, err);
}

static bool write_file(const struct layout_filter *filter, const uint8_t *const *data,
                       const struct layout_sink *sink, struct err *err)
{
    const struct layer *layer = &filter->layer[0];
    struct classic c = classic_of(layer);
    unsigned form = layer->geometry[3] & ((1U << FORM_BITS) - 1);
    struct text_sink text = {.sink = {.write = write_text, .ctx = &text}, .to = sink};
    const char *closes = closing(form);
    char opens[HEAD_TEXT];
    uint8_t numbers[16];
    put_be64(numbers, c.m);
    put_be64(numbers + 8, c.k);
    if (form == 0)
        return sink->write(sink->ctx, 0, numbers, sizeof numbers, err) &&
               write_set(layer, data[0], sink, err);
    return sink->write(sink->ctx, 0, opens, (size_t)opening(opens, c.m, c.k), err) &&
           write_set(layer, data[0], &text.sink, err) && flush_text(&text, err) &&
           sink->write(sink->ctx, 0, closes, strlen(closes), err);
}

static uint64_t file_len(const struct layout_filter *filter)
{
    const struct layer *layer = &filter->layer[0];
    struct classic c = classic_of(layer);
    char opens[HEAD_TEXT];
    if ((layer->geometry[3] & AS_JSON) == 0)
        return HEADER + layer->data_len;
    return opening(opens, c.m, c.k) + base64_len(8 + layer->data_len) +
           strlen(closing(layer->geometry[3] & (AS_JSON | NEWLINE)));
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    struct classic c = classic_of(&filter->layer[0]);
    layout_show_number(spec, room, &params[BITS], c.m);
    layout_show_number(spec, room, &params[HASHES], c.k);
    layout_show_choice(spec, room, &params[JSON], filter->layer[0].geometry[3] & AS_JSON);
}

static const struct layout layout = {
    .summary = "bits-and-blooms/bloom (Go), as WriteTo or MarshalJSON writes it",
    .params = params,
    .hash = &hash_murmur3_128_twice,
    .design = design,
    .read = read_file,
    .claims = claims,
    .write = write_file,
    .file_len = file_len,
    .recognize = recognize,
    .show = show,
    .positions = positions,
    .value = value,
    .excess = classic_excess_four,
    .factor = CLASSIC_FACTOR_FOUR,
};

const struct kind kind_bitsandblooms = {CLASSIC_KIND(22, "bitsandblooms", 4),
                                        .sampled_fpr = classic_double_hashed,
                                        .uniting = &classic_uniting};
