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

/* Offsets in a header slot. */
enum {
    OFF_MAGIC = 0,
    OFF_VERSION = 8,
    OFF_SLOT_LEN = 12,
    OFF_COMPAT = 16,
    OFF_RO_COMPAT = 20,
    OFF_INCOMPAT = 24,
    OFF_N_LAYERS = 28,
    OFF_EPOCH = 32,
    OFF_STATE = 40,
    OFF_HASH = 44,
    OFF_SEED = 48,
    OFF_ID = 56,
    OFF_PREP = 72,
    OFF_ZERO_4 = 76, /* 4 bytes that must be zero */
    OFF_N_DESIGN = 80,
    OFF_FPR_DESIGN = 88,
    OFF_FILE_LEN = 96,
    OFF_CREATED = 104,
    OFF_CHANGED = 112,
    OFF_RECORDS = 120,
    OFF_KEYS_ADDED = 128,
    OFF_MADE = 136,
    OFF_PERIOD = 144,
    OFF_POLICY = 152,
    OFF_UNUSED = 156,
    OFF_SECRET_ID = 160,
    OFF_SECRET_PROOF = 176,
    OFF_READING = 192,
    OFF_FIELDS = 196,
    OFF_LAYERS = 256,
};

/* Offsets in a layer's entry. */
enum {
    LAYER_KIND = 0,
    LAYER_GENERATION = 4,
    LAYER_N_DESIGN = 8,
    LAYER_FPR_DESIGN = 16,
    LAYER_DATA_LEN = 24,
    LAYER_GEOMETRY = 32,
    LAYER_SINCE = 64,
    LAYER_N_BEFORE = 72,
    LAYER_FPR_CLOSED = 80,
    LAYER_LEN = 88,
};

enum {
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

static void encode_layer(const struct layer *layer, uint8_t *out)
{
    put_le32(out + LAYER_KIND, layer->kind->id);
    put_le32(out + LAYER_GENERATION, layer->generation);
    put_le64(out + LAYER_N_DESIGN, layer->n_design);
    put_double(out + LAYER_FPR_DESIGN, layer->fpr_design);
    put_le64(out + LAYER_DATA_LEN, layer->data_len);
    for (int i = 0; i < 4; i++)
        put_le64(out + LAYER_GEOMETRY + 8 * i, layer->geometry[i]);
    put_le64(out + LAYER_SINCE, layer->since);
    put_le64(out + LAYER_N_BEFORE, layer->n_before);
    put_double(out + LAYER_FPR_CLOSED, layer->fpr_closed);
}

size_t format_encode(const struct header *h, uint8_t *out)
{
    size_t len = format_len(h), features = features_len(h);
    memset(out, 0, len);
    memcpy(out + OFF_MAGIC, magic, sizeof magic);
    put_le32(out + OFF_VERSION, FORMAT_VERSION);
    put_le32(out + OFF_SLOT_LEN, (uint32_t)len);
    put_le32(out + OFF_COMPAT, h->compat);
    put_le32(out + OFF_RO_COMPAT, h->ro_compat);
    put_le32(out + OFF_INCOMPAT, h->incompat);
    put_le32(out + OFF_N_LAYERS, h->n_layers);
    put_le64(out + OFF_EPOCH, h->epoch);
    put_le32(out + OFF_STATE, (uint32_t)h->state);
    put_le32(out + OFF_HASH, h->hash->id);
    put_le64(out + OFF_SEED, h->seed);
    memcpy(out + OFF_ID, h->id, sizeof h->id);
    put_le32(out + OFF_PREP, h->prep);
    put_le64(out + OFF_N_DESIGN, h->n_design);
    put_double(out + OFF_FPR_DESIGN, h->fpr_design);
    put_le64(out + OFF_FILE_LEN, h->file_len);
    put_le64(out + OFF_CREATED, h->created);
    put_le64(out + OFF_CHANGED, h->changed);
    put_le64(out + OFF_RECORDS, h->counters.records);
    put_le64(out + OFF_KEYS_ADDED, h->counters.keys_added);
    put_le64(out + OFF_MADE, h->made);
    put_le64(out + OFF_PERIOD, h->period);
    put_le32(out + OFF_POLICY, (uint32_t)h->policy);
    memcpy(out + OFF_SECRET_ID, h->secret.id, sizeof h->secret.id);
    memcpy(out + OFF_SECRET_PROOF, h->secret.proof, sizeof h->secret.proof);
    put_le32(out + OFF_READING, h->reading.how);
    for (int i = 0; i < READING_FIELDS; i++)
        put_le32(out + OFF_FIELDS + 4 * i, (uint32_t)h->reading.field[i]);
    for (unsigned i = 0; i < h->n_layers; i++)
        encode_layer(&h->layers[i], out + OFF_LAYERS + (size_t)i * LAYER_LEN);
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

static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != 0)
            return false;
    return true;
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
    h->epoch = get_le64(p + OFF_EPOCH);
    if (h->epoch == 0 || h->epoch > INT64_MAX)
        return damaged(err, "its header has no valid epoch");
    h->compat = get_le32(p + OFF_COMPAT);
    h->ro_compat = get_le32(p + OFF_RO_COMPAT);
    h->incompat = get_le32(p + OFF_INCOMPAT);
    uint32_t unknown = h->incompat & ~(uint32_t)INCOMPAT_KNOWN;
    if (unknown != 0)
        return fail(err, "was written by a newer version of seen (incompatible feature %u)",
                    lowest_bit(unknown));
    h->n_layers = get_le32(p + OFF_N_LAYERS);
    if (h->n_layers == 0 || h->n_layers > FORMAT_MAX_LAYERS)
        return damaged(err, "its header has no valid number of layers");
    if (!decode_batches(p, h, err))
        return false;
    if (get_le32(p + OFF_SLOT_LEN) != format_len(h))
        return damaged(err, "its header has the wrong length");
    uint32_t state = get_le32(p + OFF_STATE);
    if (state > STATE_DIRTY || (format_is_immutable(h) && state != STATE_CLEAN))
        return damaged(err, "its header has no valid state");
    h->state = (enum file_state)state;
    uint32_t hash = get_le32(p + OFF_HASH);
    h->hash = hash_by_id(hash);
    if (h->hash == NULL)
        return fail(err, "was written by a newer version of seen (hash function %" PRIu32 ")",
                    hash);
    if (h->hash->keyed != format_has_secret(h))
        return damaged(err, h->hash->keyed ? "its hash function needs a secret, and it has none"
                                           : "it has a secret, and a hash function without one");
    memcpy(h->secret.id, p + OFF_SECRET_ID, sizeof h->secret.id);
    memcpy(h->secret.proof, p + OFF_SECRET_PROOF, sizeof h->secret.proof);
    h->seed = get_le64(p + OFF_SEED);
    memcpy(h->id, p + OFF_ID, sizeof h->id);
    h->prep = get_le32(p + OFF_PREP);
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
    h->reading.how = get_le32(p + OFF_READING);
    for (int i = 0; i < READING_FIELDS; i++)
        h->reading.field[i] = (int32_t)get_le32(p + OFF_FIELDS + 4 * i);
    if (!reading_is_valid(&h->reading))
        return damaged(err, "its header has no valid account of how keys were read");
    h->n_design = get_le64(p + OFF_N_DESIGN);
    h->fpr_design = get_double(p + OFF_FPR_DESIGN);
    if (!(h->fpr_design > 0 && h->fpr_design < 1))
        return damaged(err, "its header has no valid false positive rate");
    h->file_len = get_le64(p + OFF_FILE_LEN);
    h->created = get_le64(p + OFF_CREATED);
    h->changed = get_le64(p + OFF_CHANGED);
    uint32_t policy = get_le32(p + OFF_POLICY);
    h->policy = (enum policy)policy;
    return (policy <= POLICY_RING && (policy == POLICY_FIXED || !format_is_immutable(h))) ||
           damaged(err, "its header has no valid policy");
}

static void decode_counters(const uint8_t *p, struct header *h)
{
    h->counters.records = get_le64(p + OFF_RECORDS);
    h->counters.keys_added = get_le64(p + OFF_KEYS_ADDED);
    h->made = get_le64(p + OFF_MADE);
    h->period = get_le64(p + OFF_PERIOD);
}

static bool decode_layer(const uint8_t *p, unsigned number, struct layer *layer, struct err *err)
{
    uint32_t kind = get_le32(p + LAYER_KIND);
    layer->kind = kind_by_id(kind);
    if (layer->kind == NULL)
        return fail(err, "was written by a newer version of seen (layer kind %" PRIu32 ")", kind);
    layer->generation = get_le32(p + LAYER_GENERATION);
    layer->n_design = get_le64(p + LAYER_N_DESIGN);
    layer->fpr_design = get_double(p + LAYER_FPR_DESIGN);
    if (!(layer->fpr_design > 0 && layer->fpr_design < 1))
        return fail(err, "is damaged: layer %u has no valid false positive rate", number);
    layer->data_len = get_le64(p + LAYER_DATA_LEN);
    for (int i = 0; i < 4; i++)
        layer->geometry[i] = get_le64(p + LAYER_GEOMETRY + 8 * i);
    layer->since = get_le64(p + LAYER_SINCE);
    layer->n_before = get_le64(p + LAYER_N_BEFORE);
    layer->fpr_closed = get_double(p + LAYER_FPR_CLOSED);
    return (layer->fpr_closed >= 0 && layer->fpr_closed <= 1) ||
           fail(err, "is damaged: layer %u has no valid history", number);
}

static uint64_t sums_len(const struct layer *layer)
{
    return layer_pages(layer) * FORMAT_SUM; /* at most 2^52 * 4 */
}

static uint64_t touched_len(const struct layer *layer)
{
    uint64_t pages = layer_pages(layer);
    return pages / 8 + (pages % 8 != 0);
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
    layer->data_off = align_up(layer->touched_off + touched_len(layer), FORMAT_PAGE);
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

static bool has_history(const struct layer *l)
{
    return l->generation != 0 || l->since != 0;
}

/* Generations must differ, so that one layer takes keys, and one at most is void. */
static bool check_policy(const struct header *h, struct err *err)
{
    unsigned least = h->policy == POLICY_RING ? 2 : 1;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct kind *kind = h->layers[i].kind;
        if (h->policy != POLICY_FIXED && kind_is_foreign(kind) && !kind_is_exact(kind))
            return damaged(err, "its layers do not fit its policy");
        if (h->policy == POLICY_FIXED && has_history(&h->layers[i]))
            return fail(err, "is damaged: layer %u has bytes set that must be zero", i);
        for (unsigned j = 0; j < i && h->policy != POLICY_FIXED; j++)
            if (h->layers[j].generation == h->layers[i].generation)
                return fail(err, "is damaged: layers %u and %u are of the same generation", j, i);
    }
    return h->n_layers >= least || damaged(err, "its layers do not fit its policy");
}

static bool check_layers(const struct header *h, struct err *err)
{
    if (h->n_batches > 0 && (h->n_layers > 1 || !kind_counts(h->layers[0].kind)))
        return damaged(err, "its header has batches, which its layers cannot have");
    for (unsigned i = 0; i < h->n_layers; i++) {
        struct err why;
        if (!h->layers[i].kind->check(&h->layers[i], &why))
            return fail(err, "is damaged: layer %u: %s", i, why.text);
    }
    return true;
}

/* A filter that counts keys must have a single layer, as a key has one count. */
static bool check_counting(const struct header *h, struct err *err)
{
    for (unsigned i = 0; i < h->n_layers; i++)
        if (kind_counts(h->layers[i].kind) && h->n_layers > 1)
            return fail(err, "is damaged: layer %u counts keys, but is not alone", i);
    return true;
}

bool format_decode(const uint8_t *p, size_t avail, struct header *h, struct err *err)
{
    memset(h, 0, sizeof *h);
    if (!check_frame(p, avail, err) || !decode_fields(p, h, err))
        return false;
    decode_counters(p, h);
    size_t known = known_len(h), features = features_len(h);
    size_t end = format_len(h) - CHECKSUM_LEN - features;
    if (!all_zero(p + OFF_ZERO_4, 4) || (h->period != 0 && !format_forgets(h)) ||
        !all_zero(p + OFF_UNUSED, OFF_SECRET_ID - OFF_UNUSED) ||
        (!format_has_secret(h) && !all_zero(p + OFF_SECRET_ID, OFF_READING - OFF_SECRET_ID)) ||
        !all_zero(p + known, end - known))
        return damaged(err, "its header has bytes set that must be zero");
    memcpy(h->features + FORMAT_FEATURES - features, p + end, features);
    if ((h->compat & COMPAT_PROFILE) != 0 &&
        !profile_decode(h->features + FORMAT_FEATURES - FORMAT_PROFILE, &h->profile))
        return damaged(err, "its header has no valid profile of its keys");
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!decode_layer(p + OFF_LAYERS + (size_t)i * LAYER_LEN, i, &h->layers[i], err))
            return false;
    return check_lanes(h, err) && decode_places(h, err) && check_layers(h, err) &&
           check_policy(h, err) && check_counting(h, err);
}

/* A file is immutable if no keys can be added to any of its layers. Then, unless it is replaced to
 * add keys, no profile begins. */
static void set_features(struct header *h)
{
    h->incompat &= INCOMPAT_SECRET;
    h->incompat |= INCOMPAT_IMMUTABLE | (h->n_batches > 0 ? INCOMPAT_BATCHES : 0);
    for (unsigned i = 0; i < h->n_layers; i++)
        if (kind_takes_keys(h->layers[i].kind))
            h->incompat &= ~(uint32_t)INCOMPAT_IMMUTABLE;
    if (format_is_immutable(h) && h->profile.n == 0 && !kind_counts(h->layers[0].kind))
        h->compat &= ~(uint32_t)COMPAT_PROFILE;
}

void format_place(struct header *h)
{
    set_features(h);
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
