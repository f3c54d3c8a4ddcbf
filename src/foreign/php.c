/* SPDX-License-Identifier: MIT
 * The Bloom filter of a PHP class that uses Redis bitmaps. The class has a list of hash functions,
 * each of which gives a key one position of 32 bits, so m is always 2^32. The list is not stored:
 * only the PHP program knows it.
 *
 * Such a bitmap takes up to 512 MiB and is mostly nearly empty. So a filter file stores it with
 * holes, and a foreign file can be a list of the positions of the set bits instead of the bitmap.
 */
#include "foreign/classic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "foreign/hash.h"

enum { FUNCTIONS };

#define USUAL "BKDRHash+SDBMHash+JSHash"

static const struct layout_param params[] = {
    {"functions", NULL, "A+B+...",
     "the hash functions, in any order: BKDRHash, SDBMHash, JSHash, DJBHash, DEKHash, FNVHash, "
     "ELFHash, PJWHash; " USUAL " if not given"},
    {0},
};

static const uint64_t M = (uint64_t)1 << 32;

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    unsigned k = classic_of(layer).k;
    for (unsigned j = 0; j < k; j++) {
        const uint64_t *hash = hashes_lane(keys, j);
        for (size_t i = 0; i < n; i++)
            out[i * k + j] = (uint32_t)hash[i];
    }
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    if (c.m != M || c.k > PHP_MOST || c.variant != 0 || c.extra != 0 || layer->geometry[3] != 0)
        return fail(err, "its geometry is not one of the PHP class");
    return classic_check(layer, err);
}

/* The seed that lists the functions of a spec. */
static bool parse(const struct layout_spec *spec, uint64_t *seed, struct err *err)
{
    const char *at = spec->value[FUNCTIONS] != NULL ? spec->value[FUNCTIONS] : USUAL;
    *seed = 0;
    for (unsigned i = 0;; i++) {
        char name[LAYOUT_TEXT];
        size_t len = strcspn(at, "+");
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        unsigned function = php_by_name(name);
        if (function == 0)
            return fail(err,
                        "layout php: no hash function '%s': there are BKDRHash, SDBMHash, "
                        "JSHash, DJBHash, DEKHash, FNVHash, ELFHash and PJWHash",
                        name);
        for (uint64_t given = *seed; given != 0; given >>= 4)
            if ((given & 15) == function)
                return fail(err, "layout php: %s is given twice", name);
        *seed |= (uint64_t)function << 4 * i;
        if (at[len] == '\0')
            return true;
        at += len + 1;
    }
}

static bool describe(const struct layout_spec *spec, struct classic *c, struct layout_filter *out,
                     struct err *err)
{
    uint64_t seed;
    if (!parse(spec, &seed, err))
        return false;
    *c = (struct classic){.m = M, .k = php_functions(seed)};
    classic_begin(spec, c, out);
    out->seed = seed;
    return true;
}

/* The size is fixed. Without p, the capacity is the number of keys that set half of the bits, and n
 * must not exceed it. */
static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    struct classic c;
    const struct layout_spec nothing = {0};
    if (!describe(spec, &c, out, err))
        return false;
    if (p > 0)
        return classic_design_for(&c, n, p, out, err);
    classic_design(&c, &nothing, out);
    return n <= out->n_design ||
           fail(err, "it holds at most %" PRIu64 " keys: half of its bits are set then",
                out->n_design);
}

/* A list of positions: decimal numbers, one a line. */
struct list {
    const char *name, *at, *end;
    uint64_t line;
};

/* 1: *position is set; 0: the list is at its end; -1: a bad line. */
static int next_position(struct list *list, uint64_t *position, struct err *err)
{
    enum { DIGITS = 10 }; /* of 2^32 - 1 */
    if (list->at == list->end)
        return 0;
    const char *from = list->at;
    list->line++;
    *position = 0;
    for (; list->at < list->end && *list->at >= '0' && *list->at <= '9' && list->at - from < DIGITS;
         list->at++)
        *position = *position * 10 + (uint64_t)(*list->at - '0');
    bool ends = list->at == list->end || *list->at == '\n';
    if (list->at == from || !ends || *position >= M) {
        fail(err, "%s:%" PRIu64 ": not a number from 0 to 4294967295", list->name, list->line);
        return -1;
    }
    list->at += list->at < list->end;
    return 1;
}

/* Only pages with set bits take memory. */
static bool read_list(const struct layout_foreign *in, struct layout_bits *bits, struct err *err)
{
    const char *text = (const char *)in->data[0];
    struct list list = {.name = in->name[0], .at = text, .end = text + in->len[0]};
    uint64_t bytes = 0, position;
    int got;
    uint8_t *data = calloc(1, (size_t)(M / 8));
    if (data == NULL)
        return fail(err, "out of memory");
    while ((got = next_position(&list, &position, err)) > 0) {
        data[position / 8] |= (uint8_t)(1U << position % 8);
        if (position / 8 >= bytes)
            bytes = position / 8 + 1;
    }
    if (got < 0) {
        free(data);
        return false;
    }
    *bits = (struct layout_bits){.data = data, .len = bytes, .owned = data};
    return true;
}

static bool is_list(const char *name)
{
    size_t len = strlen(name), suffix = sizeof ".bits" - 1;
    return len >= suffix && strcmp(name + len - suffix, ".bits") == 0;
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    struct classic c;
    if (!describe(spec, &c, out, err))
        return false;
    classic_design(&c, spec, out);
    return is_list(in->name[0]) ? read_list(in, &bits[0], err)
                                : classic_read_bitmap(in, M, &bits[0], err);
}

struct lines {
    const struct layout_sink *sink;
    size_t len;
    char text[1 << 14];
};

static bool flush_lines(struct lines *out, struct err *err)
{
    size_t len = out->len;
    out->len = 0;
    return len == 0 || out->sink->write(out->sink->ctx, 0, out->text, len, err);
}

static bool write_position(struct lines *out, uint64_t position, struct err *err)
{
    enum { LINE = sizeof "4294967295\n" };
    if (sizeof out->text - out->len < LINE && !flush_lines(out, err))
        return false;
    out->len += (size_t)snprintf(out->text + out->len, LINE, "%" PRIu64 "\n", position);
    return true;
}

static bool write_list(const uint8_t *data, const struct layout_sink *sink, struct err *err)
{
    struct lines out = {.sink = sink};
    for (uint64_t at = 0; at < M / 8; at += 8)
        for (uint64_t word = get_le64(data + at); word != 0; word &= word - 1)
            if (!write_position(&out, at * 8 + (unsigned)__builtin_ctzll(word), err))
                return false;
    return flush_lines(&out, err);
}

static bool write_file(const struct layout_filter *filter, const uint8_t *const *data,
                       const struct layout_sink *sink, struct err *err)
{
    return is_list(sink->name) ? write_list(data[0], sink, err)
                               : classic_write_bitmap(filter, data, sink, err);
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    const char *between = ":functions=";
    size_t len = strlen(spec);
    for (uint64_t seed = filter->seed; seed != 0 && len < room; seed >>= 4, between = "+") {
        const char *name = php_name((unsigned)(seed & 15));
        int n = snprintf(spec + len, room - len, "%s%s", between, name != NULL ? name : "?");
        len += (size_t)n;
    }
}

static const struct layout layout = {
    .summary = "the Bloom filter of a PHP class with BKDR, SDBM, JS and other hashes, "
               "a bitmap in Redis or a list of the bits set",
    .params = params,
    .hash = &hash_php_32,
    .design = design,
    .read = read_file,
    .write = write_file,
    .file_len = classic_bitmap_len,
    .show = show,
    .sparse = true,
    .caveat = "the hash functions agree with each other on many short keys, so these set fewer "
              "than k bits: the real FPR is higher, and the number of keys differs",
    .positions = positions,
    .redis = &classic_redis,
};

const struct kind kind_php = {CLASSIC_KIND(19, "php", PHP_MOST), .uniting = &classic_uniting};
