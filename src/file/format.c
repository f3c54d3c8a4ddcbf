/* SPDX-License-Identifier: MIT */
#include "file/format.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "keys/digest.h"
#include "keys/encoding.h"
#include "keys/xxh3.h"

/* The first bytes of a filter file. 0x89 is neither ASCII nor the first byte of a UTF-8 character.
 * A transfer in text mode damages CR LF and ^Z first. */
static const uint8_t magic[8] = {0x89, 's', 'e', 'e', 'n', '\r', '\n', 0x1a};

/* Numbers that lie alike in the file and in memory: `n` of them, of `width` bytes. */
struct member {
    uint16_t offset; /* in the file */
    uint8_t width, n;
    size_t at; /* in the struct */
};

/* Offsets in a header slot that the code names. */
enum {
    OFF_VERSION = 8,
    OFF_SLOT_LEN = 12,
    OFF_EPOCH = 32,
    OFF_HASH = 44,
    OFF_SEED = 48,
    OFF_ID = 56,
    OFF_PREP = 72,
    OFF_ZERO_4 = 76, /* 4 bytes that must be zero */
    OFF_CREATED = 104,
    OFF_UNUSED = 156,
    OFF_SECRET_ID = 160,
    OFF_READING = 192,
    OFF_LAYERS = 256,
};

/* Of a header slot: all but the magic, version, length and hash function. */
static const struct member in_header[] = {
    {16, 4, 1, offsetof(struct header, compat)},
    {20, 4, 1, offsetof(struct header, ro_compat)},
    {24, 4, 1, offsetof(struct header, incompat)},
    {28, 4, 1, offsetof(struct header, n_layers)},
    {OFF_EPOCH, 8, 1, offsetof(struct header, epoch)},
    {40, 4, 1, offsetof(struct header, state)},
    {OFF_SEED, 8, 1, offsetof(struct header, seed)},
    {OFF_ID, 1, 16, offsetof(struct header, id)},
    {OFF_PREP, 4, 1, offsetof(struct header, prep)},
    {80, 8, 1, offsetof(struct header, n_design)},
    {88, 8, 1, offsetof(struct header, fpr_design)},
    {96, 8, 1, offsetof(struct header, file_len)},
    {OFF_CREATED, 8, 1, offsetof(struct header, created)},
    {112, 8, 1, offsetof(struct header, changed)},
    {120, 8, 1, offsetof(struct header, counters.records)},
    {128, 8, 1, offsetof(struct header, counters.keys_added)},
    {136, 8, 1, offsetof(struct header, made)},
    {144, 8, 1, offsetof(struct header, period)},
    {152, 4, 1, offsetof(struct header, policy)},
    {OFF_SECRET_ID, 1, HASH_MARK, offsetof(struct header, secret.id)},
    {176, 1, HASH_MARK, offsetof(struct header, secret.proof)},
    {OFF_READING, 4, 1, offsetof(struct header, reading.how)},
    {196, 4, READING_FIELDS, offsetof(struct header, reading.field)},
};

/* Of a layer's entry: all but its kind, which comes first. */
static const struct member in_layer[] = {
    {4, 4, 1, offsetof(struct layer, generation)},  {8, 8, 1, offsetof(struct layer, n_design)},
    {16, 8, 1, offsetof(struct layer, fpr_design)}, {24, 8, 1, offsetof(struct layer, data_len)},
    {32, 8, 4, offsetof(struct layer, geometry)},   {64, 8, 1, offsetof(struct layer, since)},
    {72, 8, 1, offsetof(struct layer, n_before)},   {80, 8, 1, offsetof(struct layer, fpr_closed)},
};

enum { N_IN_HEADER = sizeof in_header / sizeof *in_header };
enum { N_IN_LAYER = sizeof in_layer / sizeof *in_layer };

_Static_assert(sizeof(enum file_state) == 4 && sizeof(enum policy) == 4, "as in the table");

enum {
    LAYER_LEN = 88,
    CHECKSUM_LEN = 8,
    IMMUTABLE_ALIGN = 8, /* alignment of tables and data in immutable files: allows word reads */
};

_Static_assert(OFF_LAYERS + FORMAT_MAX_LAYERS * LAYER_LEN + FORMAT_FEATURES + CHECKSUM_LEN ==
                   FORMAT_PAGE,
               "a slot has room for all layers and features");
_Static_assert((int)FORMAT_PROFILE == (int)PROFILE_BYTES, "the profile has its bytes");

const char *format_kind_name(const struct header *h)
{
    for (unsigned i = 1; i < h->n_layers; i++)
        if (h->layers[i].kind != h->layers[0].kind)
            return "mixed";
    return h->layers[0].kind->name;
}

static size_t batches_off(const struct header *h)
{
    return OFF_LAYERS + (size_t)h->n_layers * LAYER_LEN;
}

/* Where the members that every program knows end. */
static size_t known_len(const struct header *h)
{
    return batches_off(h) + (size_t)h->n_batches * FORMAT_BATCH;
}

/* The bytes of compat features, of which the bits tell. */
static size_t features_len(const struct header *h)
{
    uint32_t bits = h->compat >> COMPAT_BYTES << COMPAT_BYTES;
    return bits == 0 ? 0 : bits == COMPAT_PROFILE ? FORMAT_PROFILE : FORMAT_FEATURES;
}

size_t format_len(const struct header *h)
{
    return format_is_immutable(h) ? known_len(h) + features_len(h) + CHECKSUM_LEN : FORMAT_PAGE;
}

/* Copies members from the file's byte order to the machine's, or back: both exchange the same
 * bytes, or none. */
static void copy_member(uint8_t *to, const uint8_t *from, const struct member *m)
{
    for (const uint8_t *end = from + m->n * m->width; from < end; from += m->width, to += m->width)
        if (m->width == 8) {
            uint64_t v = get_le64(from);
            memcpy(to, &v, sizeof v);
        } else if (m->width == 4) {
            uint32_t v = get_le32(from);
            memcpy(to, &v, sizeof v);
        } else {
            *to = *from;
        }
}

static void encode_members(const void *from, uint8_t *out, const struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        copy_member(out + m[i].offset, (const uint8_t *)from + m[i].at, &m[i]);
}

static void decode_members(const uint8_t *p, void *to, const struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        copy_member((uint8_t *)to + m[i].at, p + m[i].offset, &m[i]);
}

size_t format_encode(const struct header *h, uint8_t *out)
{
    size_t len = format_len(h), features = features_len(h);
    memset(out, 0, len);
    memcpy(out, magic, sizeof magic);
    put_le32(out + OFF_VERSION, FORMAT_VERSION);
    put_le32(out + OFF_SLOT_LEN, (uint32_t)len);
    put_le32(out + OFF_HASH, h->hash->id);
    encode_members(h, out, in_header, N_IN_HEADER);
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint8_t *layer = out + OFF_LAYERS + (size_t)i * LAYER_LEN;
        put_le32(layer, h->layers[i].kind->id);
        encode_members(&h->layers[i], layer, in_layer, N_IN_LAYER);
    }
    memcpy(out + batches_off(h), h->batch, (size_t)h->n_batches * FORMAT_BATCH);
    memcpy(out + len - CHECKSUM_LEN - features, h->features + FORMAT_FEATURES - features, features);
    if ((h->compat & COMPAT_PROFILE) != 0)
        profile_encode(&h->profile, out + len - CHECKSUM_LEN - FORMAT_PROFILE);
    put_le64(out + len - CHECKSUM_LEN, xxh3_bytes(out, len - CHECKSUM_LEN, 0));
    return len;
}

double format_rate(double p)
{
    return fmin(fmax(p, DBL_MIN), 1 - DBL_EPSILON);
}

uint64_t format_epoch(const uint8_t *slot)
{
    return get_le64(slot + OFF_EPOCH);
}

/* One slot with the file's own fields is enough: the other one may be damaged. */
static bool slot_continues(const uint8_t *slot, const struct header *h)
{
    return format_epoch(slot) >= h->epoch && memcmp(slot + OFF_ID, h->id, sizeof h->id) == 0 &&
           get_le64(slot + OFF_SEED) == h->seed && get_le32(slot + OFF_PREP) == h->prep &&
           get_le64(slot + OFF_CREATED) == h->created;
}

bool format_continues(const uint8_t *start, const struct header *h)
{
    uint8_t same[FORMAT_MAX_HEADER];
    if (format_is_immutable(h)) {
        size_t len = format_encode(h, same);
        return memcmp(start, same, len) == 0;
    }
    return slot_continues(start + FORMAT_SLOT_A, h) || slot_continues(start + FORMAT_SLOT_B, h);
}

bool format_is_filter(const uint8_t *p, size_t avail)
{
    return avail >= sizeof magic && memcmp(p, magic, sizeof magic) == 0;
}

/* The errors below are predicates that follow the file's name. */

static bool damaged(struct err *err, const char *what)
{
    return fail(err, "is damaged: %s", what);
}

static unsigned lowest_bit(uint32_t word)
{
    unsigned i = 0;
    while (!(word >> i & 1))
        i++;
    return i;
}

/* Is this a complete header of this format version with a matching checksum? */
static bool check_frame(const uint8_t *p, size_t avail, struct err *err)
{
    if (!format_is_filter(p, avail))
        return fail(err, "is not a seen filter");
    if (avail < OFF_LAYERS)
        return fail(err, "is truncated: it ends within its header");
    uint32_t version = get_le32(p + OFF_VERSION);
    if (version > FORMAT_VERSION)
        return fail(err, "was written by a newer version of seen (format %" PRIu32 ")", version);
    if (version != FORMAT_VERSION)
        return damaged(err, "its header has no valid format version");
    uint32_t len = get_le32(p + OFF_SLOT_LEN);
    if (len < OFF_LAYERS + CHECKSUM_LEN || len > FORMAT_MAX_HEADER)
        return damaged(err, "its header has no valid length");
    if (len > avail)
        return fail(err, "is truncated: it ends within its header");
    if (xxh3_bytes(p, len - CHECKSUM_LEN, 0) != get_le64(p + len - CHECKSUM_LEN))
        return damaged(err, "its header does not match its checksum");
    return true;
}

/* The number of batches follows from the header's length. The caller checks it with format_len. */
static bool decode_batches(const uint8_t *p, struct header *h, struct err *err)
{
    if ((h->incompat & INCOMPAT_BATCHES) == 0)
        return true;
    size_t without = format_len(h), len = get_le32(p + OFF_SLOT_LEN);
    if (len <= without || (len - without) / FORMAT_BATCH > FORMAT_MAX_BATCHES)
        return damaged(err, "its header has no valid number of batches");
    h->n_batches = (unsigned)((len - without) / FORMAT_BATCH);
    memcpy(h->batch, p + batches_off(h), (size_t)h->n_batches * FORMAT_BATCH);
    return true;
}

/* The checksum holds; the fields are still untrusted. */
static bool decode_fields(const uint8_t *p, struct header *h, struct err *err)
{
    decode_members(p, h, in_header, N_IN_HEADER);
    if (h->epoch == 0 || h->epoch > INT64_MAX)
        return damaged(err, "its header has no valid epoch");
    uint32_t unknown = h->incompat & ~(uint32_t)INCOMPAT_KNOWN;
    if (unknown != 0)
        return fail(err, "was written by a newer version of seen (incompatible feature %u)",
                    lowest_bit(unknown));
    if (h->n_layers == 0 || h->n_layers > FORMAT_MAX_LAYERS)
        return damaged(err, "its header has no valid number of layers");
    if (!decode_batches(p, h, err))
        return false;
    if (get_le32(p + OFF_SLOT_LEN) != format_len(h))
        return damaged(err, "its header has the wrong length");
    if ((uint32_t)h->state > STATE_DIRTY || (format_is_immutable(h) && h->state != STATE_CLEAN))
        return damaged(err, "its header has no valid state");
    uint32_t hash = get_le32(p + OFF_HASH);
    h->hash = hash_by_id(hash);
    if (h->hash == NULL)
        return fail(err, "was written by a newer version of seen (hash function %" PRIu32 ")",
                    hash);
    if (h->hash->keyed != format_has_secret(h))
        return damaged(err, h->hash->keyed ? "its hash function needs a secret, and it has none"
                                           : "it has a secret, and a hash function without one");
    unknown = h->prep & ~(uint32_t)(PREP_FLAGS | PREP_ENCODING | PREP_DIGEST);
    if (unknown != 0)
        return fail(err, "was written by a newer version of seen (key preparation %u)",
                    lowest_bit(unknown));
    unsigned encoding = prep_encoding(h->prep);
    if (encoding != ENCODE_NONE && encoding_by_id(encoding) == NULL)
        return fail(err, "was written by a newer version of seen (key encoding %u)", encoding);
    unsigned digest = prep_digest(h->prep);
    if (digest != DIGEST_NONE && digest_by_id(digest) == NULL)
        return fail(err, "was written by a newer version of seen (key digest %u)", digest);
    if ((digest != DIGEST_NONE && (encoding != ENCODE_NONE || (h->prep & PREP_HEX) != 0)) ||
        (h->prep & PREP_CASE) == PREP_CASE)
        return damaged(err, "its header has no valid key preparation");
    if (!reading_is_valid(&h->reading))
        return damaged(err, "its header has no valid account of how keys were read");
    if (!(h->fpr_design > 0 && h->fpr_design < 1))
        return damaged(err, "its header has no valid false positive rate");
    return ((uint32_t)h->policy <= POLICY_RING &&
            (h->policy == POLICY_FIXED || !format_is_immutable(h))) ||
           damaged(err, "its header has no valid policy");
}

static bool decode_layer(const uint8_t *p, unsigned number, struct layer *layer, struct err *err)
{
    uint32_t kind = get_le32(p);
    decode_members(p, layer, in_layer, N_IN_LAYER);
    layer->kind = kind_by_id(kind);
    if (layer->kind == NULL)
        return fail(err, "was written by a newer version of seen (layer kind %" PRIu32 ")", kind);
    if (!(layer->fpr_design > 0 && layer->fpr_design < 1))
        return fail(err, "is damaged: layer %u has no valid false positive rate", number);
    return (layer->fpr_closed >= 0 && layer->fpr_closed <= 1) ||
           fail(err, "is damaged: layer %u has no valid history", number);
}

static uint64_t sums_len(const struct layer *layer)
{
    return layer_pages(layer) * FORMAT_SUM; /* at most 2^52 * 4 */
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

static uint64_t first_place(const struct header *h)
{
    return format_is_immutable(h) ? format_len(h) : FORMAT_FIRST_LAYER;
}

/* Places a layer at offset `at` and returns where it ends, less than 2^64 if `at` and its length
 * are below 2^63. */
static uint64_t place(struct layer *layer, bool immutable, uint64_t at)
{
    if (immutable) {
        layer->data_off = align_up(at, IMMUTABLE_ALIGN);
        layer->sums_off = align_up(layer->data_off + layer->data_len, IMMUTABLE_ALIGN);
        layer->touched_off = 0;
        return layer->sums_off + sums_len(layer);
    }
    layer->sums_off = align_up(at, FORMAT_PAGE);
    layer->touched_off = align_up(layer->sums_off + sums_len(layer), FORMAT_PAGE);
    layer->data_off = align_up(layer->touched_off + (layer_pages(layer) + 7) / 8, FORMAT_PAGE);
    return layer->data_off + layer->data_len;
}

static bool check_lanes(const struct header *h, struct err *err)
{
    for (unsigned i = 0; i < h->n_layers; i++)
        if (h->layers[i].kind->lanes > h->hash->lanes ||
            (kind_is_foreign(h->layers[i].kind) && h->hash->keyed))
            return fail(err,
                        "is damaged: layer %u is of a kind that its hash function does not fit", i);
    return true;
}

/* Places the layers. Does the last one end at the file's end? */
static bool decode_places(struct header *h, struct err *err)
{
    /* Offsets must fit in off_t. */
    if (h->file_len > INT64_MAX)
        return damaged(err, "its header has no valid file length");
    bool fixed = format_is_immutable(h);
    uint64_t at = first_place(h);
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct layer *layer = &h->layers[i];
        if (layer->data_len == 0 || layer->data_len > h->file_len)
            return fail(err, "is damaged: layer %u has no valid length", i);
        at = place(layer, fixed, at);
        if (at > h->file_len)
            return fail(err, "is damaged: layer %u ends behind the end of the file", i);
        /* Kinds that change in place rely on the alignment of mutable files. */
        if (fixed && kind_takes_keys(layer->kind))
            return fail(err, "is damaged: layer %u is of a kind that cannot be in this file", i);
    }
    if (at != h->file_len)
        return damaged(err, "its layers do not end where its header says that the file ends");
    return true;
}

/* Generations must differ, so that one layer takes keys, and one at most is void. */
static bool check_policy(const struct header *h, struct err *err)
{
    unsigned least = h->policy == POLICY_RING ? 2 : 1;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct kind *kind = h->layers[i].kind;
        if (h->policy != POLICY_FIXED && kind_is_foreign(kind) && !kind_is_exact(kind))
            return damaged(err, "its layers do not fit its policy");
        if (h->policy == POLICY_FIXED && (h->layers[i].generation != 0 || h->layers[i].since != 0))
            return fail(err, "is damaged: layer %u has bytes set that must be zero", i);
        for (unsigned j = 0; j < i && h->policy != POLICY_FIXED; j++)
            if (h->layers[j].generation == h->layers[i].generation)
                return fail(err, "is damaged: layers %u and %u are of the same generation", j, i);
    }
    return h->n_layers >= least || damaged(err, "its layers do not fit its policy");
}

/* A key has one count, so a layer that counts keys must be alone. */
static bool check_kinds(const struct header *h, struct err *err)
{
    if (h->n_batches > 0 && !kind_counts(h->layers[0].kind))
        return damaged(err, "its header has batches, which its layers cannot have");
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct err why;
        if (kind_counts(h->layers[i].kind) && h->n_layers > 1)
            return fail(err, "is damaged: layer %u counts keys, but is not alone", i);
        if (!h->layers[i].kind->check(&h->layers[i], &why))
            return fail(err, "is damaged: layer %u: %s", i, why.text);
    }
    return true;
}

bool format_decode(const uint8_t *p, size_t avail, struct header *h, struct err *err)
{
    memset(h, 0, sizeof *h);
    if (!check_frame(p, avail, err) || !decode_fields(p, h, err))
        return false;
    size_t known = known_len(h), features = features_len(h);
    size_t end = format_len(h) - CHECKSUM_LEN - features;
    if (!bytes_zero(p + OFF_ZERO_4, 4) || (h->period != 0 && !format_forgets(h)) ||
        !bytes_zero(p + OFF_UNUSED, OFF_SECRET_ID - OFF_UNUSED) ||
        (!format_has_secret(h) && !bytes_zero(p + OFF_SECRET_ID, OFF_READING - OFF_SECRET_ID)) ||
        !bytes_zero(p + known, end - known))
        return damaged(err, "its header has bytes set that must be zero");
    memcpy(h->features + FORMAT_FEATURES - features, p + end, features);
    if ((h->compat & COMPAT_PROFILE) != 0 &&
        !profile_decode(h->features + FORMAT_FEATURES - FORMAT_PROFILE, &h->profile))
        return damaged(err, "its header has no valid profile of its keys");
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!decode_layer(p + OFF_LAYERS + (size_t)i * LAYER_LEN, i, &h->layers[i], err))
            return false;
    return check_lanes(h, err) && decode_places(h, err) && check_kinds(h, err) &&
           check_policy(h, err);
}

/* A file is immutable if no keys can be added to any of its layers. Then, unless it is replaced to
 * add keys, no profile begins. */
void format_place(struct header *h)
{
    h->incompat &= INCOMPAT_SECRET;
    h->incompat |= INCOMPAT_IMMUTABLE | (h->n_batches > 0 ? INCOMPAT_BATCHES : 0);
    for (unsigned i = 0; i < h->n_layers; i++)
        if (kind_takes_keys(h->layers[i].kind))
            h->incompat &= ~(uint32_t)INCOMPAT_IMMUTABLE;
    if (format_is_immutable(h) && h->profile.n == 0 && !kind_counts(h->layers[0].kind))
        h->compat &= ~(uint32_t)COMPAT_PROFILE;
    h->file_len = first_place(h);
    for (unsigned i = 0; i < h->n_layers; i++)
        h->file_len = place(&h->layers[i], format_is_immutable(h), h->file_len);
}

void format_place_last(struct header *h)
{
    h->file_len = place(&h->layers[h->n_layers - 1], format_is_immutable(h), h->file_len);
}

uint64_t format_file_len(const struct layer *layer)
{
    struct header h = {.n_layers = 1};
    h.layers[0] = *layer;
    format_place(&h);
    return h.file_len;
}

uint64_t format_now(void)
{
    time_t now = time(NULL);
    return now > 0 ? (uint64_t)now : 0;
}

uint64_t format_layer_seed(const struct header *h, unsigned i)
{
    uint8_t name[sizeof h->id + 8];
    memcpy(name, h->id, sizeof h->id);
    put_le64(name + sizeof h->id, i);
    return xxh3_bytes(name, sizeof name, 0);
}
